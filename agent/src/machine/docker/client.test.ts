// The client of the engine: bounds, deadlines and signals that dockerode does not have, and what it puts into a request.
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { ENGINE } from '../../limits/docker.ts'
import { inspectContainer } from './containers.ts'
import { type Engine, getContainer, openEngine } from './engine.ts'
import { inspectImage } from './images.ts'

let folder: string
let server: Server
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'berth-client-'))
})
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllEnvs()
  server.closeAllConnections()
  server.close()
  rmSync(folder, { recursive: true, force: true })
})

/** An engine with scripted answers. */
async function fake(listener: RequestListener): Promise<Engine> {
  const dockerSocket = join(folder, 'docker.sock')
  server = createServer(listener).listen(dockerSocket)
  await once(server, 'listening')
  return openEngine({ dockerSocket })
}

interface Seen {
  method: string | undefined
  url: string | undefined
  body: string
}

/** Answers every request with `{"Id":"made"}` and notes it. */
async function noting(): Promise<{ engine: Engine; seen: Seen[] }> {
  const seen: Seen[] = []
  const engine = await fake(async (request, response) => {
    const { method, url } = request
    seen.push({ method, url, body: await text(request) })
    response.end('{"Id":"made"}')
  })
  return { engine, seen }
}

/** Not `once`, which rejects when the connection is reset. */
const closed = (socket: Duplex): Promise<void> =>
  new Promise((resolve) => void (socket.destroyed ? resolve() : socket.on('close', resolve)))

test('an answer without end is given up, and so is a refusal', async () => {
  const chunk = Buffer.alloc(1_024 * 1_024, 'x')
  const closings: Promise<unknown>[] = []
  const engine = await fake((request, response) => {
    closings.push(closed(request.socket))
    if (request.url === '/version') response.statusCode = 500
    response.on('error', () => {})
    const write = () => void (response.destroyed || response.write(chunk, write))
    write()
  })
  const docker = await engine.docker()
  const tooLarge = { kind: 'refused', message: 'its answer is too large' }
  await expect(docker.info()).rejects.toMatchObject(tooLarge)
  await expect(docker.version()).rejects.toMatchObject(tooLarge)
  await Promise.all(closings)
  expect(closings).toHaveLength(2)
})

describe.each(['info', 'version'] as const)('a connection closes', (name) => {
  /** Begins an answer to `version` only; calls `act` when a request is there. */
  const asked = async (act: () => void) => {
    const closing = Promise.withResolvers<void>()
    const engine = await fake((request, response) => {
      void closed(request.socket).then(closing.resolve)
      if (name === 'version') response.write('{', act)
      else act()
    })
    return { engine, closing: closing.promise }
  }

  test(`at the deadline of ${name}`, async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { engine, closing } = await asked(() => vi.advanceTimersByTime(ENGINE.callMs))
    await expect((await engine.docker())[name]()).rejects.toMatchObject({
      kind: 'unavailable',
      message: `no answer to GET /${name} in 60 s`,
    })
    await closing
  })

  test(`when a signal ends ${name}`, async () => {
    const abort = new AbortController()
    const { engine, closing } = await asked(() => abort.abort())
    const call = (await engine.docker({ signal: abort.signal }))[name]()
    await expect(call).rejects.toMatchObject({ kind: 'canceled' })
    await closing
  })
})

test('a signal ends a stream that has begun', async () => {
  const engine = await fake((_request, response) => void response.write('{}\n'))
  const abort = new AbortController()
  const events = await (await engine.docker({ signal: abort.signal })).getEvents()
  const read = text(events)
  abort.abort()
  await expect(read).rejects.toThrow('aborted')
})

test('a signal ends a connection that was taken over; without an upgrade there is none', async () => {
  const engine = await fake((_request, response) => void response.end())
  const request = { method: 'POST', path: '/session', hijack: true, headers: { Upgrade: 'h2c' } }
  const abort = new AbortController()
  server.on('upgrade', (_request, socket: Duplex) => {
    socket.on('error', () => {}).resume()
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nhi',
    )
  })
  const socket = await engine.dial<Duplex>(request, { signal: abort.signal })
  const [first] = await once(socket, 'data')
  expect(String(first)).toBe('hi')
  abort.abort()
  await closed(socket)
  server.removeAllListeners('upgrade')
  await expect(engine.dial(request)).rejects.toMatchObject({ kind: 'refused', status: 200 })
})

test('names are encoded, so that none can choose another call', async () => {
  const { engine, seen } = await noting()
  await (await getContainer(engine, '../info?x')).start()
  await inspectImage(engine, 'a/b:c?d#e').catch(() => undefined)
  expect(seen.map(({ method, url }) => `${method} ${url}`)).toEqual([
    'POST /containers/..%2Finfo%3Fx/start',
    'GET /images/a/b%3Ac%3Fd%23e/json',
  ])
})

test('the body of a new object is not in its address', async () => {
  const { engine, seen } = await noting()
  const docker = await engine.docker()
  await docker.createContainer({ name: 'web', Image: 'x', Env: ['KEY=value'] })
  await docker.createNetwork({ Name: 'net' })
  await docker.createVolume({ Name: 'data' })
  expect(seen.map(({ url }) => url)).toEqual([
    '/containers/create?name=web',
    '/networks/create?',
    '/volumes/create?',
  ])
  expect(seen.map(({ body }) => JSON.parse(body))).toEqual([
    { Image: 'x', Env: ['KEY=value'] },
    { Name: 'net' },
    { Name: 'data' },
  ])
})

test('only the socket of the settings is used, also where the environment names another engine', async () => {
  vi.stubEnv('DOCKER_HOST', 'tcp://127.0.0.1:1')
  vi.stubEnv('DOCKER_CERT_PATH', join(folder, 'none'))
  const { engine, seen } = await noting()
  await (await engine.docker()).info()
  expect(seen).toEqual([{ method: 'GET', url: '/info', body: '' }])
})

test('a container that is gone is none, and a broken engine is an error', async () => {
  const engine = await fake((request, response) => {
    response.statusCode = request.url?.includes('gone') ? 404 : 502
    response.end('not an engine')
  })
  expect(await inspectContainer(engine, 'gone')).toBeUndefined()
  await expect(inspectContainer(engine, 'other')).rejects.toMatchObject({
    kind: 'refused',
    status: 502,
    message: 'not an engine',
  })
})

test('a redirect is refused, and not followed', async () => {
  const seen: (string | undefined)[] = []
  const engine = await fake((request, response) => {
    seen.push(request.url)
    response.writeHead(301, { location: 'http://127.0.0.1:1/other' }).end()
  })
  const docker = await engine.docker()
  const refused = { kind: 'refused', message: 'its answer is a redirect' }
  await expect(docker.info()).rejects.toMatchObject(refused)
  await expect(docker.getEvents()).rejects.toMatchObject(refused)
  expect(seen).toEqual(['/info', '/events'])
})

test('each call has a connection of its own', async () => {
  const engine = await fake((_request, response) => void response.end('{}'))
  let connections = 0
  server.on('connection', () => {
    connections += 1
  })
  const docker = await engine.docker({ timeoutMs: ENGINE.callMs })
  await docker.info()
  await docker.info()
  expect(connections).toBe(2)
})
