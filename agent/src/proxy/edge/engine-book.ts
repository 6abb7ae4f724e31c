// The edge's view of the Docker engine: addresses by inspection, changes by the engine's events. Retries an unreachable
// engine with back-off; when its events resume, everything may have changed.
import { setTimeout as delay } from 'node:timers/promises'
import { PROXY } from '../../limits/proxy.ts'
import { inspectContainer } from '../../machine/docker/containers.ts'
import type { Engine } from '../../machine/docker/engine.ts'
import { events } from '../../machine/docker/events.ts'
import type { AddressBook } from './addresses.ts'

/** Other events (health checks, commands inside) change no address. */
const MOVES = new Set(['start', 'die', 'stop', 'destroy', 'connect', 'disconnect', 'restart'])

export const openEngineBook = (engine: Engine): AddressBook => ({
  async addressOf(containerId) {
    const found = await inspectContainer(engine, containerId)
    return found?.state === 'running' ? (found.address ?? null) : null
  },
  onChange(listener) {
    const ending = new AbortController()
    void follow(engine, ending.signal, listener)
    return () => ending.abort()
  },
})

async function follow(
  engine: Engine,
  signal: AbortSignal,
  listener: (containerId?: string) => void,
): Promise<void> {
  let waitMs: number = PROXY.restartMs
  while (!signal.aborted) {
    try {
      for await (const { action, id } of events(engine, signal, () => listener())) {
        waitMs = PROXY.restartMs
        if (MOVES.has(action)) listener(id)
      }
    } catch {
      // unreachable, or the stream broke: known addresses stay valid until the engine is back
    }
    await delay(waitMs, undefined, { signal }).catch(() => undefined)
    waitMs = Math.min(waitMs * 2, PROXY.restartCapMs)
  }
}
