// Development without Caddy: the edge runs in this process, configured without it.
import { createSocket } from 'node:dgram'
import {
  chownSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, expect, it, vi } from 'vitest'
import { readSettings } from '../settings.ts'
import { openEdge } from './client.ts'
import type { AddressBook } from './edge/addresses.ts'
import { type RunningEdge, startEdge } from './edge/edge.ts'
import { edgePaths } from './paths.ts'
import type { EdgeRoute, EdgeTarget } from './protocol.ts'
import { readTable, writeTable } from './table.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-ports-'))
/** Allocated by the kernel, then released. */
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
const nobody: AddressBook = {
  addressOf: () => Promise.resolve(null),
  onChange: () => () => undefined,
}
const start = async (addresses = nobody, log: (message: string) => void = () => undefined) => {
  const findVersion = () => Promise.resolve('')
  edge = await startEdge(settings, { addresses, log, findVersion })
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

it('dials the socket of the account, whatever its name leads to later', async () => {
  await start()
  const client = openEdge(settings)
  const uid = process.getuid?.() === 0 ? 54_321 : process.getuid?.()
  const listen = async (name: string): Promise<string> => {
    const path = join(folder, name)
    const server = createServer((_incoming, answer) => answer.end(name))
    closers.push(() => server.close())
    await new Promise<void>((resolve) => server.listen(path, resolve))
    return path
  }
  const [own, foreign] = [await listen('own.sock'), await listen('foreign.sock')]
  if (process.getuid?.() === 0) chownSync(own, 54_321, 54_321)
  const target = { kind: 'socket' as const, path: own, ...(uid === undefined ? {} : { uid }) }
  await client.setRoutes({ environmentId: 1, fence: 5n, routes: routes(target) })
  const url = client.urlOf('pr-1.localhost', '/')
  expect((await get(url)).text).toBe('own.sock')
  renameSync(own, `${own}.kept`)
  symlinkSync(foreign, own)
  await expect(get(url)).rejects.toThrow()
  if (process.getuid?.() === 0) {
    renameSync(foreign, own)
    await expect(get(url)).rejects.toThrow()
  }
  renameSync(`${own}.kept`, own)
  expect((await get(url)).text).toBe('own.sock')
  if (process.getuid?.() === 0) {
    // its owner is unknown, as the environment has no account
    const unknown = { kind: 'socket' as const, path: own }
    await client.setRoutes({ environmentId: 1, fence: 5n, routes: routes(unknown) })
    await expect(get(url)).rejects.toThrow()
  }
  await client.removeRoutes({ environmentId: 1, fence: 5n })
})

it('on a full disk it starts, serves and takes news, and refuses changes', async () => {
  await start()
  const client = openEdge(settings)
  await client.setRoutes({ environmentId: 1, fence: 5n, routes: routes(await application('one')) })
  const url = client.urlOf('pr-1.localhost', '/')
  edge?.close()
  // blocks the replacement of the table
  const blocked = `${edgePaths(settings).table}.${process.pid}.tmp`
  mkdirSync(blocked)
  try {
    const said: string[] = []
    await start(nobody, (message) => said.push(message))
    expect(said).toEqual([expect.stringContaining('The table could not be written')])
    expect((await get(url)).text).toBe('one')
    await expect(client.removeRoutes({ environmentId: 1, fence: 6n })).rejects.toThrow('EISDIR')
    expect((await get(url)).text).toBe('one')
  } finally {
    rmdirSync(blocked)
  }
  await client.removeRoutes({ environmentId: 1, fence: 7n })
})

it('an address that cannot be written is known all the same', async () => {
  let address = '127.0.0.1'
  let report: () => void = () => undefined
  const book: AddressBook = {
    addressOf: () => Promise.resolve(address),
    onChange(listener) {
      report = listener
      return () => undefined
    },
  }
  const said: string[] = []
  await start(book, (message) => said.push(message))
  const client = openEdge(settings)
  const target = { kind: 'container', id: 'c1', port: 80 } as const
  await client.setRoutes({ environmentId: 1, fence: 8n, routes: routes(target) })
  const blocked = `${edgePaths(settings).table}.${process.pid}.tmp`
  mkdirSync(blocked)
  try {
    address = '127.0.0.2'
    report()
    await vi.waitFor(() => expect(said).toEqual([expect.stringContaining('EISDIR')]))
  } finally {
    rmdirSync(blocked)
  }
  await client.removeRoutes({ environmentId: 1, fence: 9n })
})

it('an engine that says nothing does not keep it from starting', async () => {
  await start({ ...nobody, addressOf: () => Promise.resolve('127.0.0.1') })
  const client = openEdge(settings)
  const target = { kind: 'container', id: 'c1', port: 80 } as const
  await client.setRoutes({ environmentId: 1, fence: 10n, routes: routes(target) })
  edge?.close()
  // simulates a restart of the machine
  writeTable(settings, { ...readTable(settings), addresses: {} })
  await start({ ...nobody, addressOf: () => new Promise(() => undefined) })
  expect((await get(client.urlOf('pr-1.localhost', '/'))).text).toContain('Nothing here')
  await client.removeRoutes({ environmentId: 1, fence: 11n })
})

it('without an edge every call says so', async () => {
  const client = openEdge(settings)
  await expect(client.describe()).rejects.toMatchObject({
    kind: 'unavailable',
    message: expect.stringContaining('The edge of this server does not answer'),
  })
})
