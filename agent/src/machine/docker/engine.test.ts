// Access to the engine: every failure has a kind and a reason, and every call ends, also when the engine is down,
// silent or breaks off in the middle of an answer.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { dockerEngine } from '../../../../test/fixtures/platform/components.ts'
import { BUILDS } from '../../limits/docker.ts'
import { buildImage } from './build/build.ts'
import type { CallOptions } from './client.ts'
import { type Engine, engineFacts, getContainer, isEngineUp, openEngine } from './engine.ts'
import { toEngineError } from './engine-error.ts'
import { events } from './events.ts'
import { followLogs } from './logs.ts'

let folder: string
let server: Server | undefined
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'berth-engine-'))
})
afterEach(() => {
  server?.closeAllConnections()
  server?.close()
  server = undefined
  rmSync(folder, { recursive: true, force: true })
})

/** An engine with scripted answers. */
function fake(listener: RequestListener): Promise<Engine> {
  const dockerSocket = join(folder, 'docker.sock')
  server = createServer(listener)
  return new Promise((resolve) => {
    server?.listen(dockerSocket, () => resolve(openEngine({ dockerSocket })))
  })
}
const ask = async (engine: Engine, options?: CallOptions) => (await engine.docker(options)).info()
const open = async (engine: Engine, options?: CallOptions) =>
  (await engine.docker(options)).getEvents()

describe.skipIf(!dockerEngine())('a real engine', () => {
  test('says what it is', async () => {
    const engine = openEngine({ dockerSocket: dockerEngine()?.socket ?? '' })
    const facts = await engineFacts(engine)
    expect(facts.version).toMatch(/^\d+\.\d+/)
    expect(facts.api).toMatch(/^1\.\d+$/)
    expect(facts.cgroup).toMatch(/^[12]$/)
    expect(facts.storage).not.toBe('')
    expect(facts.dataRoot).toMatch(/^\//)
    expect(await isEngineUp(engine, 5_000)).toBe(true)
    await expect(
      getContainer(engine, 'no').then((container) => container.inspect()),
    ).rejects.toMatchObject({
      kind: 'not_found',
      status: 404,
      message: 'No such container: no',
    })
  })
})

describe('without an engine a call is unavailable', () => {
  test('where there is no socket', async () => {
    const dockerSocket = join(folder, 'none.sock')
    const engine = openEngine({ dockerSocket })
    const away = { kind: 'unavailable', message: `connect ENOENT ${dockerSocket}` }
    await expect(ask(engine)).rejects.toMatchObject(away)
    await expect(open(engine)).rejects.toMatchObject(away)
    await expect(followLogs(engine, 'x', { onRecord: () => {} })).rejects.toMatchObject(away)
    await expect(events(engine, new AbortController().signal).next()).rejects.toMatchObject(away)
    expect(await isEngineUp(engine, 5_000)).toBe(false)
  })

  test('where nobody listens on it', async () => {
    const dockerSocket = join(folder, 'file.sock')
    writeFileSync(dockerSocket, '')
    await expect(ask(openEngine({ dockerSocket }))).rejects.toMatchObject({
      kind: 'unavailable',
      message: `connect ECONNREFUSED ${dockerSocket}`,
    })
  })

  test('where it does not answer', async () => {
    const engine = await fake(() => {})
    await expect(ask(engine, { timeoutMs: 50 })).rejects.toMatchObject({
      kind: 'unavailable',
      message: 'no answer to GET /info in 0.05 s',
    })
    await expect(open(engine, { timeoutMs: 50 })).rejects.toMatchObject({
      kind: 'unavailable',
    })
  })

  test('where it begins an answer and never ends it', async () => {
    const engine = await fake((_request, response) => void response.write('{"a":'))
    await expect(ask(engine, { timeoutMs: 100 })).rejects.toMatchObject({
      kind: 'unavailable',
      message: 'no answer to GET /info in 0.1 s',
    })
  })

  test('where it breaks off in an answer, short or long', async () => {
    const engine = await fake((request, response) => {
      request.resume()
      response.write('{"a":', () => response.destroy())
    })
    await expect(ask(engine)).rejects.toMatchObject({ kind: 'unavailable' })
    await expect(ask(engine, { isLong: true })).rejects.toMatchObject({ kind: 'unavailable' })
    const signal = new AbortController().signal
    await expect(events(engine, signal).next()).rejects.toMatchObject({ kind: 'unavailable' })
  })

  test('where its stream of events ends', async () => {
    const engine = await fake((_request, response) => void response.end())
    const next = events(engine, new AbortController().signal).next()
    await expect(next).rejects.toMatchObject({ kind: 'unavailable' })
  })
})

test('a canceled call is canceled, whenever that is', async () => {
  const engine = await fake((_request, response) => void response.write('{'))
  const canceled = { kind: 'canceled' }
  await expect(ask(engine, { signal: AbortSignal.abort() })).rejects.toMatchObject(canceled)
  const abort = new AbortController()
  const call = ask(engine, { isLong: true, signal: abort.signal })
  setTimeout(() => abort.abort(), 50)
  await expect(call).rejects.toMatchObject(canceled)
})

test.each([
  [409, 'conflict', 'name is in use'],
  [404, 'not_found', 'no such thing'],
  [500, 'refused', 'server trouble'],
  [403, 'refused', 'Pool overlaps with other one'],
  [500, 'disk_full', 'write /var/lib/docker/x: no space left on device'],
])('status %i is %s', async (status, kind, message) => {
  const engine = await fake((_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ message }))
  })
  await expect(ask(engine)).rejects.toMatchObject({ kind, status, message })
})

