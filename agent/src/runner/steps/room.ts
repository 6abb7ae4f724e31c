// Room on the disks, for the steps of both recipes: asked before anything is made (`admitRoom`), watched while much is
// written (`guardRoom`), remembered for the next deployment (`keepGrowth`).
import { FailureCode } from '@berth/shared/wire'
import { watchRoom } from '../../exec/room.ts'
import { checkRoom, type RoomRequest, recordGrowth } from '../../housekeeping/admission.ts'
import { type Attempt, need } from '../attempt.ts'
import { StepFailure } from '../failure.ts'

/** `dataRoot` is the engine's, when this deployment uses one. */
export async function admitRoom(
  attempt: Attempt,
  more: Pick<RoomRequest, 'dataRoot' | 'collect'> = {},
): Promise<void> {
  const { settings, ledger, spec, assignment } = attempt
  const { environmentId } = assignment
  const name = spec.environment?.identifier || `e${environmentId}`
  const answer = await checkRoom(settings, ledger, { environmentId, name, ...more })
  if (!answer.ok) throw new StepFailure(FailureCode.DISK_FULL, answer.message)
  attempt.found.room = answer.meter
}

/** Builds, pulls, copies: they get a signal that also fires when the disk is nearly full, which is `disk_full`. */
export async function guardRoom<T>(
  attempt: Attempt,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const watch = watchRoom({
    meter: need(attempt, 'room'),
    development: attempt.settings.development,
    largest: attempt.ledger.usage.list(),
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

/** Once the deployment succeeded. */
export function keepGrowth(attempt: Attempt): void {
  const { room } = attempt.found
  if (room) recordGrowth(attempt.ledger, attempt.assignment, room)
}
