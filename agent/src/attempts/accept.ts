// Decides what the agent does with one assignment. Pure. The journal decides what runs here: an attempt that was ever
// seen is never started again, regardless of what the control plane believes.
import { TASKS } from '@berth/shared'
import { AttemptState, Desired, FailureCode, Recipe } from '@berth/shared/wire'

export interface AcceptFacts {
  desired: Desired
  fence: bigint
  /** The assignment describes the task, so the control plane believes that it was not started. */
  hasSpec: boolean
  /** `TaskSpec.kind.case`; undefined for a kind this build does not know. */
  kind: string | undefined
  recipe: Recipe
  /** The attempt as recorded in the journal. */
  known?: { state: AttemptState; desired: Desired } | undefined
  /** Forgotten earlier, or canceled before it was seen. */
  buried: boolean
  /** Highest fence ever accepted for the environment. */
  maxFence: bigint
  /**
   * Another environment had this number on this server before, because the control plane was restored from a backup.
   */
  isAnother: boolean
  draining: boolean
  /** Free bytes on the agent's own disk. */
  freeBytes: number
}

type Verdict =
  | { do: 'accept' }
  | { do: 'refuse'; code: FailureCode; message: string }
  /** Take the secrets if the attempt still waits; nothing else changed. */
  | { do: 'keep' }
  /** Report its current state again. */
  | { do: 'report' }
  | { do: 'stop' }
  | { do: 'forget' }
  /** Never seen and not wanted: a tombstone, so that a late RUNNING cannot start it. */
  | { do: 'bury'; state: AttemptState; code: FailureCode; message: string }
  | { do: 'nothing' }

const RECIPES: readonly Recipe[] = [Recipe.DOCKER, Recipe.MANUAL]
const isLive = (state: AttemptState): boolean =>
  state >= AttemptState.STARTING && state < AttemptState.SUCCEEDED

export function decideAccept(f: AcceptFacts): Verdict {
  if (f.known) return decideKnown(f, f.known)
  if (f.buried) return f.desired === Desired.FORGOTTEN ? { do: 'nothing' } : { do: 'report' }
  switch (f.desired) {
    case Desired.RUNNING:
      return f.hasSpec ? decideNew(f) : { do: 'bury', ...NO_RECORD }
    case Desired.STOPPED:
      return { do: 'bury', ...NEVER_SEEN }
    default:
      return { do: 'nothing' }
  }
}

const NEVER_SEEN = {
  state: AttemptState.CANCELED,
  code: FailureCode.UNSPECIFIED,
  message: 'Canceled before it reached the server.',
}
const ANOTHER = {
  code: FailureCode.STALE_FENCE,
  message:
    'Another environment has this number on this server, from before the control plane was restored from a backup. Remove this one and create it again.',
}
const NO_RECORD = {
  state: AttemptState.FAILED,
  code: FailureCode.INTERNAL,
  message:
    'The server has no record of this attempt, so it is not known how far it came. Deploy again.',
}

function decideKnown(f: AcceptFacts, known: NonNullable<AcceptFacts['known']>): Verdict {
  const terminal = known.state >= AttemptState.SUCCEEDED
  switch (f.desired) {
    case Desired.RUNNING:
      // it is over, but a control plane restored from a backup may not know how it ended
      if (terminal) return { do: 'report' }
      // below STARTING both sides agree; above it our report was lost or has not arrived yet
      return f.hasSpec && isLive(known.state) ? { do: 'report' } : { do: 'keep' }
    case Desired.STOPPED:
      return { do: terminal ? 'report' : 'stop' }
    case Desired.FORGOTTEN:
      return { do: terminal ? 'forget' : 'stop' }
    default:
      return { do: 'nothing' }
  }
}

function decideNew(f: AcceptFacts): Verdict {
  // the files here under this number belong to another environment, so nothing may be replaced or removed
  if (f.isAnother) return { do: 'refuse', ...ANOTHER }
  if (f.fence <= f.maxFence) {
    return {
      do: 'refuse',
      code: FailureCode.STALE_FENCE,
      message: `A later attempt of this environment was seen before (fence ${f.maxFence}, this one has ${f.fence}). Deploy again.`,
    }
  }
  if (f.kind === undefined || !RECIPES.includes(f.recipe)) {
    return {
      do: 'refuse',
      code: FailureCode.AGENT_OUTDATED,
      message:
        'The agent on this server does not know this kind of task. Update berth-agent there.',
    }
  }
  if (f.draining) {
    return { do: 'refuse', code: FailureCode.DRAINING, message: 'The agent is being stopped.' }
  }
  // a removal frees space, so it needs only enough for its own log
  const wanted = f.kind === 'destroy' ? TASKS.destroyFreeBytes : TASKS.acceptFreeBytes
  if (f.freeBytes < wanted) {
    const mib = (bytes: number): number => Math.floor(bytes / 1_048_576)
    return {
      do: 'refuse',
      code: FailureCode.DISK_FULL,
      message: `The server's disk has ${mib(f.freeBytes)} MiB free; ${mib(wanted)} MiB are needed to take a task. Free some space there.`,
    }
  }
  return { do: 'accept' }
}
