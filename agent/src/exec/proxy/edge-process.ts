// The process around the edge: what `berth-agent edge` does until somebody ends it.
import type { AgentSettings } from '../../settings.ts'
import { openEngine } from '../docker/engine.ts'
import { startEdge } from './edge.ts'
import { openEngineBook } from './engine-book.ts'

/** Resolves with the exit code after SIGTERM. Requests go on: Caddy asks the next edge. */
export async function runEdge(settings: AgentSettings): Promise<number> {
  for (const signal of ['SIGHUP', 'SIGPIPE', 'SIGUSR2'] as const)
    process.on(signal, () => undefined)
  const log = (message: string): void => {
    process.stderr.write(`${new Date().toISOString()} ${message}\n`)
  }
  const edge = await startEdge(settings, {
    addresses: openEngineBook(openEngine(settings)),
    log,
  })
  await new Promise<void>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve())
  })
  edge.close()
  return 0
}
