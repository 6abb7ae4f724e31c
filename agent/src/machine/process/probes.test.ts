// Real servers on loopback: the message for each kind of answer.

import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer as createHttp } from 'node:http'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { HealthCheck } from './health.ts'
import { findListeners, findSocketListeners, holdsListener, nameHolder } from './ports.ts'
import { dial, firstLineOf, probe } from './probes.ts'
import { readProcess } from './processes.ts'

const timing = { intervalMs: 1_000, timeoutMs: 300, startPeriodMs: 0, retries: 1 }
const get = (path: string, status: number | null = null): HealthCheck => ({
  kind: 'http',
  path,
  status,
  ...timing,
})
const connect: HealthCheck = { kind: 'connect', ...timing }

const servers: Server[] = []
async function listen(
  server: Server,
  where: object = { port: 0, host: '127.0.0.1' },
): Promise<number> {
  servers.push(server)
  server.listen(where)
  await once(server, 'listening')
  const address = server.address()
  return typeof address === 'object' ? (address as AddressInfo).port : 0
}
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close()
    if ('closeAllConnections' in server)
      (server as ReturnType<typeof createHttp>).closeAllConnections()
  }
})

async function closedPort(): Promise<number> {
  const server = createServer()
  const port = await listen(server)
  server.close()
  await once(server, 'close')
  return port
}

describe('probe', () => {
  it('asks with the host name of the environment and judges the status', async () => {
    let host: string | undefined
    const port = await listen(
      createHttp((request, response) => {
        host = request.headers.host
        response.statusCode = request.url === '/bad' ? 500 : 204
        response.end(
          request.url === '/bad' ? '\n\u001b[31mit\tbroke\u001b[0m\nat line 3' : undefined,
        )
      }),
    )
    expect(await probe({ port }, get('/up'), 'pr-1.example.com')).toMatchObject({ isHealthy: true })
    expect(host).toBe('pr-1.example.com')
    expect(await probe({ port }, get('/up', 200), 'h')).toMatchObject({ isHealthy: false })
    expect(await probe({ port }, get('/bad'), 'h')).toEqual({
      isHealthy: false,
      said: 'GET /bad answered 500',
      detail: 'first line: it broke',
      cause: 'The application itself failed: its log says why.',
    })
  })

  it('takes the title of a web page, and the first line of anything else', () => {
    const page = '<!doctype html>\n<html><head><title>No such page</title></head>'
    expect(firstLineOf(Buffer.from(page))).toBe('No such page')
    expect(firstLineOf(Buffer.from('\r\n \u001b]0;x\u0007\n{"error":"no"}\nmore'))).toBe(
      '{"error":"no"}',
    )
    expect(firstLineOf(Buffer.from('\n \n'))).toBe('')
  })

  it('reads at most the first bytes of an endless answer', async () => {
    const port = await listen(
      createHttp((_, response) => {
        response.statusCode = 503
        const more = (): void => {
          if (!response.destroyed) response.write('x'.repeat(10_000), () => setImmediate(more))
        }
        more()
      }),
    )
    const sample = await probe({ port }, get('/'), 'h')
    expect(sample.detail.length).toBeLessThan(600)
  })

  it('gives up on a server that does not answer', async () => {
    const port = await listen(createServer(() => undefined))
    const sample = await probe({ port }, get('/'), 'h')
    expect(sample).toEqual({ isHealthy: false, said: 'GET / did not answer in 300 ms', detail: '' })
  })

  it('is content with a connection, to a port or a socket', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'berth-probe-'))
    const socket = join(dir, 'app.sock')
    const port = await listen(createServer())
    await listen(createServer(), { path: socket })
    expect(await probe({ port }, connect, 'h')).toMatchObject({ isHealthy: true })
    expect(await probe({ socket }, connect, 'h')).toMatchObject({ isHealthy: true })
    expect(findSocketListeners(socket)).toHaveLength(1)
    rmSync(dir, { recursive: true })
    const gone = await probe({ port: await closedPort() }, connect, 'h')
    expect(gone).toMatchObject({ isHealthy: false, detail: 'ECONNREFUSED' })
  })

  it('dials', async () => {
    expect(await dial('127.0.0.1', await listen(createServer()), 1_000)).toBeUndefined()
    expect(await dial('127.0.0.1', await closedPort(), 1_000)).toBe('ECONNREFUSED')
    const given = new AbortController()
    const dialled = dial('127.0.0.1', await listen(createServer()), 1_000, given.signal)
    given.abort()
    expect(await dialled).toBe('ECANCELED')
  })
})

describe('listeners', () => {
  it('are found with their owner and holder', async () => {
    const port = await listen(createServer())
    const listeners = findListeners(port)
    expect(listeners).toHaveLength(1)
    expect(listeners[0]?.uid).toBe(process.getuid?.())
    const self = readProcess(process.pid)
    expect(holdsListener([{ pid: process.pid, startTicks: '' }], listeners)).toBe(true)
    expect(holdsListener([{ pid: 1, startTicks: '' }], listeners)).toBe(false)
    expect(nameHolder(listeners)).toBe(`${self?.name} (pid ${process.pid})`)
    expect(findListeners(await closedPort())).toEqual([])
  })
})
