// When the control plane stops, requests in progress still get their answers, within REST.drainMs. Streams (followed
// logs, downloads) are cut: they may last for hours, and their clients continue where they stopped.
import type { ServerResponse } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { REST } from '@berth/shared'
import type { Api } from './api.ts'

const isStream = (payload: unknown): boolean =>
  typeof (payload as { pipe?: unknown } | null)?.pipe === 'function'

export function drainOnClose(app: Api): void {
  const unanswered = new Set<ServerResponse>()
  let isOver: (() => void) | undefined
  const leave = (response: ServerResponse): void => {
    unanswered.delete(response)
    if (unanswered.size === 0) isOver?.()
  }
  // before Fastify's own listener, which may answer at once
  app.server.prependListener('request', (_request, response) => {
    unanswered.add(response)
    response.once('close', () => leave(response))
  })
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (isStream(payload)) leave(reply.raw)
    done(null, payload)
  })
  // by now Fastify refuses new requests
  app.addHook('preClose', async () => {
    if (unanswered.size === 0) return
    const over = new Promise<void>((resolve) => {
      isOver = resolve
    })
    await Promise.race([over, delay(REST.drainMs, undefined, { ref: false })])
  })
}