test('a reason is one line, and not longer than a person reads', () => {
  const { message } = toEngineError(new Error(`a\n  b ${'x'.repeat(10_000)}`))
  expect(message).toMatch(/^a b x+…$/)
  expect(message.length).toBeLessThan(600)
})

test('an answer that is not JSON is refused', async () => {
  const engine = await fake((_request, response) => void response.end('{"a"'))
  await expect(ask(engine)).rejects.toMatchObject({ kind: 'refused' })
})

describe('a build whose engine', () => {
  const build = (engine: Engine) => {
    writeFileSync(join(folder, 'Dockerfile'), 'FROM scratch\n')
    const options = { dockerfile: 'Dockerfile', target: null, args: {}, tag: 'x', labels: {} }
    return buildImage(engine, { ...options, folder, noCache: false })
  }
  /** Upgrades the session, requests nothing and answers the build. */
  const answering = async (text: string, isWhole: boolean): Promise<Engine> => {
    const engine = await fake((request, response) => {
      const answer = () =>
        void response.write(text, () => (isWhole ? response.end() : response.destroy()))
      request.on('end', answer).resume()
    })
    upgrade()
    return engine
  }
  const upgrade = () =>
    server?.on('upgrade', (_request, socket) => {
      socket.write(
        'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n',
      )
      socket.on('error', () => {}).resume()
    })

  test('ends the stream without an image has failed', async () => {
    const engine = await answering('{"stream":"all is well"}\n', true)
    await expect(build(engine)).rejects.toMatchObject({ name: 'BuildError', kind: 'unavailable' })
  })

  test('breaks off has failed', async () => {
    const engine = await answering('{"aux":{"ID":"sha256:1"},"id":"moby.image.id"}\n', false)
    await expect(build(engine)).rejects.toMatchObject({ name: 'BuildError', kind: 'unavailable' })
  })

  test('says an error after the image has failed', async () => {
    const text =
      '{"aux":{"ID":"sha256:1"}}\n{"errorDetail":{"message":"tag refused"},"error":"x"}\n'
    const engine = await answering(text, true)
    await expect(build(engine)).rejects.toMatchObject({
      kind: 'build_failed',
      message: 'Tag refused.',
    })
  })

  test('never asks for its files has failed', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const engine = await fake((_request, response) => {
        response.write('{"stream":"working"}\n', () => vi.advanceTimersByTime(BUILDS.questionMs))
      })
      upgrade()
      await expect(build(engine)).rejects.toMatchObject({
        kind: 'build_failed',
        message: 'The engine refused the build: it did not ask for the files of the build in 60 s.',
      })
    } finally {
      vi.useRealTimers()
    }
  })

  test('gives an image has not', async () => {
    const engine = await answering('{"id":"moby.image.id","aux":{"ID":"sha256:1"}}\n', true)
    expect(await build(engine)).toEqual({ imageId: 'sha256:1' })
  })
})
