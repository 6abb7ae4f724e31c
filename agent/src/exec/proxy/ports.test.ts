// Development without Caddy: the edge in this process, told that there is none.
import { createSocket } from 'node:dgram'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, expect, it } from 'vitest'
import { readSettings } from '../../settings.ts'
import { openEdge } from './client.ts'
import { type RunningEdge, startEdge } from './edge.ts'
import type { EdgeRoute, EdgeTarget } from './protocol.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-ports-'))
/** Given by the kernel and given back. */
const namesPort = await new Promise<number>((resolve) => {
  const socket = createSocket('udp4')
  socket.bind(0, '127.0.0.1', () => {
    const { port } = socket.address()
    socket.close(() => resolve(port))
  })
})
const settings = readSettings({
  BERTH_DEV: '1',
  BERTH_STATE_DIR: join(folder, 'state'),
  BERTH_RUN_DIR: join(folder, 'run'),
  BERTH_EDGE_DNS_PORT: String(namesPort),
})
const closers: (() => void)[] = []
let edge: RunningEdge | undefined
const start = async (): Promise<void> => {
  edge = await startEdge(settings, {
    addresses: { addressOf: () => Promise.resolve(null), onChange: () => () => undefined },
    log: () => undefined,
    findVersion: () => Promise.resolve(''),
  })
}
afterEach(() => {
  edge?.close()
  edge = undefined
})
afterAll(() => {
  for (const close of closers) close()
  rmSync(folder, { recursive: true, force: true })
})

async function application(name: string): Promise<EdgeTarget> {
  const server = createServer((_incoming, answer) => answer.end(name))
  closers.push(() => server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { kind: 'loopback', port: (server.address() as AddressInfo).port }
}
const routes = (target: EdgeTarget): EdgeRoute[] => [
  { service: 'web', host: 'pr-1.localhost', path: '/', auth: true, target },
]
const get = async (url: string) => {
  const answer = await fetch(url, { headers: { connection: 'close' } })
  return { status: answer.status, text: await answer.text() }
}

it('gives every route a port that stays over versions and restarts', async () => {
  await start()
  const client = openEdge(settings)
  expect(client.urlOf('pr-1.localhost', '/')).toBe('')
  const set = (fence: bigint, target: EdgeTarget) =>
    client.setRoutes({ environmentId: 1, fence, routes: routes(target) })
  const one = await application('one')
  await set(1n, one)
  const url = client.urlOf('pr-1.localhost', '/')
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/$/)
  expect((await get(url)).text).toBe('one')
  expect(await client.describe()).toMatchObject({ mode: 'ports', caddy: { up: false } })
  const probe = { host: 'pr-1.localhost', path: '/', status: 200, timeoutMs: 5_000 }
  expect(await client.probe(probe)).toEqual({
    status: 200,
    upstream: `127.0.0.1:${(one as { port: number }).port}`,
  })
  await set(2n, await application('two'))
  expect(client.urlOf('pr-1.localhost', '/')).toBe(url)
  expect((await get(url)).text).toBe('two')
  edge?.close()
  await start()
  expect(client.urlOf('pr-1.localhost', '/')).toBe(url)
  expect((await get(url)).text).toBe('two')
  await set(3n, { kind: 'static', root: '/nonexistent' })
  expect((await get(url)).status).toBe(404)
  await client.removeRoutes({ environmentId: 1, fence: 4n })
  expect(client.urlOf('pr-1.localhost', '/')).toBe('')
  await expect(get(url)).rejects.toThrow()
})

it('without an edge every call says so', async () => {
  const client = openEdge(settings)
  await expect(client.describe()).rejects.toMatchObject({
    kind: 'unavailable',
    message: expect.stringContaining('The edge of this server does not answer'),
  })
})
