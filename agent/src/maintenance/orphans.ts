// Ends commands of our builds that outlived their engine. Whose build it was the process does not tell: ours are those
// on an engine that nobody else uses, and those that began while the ledger says that an image was being built by
// somebody who is no more.

import type { Ledger } from '../journal/ledger.ts'
import { type Engine, engineFacts } from '../machine/docker/engine.ts'
import { endBuildOrphan, findBuildOrphans } from '../machine/process/build-orphans.ts'

export interface OrphanRequest {
  isExclusive: boolean
  /** A runner works in this environment: its build may be the one. */
  isBusy: (environmentId: number) => boolean
}

/** How many processes were ended. To be asked before the rows of images that were never finished go. */
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
