// The plan of an attempt and its steps, as agents report them.
import { shownText } from '@berth/shared'
import { AttemptState, type PlanMade, type StepChanged, StepState } from '@berth/shared/wire'
import { durationMs } from '@bufbuild/protobuf/wkt'
import type { AttemptStateValue } from '../../domain/deployments/attempt.ts'
import {
  type Attempt,
  closeSteps,
  insertSteps,
  updateStep,
} from '../../store/deployments/attempts.ts'
import type { Change } from '../core/change.ts'

const numberOrNull = (n: bigint): number | null => (n > 0n ? Number(n) : null)

export async function applyPlan(c: Change, attempt: Attempt, plan: PlanMade): Promise<void> {
  let stepIndex = 0
  const rows = plan.phases.flatMap((phase) =>
    phase.steps.map((step) => ({
      attemptId: attempt.id,
      stepIndex: stepIndex++,
      phase: phase.name,
      phaseTitle: shownText(phase.title),
      stepId: step.stepId,
      title: shownText(step.title),
    })),
  )
  await insertSteps(c.db, rows)
}

export async function applyStep(
  c: Change,
  attempt: Attempt,
  step: StepChanged,
  at: number,
): Promise<void> {
  const begins = step.state === StepState.RUNNING
  const took = step.duration ? Math.round(durationMs(step.duration)) : null
  await updateStep(c.db, attempt.id, step.stepId, {
    state: step.state,
    exitCode: step.exitCode ?? null,
    message: shownText(step.message),
    firstLogSeq: numberOrNull(step.firstLogSeq),
    lastLogSeq: numberOrNull(step.lastLogSeq),
    ...(begins ? { startedAt: at } : { durationMs: took }),
  })
}

/** A runner that died reports no end of its step, and a restored backup may have lost reports. */
export async function closeOpenSteps(
  c: Change,
  id: string,
  state: AttemptStateValue,
): Promise<void> {
  const { PENDING, RUNNING, SUCCEEDED, FAILED, CANCELED } = StepState
  if (state === AttemptState.SUCCEEDED) await closeSteps(c.db, id, [PENDING, RUNNING], SUCCEEDED)
  else await closeSteps(c.db, id, [RUNNING], state === AttemptState.CANCELED ? CANCELED : FAILED)
}
