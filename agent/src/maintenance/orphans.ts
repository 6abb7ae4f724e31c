// Ends commands of our builds that outlived their engine. A process does not show whose build it was, so ours are those
// on an engine that only Berth uses, and those that began while the ledger has an unfinished image of a dead runner.

import type { Ledger } from '../journal/ledger.ts'
import { type Engine, engineFacts } from '../machine/docker/engine.ts'
import { endBuildOrphan, findBuildOrphans } from '../machine/process/build-orphans.ts'

interface OrphanRequest {
  isExclusive: boolean
  /** A runner works in this environment, so the build may be its own. */
  isBusy: (environmentId: number) => boolean
}

/** Returns how many processes were ended. Call it before the rows of unfinished images are deleted. */
export async function endBuildOrphans(
  engine: Engine,
  ledger: Ledger,
  { isExclusive, isBusy }: OrphanRequest,
): Promise<number> {
  const unfinished = ledger.objects
    .list({ kind: 'image' })
    .filter(({ state, environmentId }) => state === 'making' && !isBusy(environmentId))
  if (!isExclusive && unfinished.length === 0) return 0
  const since = Math.min(...unfinished.map(({ at }) => Date.parse(at)))
  const { dataRoot } = await engineFacts(engine)
  return findBuildOrphans(dataRoot)
    .filter(({ startedAt }) => isExclusive || startedAt >= since)
    .reduce((sum, orphan) => sum + endBuildOrphan(orphan), 0)
}
