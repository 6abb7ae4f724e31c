// The life of an attempt as a matrix: state × event → next state. The compiler demands every cell, the test walks every
// cell. Numbers never decrease; >= 100 is final. This file also decides what a change means for the task, so that the
// store only performs it.
import { failureWord, type TaskStatus } from '@berth/shared'
import { AttemptState as S } from '@berth/shared/wire'

export const ATTEMPT_STATES = [
  S.ASSIGNED,
  S.ACCEPTED,
  S.STARTING,
  S.RUNNING,
  S.CANCELING,
  S.SUCCEEDED,
  S.FAILED,
  S.CANCELED,
  S.TIMED_OUT,
  S.REFUSED,
  S.LOST,
] as const
export type AttemptStateValue = (typeof ATTEMPT_STATES)[number]

/** What the agent reports (the state it reached) or the control plane concludes (lost). */
export const ATTEMPT_EVENTS = [
  'accepted',
  'starting',
  'running',
  'canceling',
  'succeeded',
  'failed',
  'canceled',
  'timed_out',
  'refused',
  'lost',
] as const
type AttemptEvent = (typeof ATTEMPT_EVENTS)[number]

const ends = {
  succeeded: S.SUCCEEDED,
  failed: S.FAILED,
  canceled: S.CANCELED,
  timed_out: S.TIMED_OUT,
  lost: S.LOST,
} as const

/** `stay`: the report is old or repeated. `late`: recorded beside a lost attempt. */
type Cell = AttemptStateValue | 'stay' | 'late'
type Row = Record<AttemptEvent, Cell>

const final: Row = {
  accepted: 'stay',
  starting: 'stay',
  running: 'stay',
  canceling: 'stay',
  succeeded: 'stay',
  failed: 'stay',
  canceled: 'stay',
  timed_out: 'stay',
  refused: 'stay',
  lost: 'stay',
}

/**
 * An agent that was offline may skip states, because coalescing leaves only the last one: a jump forward is always
 * allowed, a step back never.
 */
export const ATTEMPT_MATRIX: Record<AttemptStateValue, Row> = {
  [S.ASSIGNED]: {
    accepted: S.ACCEPTED,
    starting: S.STARTING,
    running: S.RUNNING,
    canceling: S.CANCELING,
    refused: S.REFUSED,
    ...ends,
  },
  [S.ACCEPTED]: {
    accepted: 'stay',
    starting: S.STARTING,
    running: S.RUNNING,
    canceling: S.CANCELING,
    refused: S.REFUSED,
    ...ends,
  },
  [S.STARTING]: {
    accepted: 'stay',
    starting: 'stay',
    running: S.RUNNING,
    canceling: S.CANCELING,
    refused: S.REFUSED,
    ...ends,
  },
  // a refusal proves that nothing happened, so it cannot come after the first step
  [S.RUNNING]: {
    accepted: 'stay',
    starting: 'stay',
    running: 'stay',
    canceling: S.CANCELING,
    refused: 'stay',
    ...ends,
  },
  [S.CANCELING]: {
    accepted: 'stay',
    starting: 'stay',
    running: 'stay',
    canceling: 'stay',
    refused: 'stay',
    ...ends,
  },
  [S.SUCCEEDED]: final,
  [S.FAILED]: final,
  [S.CANCELED]: final,
  [S.TIMED_OUT]: final,
  [S.REFUSED]: final,
  [S.LOST]: { ...final, succeeded: 'late', failed: 'late', canceled: 'late', timed_out: 'late' },
}

type AttemptStep =
  | { kind: 'moved'; state: AttemptStateValue }
  | { kind: 'late'; outcome: AttemptEvent }
  | { kind: 'nothing' }

export function moveAttempt(state: AttemptStateValue, event: AttemptEvent): AttemptStep {
  const cell = ATTEMPT_MATRIX[state][event]
  if (cell === 'stay') return { kind: 'nothing' }
  if (cell === 'late') return { kind: 'late', outcome: event }
  return { kind: 'moved', state: cell }
}

const eventOfState = new Map<number, AttemptEvent>([
  [S.ACCEPTED, 'accepted'],
  [S.STARTING, 'starting'],
  [S.RUNNING, 'running'],
  [S.CANCELING, 'canceling'],
  [S.SUCCEEDED, 'succeeded'],
  [S.FAILED, 'failed'],
  [S.CANCELED, 'canceled'],
  [S.TIMED_OUT, 'timed_out'],
  [S.REFUSED, 'refused'],
])

/** The event of a reported state; agents never report ASSIGNED and LOST. */
export const attemptEvent = (reported: number): AttemptEvent | undefined =>
  eventOfState.get(reported)

export const isAttemptState = (n: number): n is AttemptStateValue =>
  (ATTEMPT_STATES as readonly number[]).includes(n)

/** Only these refusals lead to a new attempt automatically, because they prove that nothing happened. */
const REPEATABLE: ReadonlySet<string> = new Set(['draining', 'not_started'])

export function mayRepeat(code: number, attemptNumber: number, maxAttempts: number): boolean {
  return REPEATABLE.has(failureWord(code)) && attemptNumber < maxAttempts
}

/** The status of the task for this state of its attempt; undefined if it does not change. */
export function taskStatusFor(state: AttemptStateValue, repeats: boolean): TaskStatus | undefined {
  switch (state) {
    case S.ASSIGNED:
    case S.ACCEPTED:
      return undefined
    case S.STARTING:
    case S.RUNNING:
    case S.CANCELING:
      return 'running'
    case S.SUCCEEDED:
      return 'succeeded'
    case S.CANCELED:
      return 'canceled'
    case S.REFUSED:
      return repeats ? undefined : 'failed'
    case S.FAILED:
    case S.TIMED_OUT:
    case S.LOST:
      return 'failed'
  }
}
