// The engine's build cache: its records carry no owner, so it is pruned only if the engine held nothing foreign when
// this agent first saw it. That is determined once and kept in the ledger.

import type { Ledger } from '../journal/ledger.ts'
import { MAINTENANCE } from '../limits/maintenance.ts'
import type { Engine } from '../machine/docker/engine.ts'
import { holdsForeign, pruneBuildCache, readEngineId } from '../machine/docker/engine-info.ts'
import type { AgentSettings } from '../settings.ts'

/** Whether only Berth uses the engine; asks the engine itself only the first time. */
export async function isEngineExclusive(
  engine: Engine,
  ledger: Ledger,
  settings: AgentSettings,
): Promise<boolean> {
  const id = await readEngineId(engine)
  const known = ledger.usage.isExclusive(id)
  if (known !== undefined) return known
  const isExclusive = !(await holdsForeign(engine, settings))
  ledger.usage.setExclusive(id, isExclusive)
  return isExclusive
}

/** Bytes freed; 0 where others may use the cache too. */
export async function collectCache(
  engine: Engine,
  ledger: Ledger,
  settings: AgentSettings,
): Promise<number> {
  if (!(await isEngineExclusive(engine, ledger, settings))) return 0
  return pruneBuildCache(engine, {
    olderMs: MAINTENANCE.cacheAgeMs,
    keepBytes: MAINTENANCE.cacheBytes,
  })
}
