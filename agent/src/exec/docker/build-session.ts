// The line that a build keeps open beside its request, on which BuildKit asks back (gRPC over HTTP/2, the engine being the
// client). dockerode's own session does not answer health checks, so the engine gives it up after 5 s and a slow build
// fails as soon as it asks for anything. Ours answers three questions: alive, yes; credentials, none; all else, unknown.
import { randomUUID } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { performServerHandshake, type ServerHttp2Stream } from 'node:http2'
import type { Duplex } from 'node:stream'
import { ENGINE } from '@berth/shared'
import { EngineError, type Line } from './engine.ts'

const OK = '0'
const UNIMPLEMENTED = '12'
const NO_FIELDS = Buffer.alloc(0)
/** status: SERVING */
const SERVING = Buffer.from([0x08, 0x01])
const ANSWERS: Record<string, Buffer> = {
  '/grpc.health.v1.Health/Check': SERVING,
  '/moby.filesync.v1.Auth/Credentials': NO_FIELDS,
}

/** Its id, for the build. It lasts as long as its connection, which whoever leased `line` cuts. */
export async function openBuildSession(line: Line): Promise<string> {
  const id = randomUUID()
  const socket = await dialSession(line, id)
  const session = performServerHandshake(socket)
  session.on('error', () => socket.destroy()) // the engine cuts it when the build is over
  session.on('stream', (stream, headers) => answer(stream, headers[':path'] ?? ''))
  return id
}

function answer(stream: ServerHttp2Stream, path: string): void {
  stream.on('error', () => {}) // a question that was taken back
  stream.resume()
  const message = ANSWERS[path]
  const head = { ':status': 200, 'content-type': 'application/grpc' }
  if (!message) {
    stream.respond({ ...head, 'grpc-status': UNIMPLEMENTED }, { endStream: true })
    return
  }
  const prefix = Buffer.alloc(5) // not compressed, length
  prefix.writeUInt32BE(message.length, 1)
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': OK }))
  stream.respond(head, { waitForTrailers: true })
  stream.end(Buffer.concat([prefix, message]))
}

function dialSession(line: Line, id: string): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const asked = httpRequest({
      ...line,
      method: 'POST',
      path: '/session',
      headers: {
        host: 'docker',
        connection: 'Upgrade',
        upgrade: 'h2c',
        'x-docker-expose-session-uuid': id,
        'x-docker-expose-session-name': 'berth',
      },
    })
    const timer = setTimeout(() => asked.destroy(new Error('no session in time')), ENGINE.callMs)
    const settle = (act: () => void): void => {
      clearTimeout(timer)
      act()
    }
    asked.on('error', (error) => settle(() => reject(error)))
    asked.on('upgrade', (_, socket, head) =>
      settle(() => {
        socket.on('error', () => {})
        if (head.length > 0) socket.unshift(head)
        resolve(socket)
      }),
    )
    asked.on('response', (answered) => {
      const error = new EngineError('refused', 'it gives builds no session', answered.statusCode)
      settle(() => reject(error))
      answered.on('error', () => {}).destroy()
    })
    asked.end()
  })
}
