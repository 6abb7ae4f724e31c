// Stops the containers of all environments of this agent, for a machine that is used for a while only (`npm start`).
// Those of running versions are marked as paused first, so that the next daemon starts them again. Containers without
// our label, or without a row in the ledger, are not touched.
import { existsSync } from 'node:fs'
import { STEPS } from '@berth/shared'
import { Ledger, ledgerFile } from '../journal/ledger.ts'
import type { ObjectRow } from '../journal/objects.ts'
import { listOwnedContainers, stopContainer } from '../machine/docker/containers.ts'
import { type Engine, openEngine } from '../machine/docker/engine.ts'
import type { AgentSettings } from '../settings.ts'

const RUNNING = new Set(['running', 'restarting'])

async function listRunning(
  engine: Engine,
  settings: AgentSettings,
  ledger: Ledger,
): Promise<{ id: string; row: ObjectRow }[]> {
  const rows = new Map(ledger.objects.list({ kind: 'container' }).map((row) => [row.name, row]))
  const found = await listOwnedContainers(engine, settings)
  return found.flatMap(({ id, name, state }) => {
    const row = rows.get(name)
    return row && RUNNING.has(state) ? [{ id, row }] : []
  })
}

/** Returns how many it stopped. */
export async function stopAllContainers(settings: AgentSettings): Promise<number> {
  if (!existsSync(ledgerFile(settings)) || !existsSync(settings.dockerSocket)) return 0
  const engine = openEngine(settings)
  const ledger = new Ledger(settings)
  try {
    const running = await listRunning(engine, settings, ledger)
    for (const { row } of running) {
      if (row.state === 'serving') ledger.objects.setState(row, 'paused')
    }
    await Promise.all(
      running.map(({ id, row }) =>
        stopContainer(engine, id, Number(row.facts.stopTimeoutMs ?? STEPS.stopTimeoutMs)),
      ),
    )
    return running.length
  } finally {
    ledger.close()
  }
}
