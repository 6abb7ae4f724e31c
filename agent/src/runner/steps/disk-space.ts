// Disk space, for the steps of both recipes: checked before anything is created (`checkDiskSpace`), watched during
// large writes (`guardDiskSpace`), remembered for the next deployment (`keepGrowth`).
import { FailureCode } from '@berth/shared/wire'
import { describeExcess, inGigabytes, watchDiskSpace } from '../../machine/disk-space.ts'
import { nameable, serverName } from '../../machine/server-settings.ts'
import { judgeDiskSpace, recordGrowth } from '../../resources/admission.ts'
import { collectCache } from '../../resources/cache.ts'
import { collectEnvironment } from '../../resources/garbage.ts'
import { measureEnvironments } from '../../resources/measure.ts'
import { type Attempt, need } from '../attempt.ts'
import { ceilingOf } from '../ceiling.ts'
import { dockerOf } from '../docker/docker-context.ts'
import { StepFailure } from '../failure.ts'

/** Collects garbage of this environment, which the deployment owns; the daemon handles the others. */
async function collect(attempt: Attempt): Promise<void> {
  const { settings, ledger, assignment, output } = attempt
  const { environmentId, attemptId } = assignment
  const { engine } = dockerOf(attempt)
  const request = { environmentId, attemptId }
  const { removed } = await collectEnvironment(engine, ledger, settings, request)
  const bytes = await collectCache(engine, ledger, settings)
  for (const what of removed) output.say(`Removed to make room: ${what}.`)
  if (bytes > 0) output.say(`Removed to make room: ${inGigabytes(bytes)} of build cache.`)
}

/** An environment that exceeded its limit at the last measurement is measured again, and refused if it still does. */
async function admitShare(
  attempt: Attempt,
  { usesEngine }: { usesEngine: boolean },
): Promise<void> {
  const { settings, ledger, assignment } = attempt
  const { environmentId } = assignment
  ledger.usage.setCeiling(environmentId, ceilingOf(attempt).diskBytes)
  if (!ledger.usage.findExcess(environmentId)) return
  if (usesEngine) await collect(attempt)
  await measureEnvironments(dockerOf(attempt).engine, ledger, settings, environmentId)
  const excess = ledger.usage.findExcess(environmentId)
  if (!excess) return
  const message = `${describeExcess(excess, serverName(settings))} Nothing was changed.`
  throw new StepFailure(FailureCode.DISK_FULL, message)
}

/** `dataRoot` is the engine's data folder, if this deployment uses the engine. */
export async function checkDiskSpace(
  attempt: Attempt,
  { dataRoot }: { dataRoot?: string } = {},
): Promise<void> {
  const { settings, ledger, spec, assignment } = attempt
  const { environmentId } = assignment
  const name = spec.environment?.identifier || `e${environmentId}`
  const engine = dataRoot ? { dataRoot, collect: () => collect(attempt) } : {}
  const answer = await judgeDiskSpace(settings, ledger, { environmentId, name, ...engine })
  if (!answer.ok) throw new StepFailure(FailureCode.DISK_FULL, answer.message)
  attempt.results.disk = answer.meter
  await admitShare(attempt, { usesEngine: dataRoot !== undefined })
}

/** Builds, pulls and copies get a signal that also fires when the disk is nearly full, which fails with `disk_full`. */
export async function guardDiskSpace<T>(
  attempt: Attempt,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const watch = watchDiskSpace({
    meter: need(attempt, 'disk'),
    development: attempt.settings.development,
    largest: nameable(attempt.settings, attempt.ledger.usage.list()),
    server: serverName(attempt.settings),
    signal: attempt.interruption.signal,
  })
  try {
    return await work(watch.signal)
  } catch (error) {
    if (watch.problem === undefined) throw error
    throw new StepFailure(FailureCode.DISK_FULL, watch.problem)
  } finally {
    watch.close()
  }
}

/** Called after the deployment succeeded. */
export function keepGrowth(attempt: Attempt): void {
  const { disk } = attempt.results
  if (disk) recordGrowth(attempt.ledger, attempt.assignment, disk)
}
