// A stop of the server while requests are in progress, over real connections.
import { once } from 'node:events'
import { Readable } from 'node:stream'
import Fastify from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { expect, test } from 'vitest'
import type { Api } from './api.ts'
import { drainOnClose } from './drain.ts'

const gate = () => {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, opened }
}

test('a request in progress gets its answer, a stream is cut, and a new request is refused', async () => {
  const app: Api = Fastify({ forceCloseConnections: true }).withTypeProvider<ZodTypeProvider>()
  drainOnClose(app)
  const begun = gate()
  const answer = gate()
  app.get('/slow', async () => {
    begun.open()
    await answer.opened
    return { done: true }
  })
  const endless = new Readable({ read: () => undefined })
  endless.push('first')
  app.get('/stream', (_request, reply) => reply.send(endless))
  const base = await app.listen({ port: 0, host: '127.0.0.1' })

  const stream = await fetch(`${base}/stream`)
  const slow = fetch(`${base}/slow`)
  await begun.opened
  const closed = app.close()
  let isClosed = false
  void closed.then(() => {
    isClosed = true
  })
  await once(app.server, 'close', { signal: AbortSignal.timeout(50) }).catch(() => undefined)
  expect(isClosed).toBe(false)
  answer.open()
  expect(await (await slow).json()).toEqual({ done: true })
  await closed
  await expect(stream.text()).rejects.toThrow()
  await expect(fetch(`${base}/slow`)).rejects.toThrow()
})
