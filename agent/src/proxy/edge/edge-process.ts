// The process around the edge: `berth-agent edge`, until SIGTERM.
import { writeSync } from 'node:fs'
import type { AgentSettings } from '../../settings.ts'
import type { AddressBook } from './addresses.ts'
import { startEdge } from './edge.ts'

/** Loads the engine's client on first use, so that the name server answers earlier. */
function openLater(settings: AgentSettings): AddressBook {
  const load = async (): Promise<AddressBook> => {
    const [{ openEngine }, { openEngineBook }] = await Promise.all([
      import('../../machine/docker/engine.ts'),
      import('./engine-book.ts'),
    ])
    return openEngineBook(openEngine(settings))
  }
  let loaded: Promise<AddressBook> | undefined
  const book = (): Promise<AddressBook> => {
    loaded ??= load()
    return loaded
  }
  return {
    addressOf: async (id) => (await book()).addressOf(id),
    onChange(listener) {
      let isOver = false
      let end = (): void => {
        isOver = true
      }
      void book().then((found) => {
        if (!isOver) end = found.onChange(listener)
      })
      return () => end()
    },
  }
}

/** Resolves with the exit code after SIGTERM. Requests continue, as Caddy asks the next edge. */
export async function runEdge(settings: AgentSettings): Promise<number> {
  for (const signal of ['SIGHUP', 'SIGPIPE', 'SIGUSR2'] as const)
    process.on(signal, () => undefined)
  const log = (message: string): void => {
    try {
      writeSync(2, `${new Date().toISOString()} ${message}\n`)
    } catch {
      // a full disk: requests do not need the log
    }
  }
  const edge = await startEdge(settings, {
    addresses: openLater(settings),
    log,
  })
  await new Promise<void>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve())
  })
  edge.close()
  return 0
}
