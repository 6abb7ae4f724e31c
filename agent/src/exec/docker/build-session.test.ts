// The session of a build, asked as BuildKit asks: a server on a socket takes it over and becomes the client.
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, createServer, type Server } from 'node:http'
import { type ClientHttp2Session, connect } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openBuildSession } from './build-session.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-build-session-'))
const line = { socketPath: join(folder, 'engine.sock'), agent: new Agent({ keepAlive: false }) }
let engine: Server
let client: ClientHttp2Session | undefined

beforeEach(async () => {
  engine = createServer((_, answer) => answer.writeHead(500).end())
  await new Promise<void>((resolve) => engine.listen(line.socketPath, resolve))
})
afterEach(async () => {
  client?.destroy()
  await new Promise((resolve) => engine.close(resolve))
  rmSync(line.socketPath, { force: true })
})

function ask(path: string): Promise<{ status: string; message: string }> {
  const stream = client?.request({ ':method': 'POST', ':path': path, te: 'trailers' })
  if (!stream) throw new Error('nobody opened a session')
  return new Promise((resolve, reject) => {
    let status = ''
    const parts: Buffer[] = []
    stream.on('response', (head) => {
      status = String(head['grpc-status'] ?? '')
    })
    stream.on('trailers', (trailers) => {
      status = String(trailers['grpc-status'])
    })
    stream.on('data', (part: Buffer) => parts.push(part))
    stream.on('error', reject)
    stream.on('end', () => resolve({ status, message: Buffer.concat(parts).toString('hex') }))
    stream.end(Buffer.alloc(5))
  })
}

test('lives, has no credentials and knows nothing else', async () => {
  let name: unknown
  engine.on('upgrade', (request, socket: Duplex) => {
    name = request.headers['x-docker-expose-session-uuid']
    socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n')
    client = connect('http://localhost', { createConnection: () => socket })
  })
  const id = await openBuildSession(line)
  expect(name).toBe(id)
  expect(await ask('/grpc.health.v1.Health/Check')).toEqual({
    status: '0',
    message: '00000000020801',
  })
  const credentials = await ask('/moby.filesync.v1.Auth/Credentials')
  expect(credentials).toEqual({ status: '0', message: '0000000000' })
  expect(await ask('/moby.buildkit.secrets.v1.Secrets/GetSecret')).toEqual({
    status: '12',
    message: '',
  })
})

test('an engine that gives none is named', async () => {
  await expect(openBuildSession(line)).rejects.toMatchObject({ kind: 'refused', status: 500 })
})
