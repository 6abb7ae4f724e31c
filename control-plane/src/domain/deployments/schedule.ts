// Decides what a due schedule does: its action starts, is skipped because it would overlap, or was missed. Missed runs
// are reported and never repeated: only the newest one may still start, and only if it is not late.
import { TASKS } from '@berth/shared'
import { nextRun, runsBetween, type Schedule } from '@berth/shared/service-file'
import { SCHEDULES } from '../../limits/schedules.ts'

/** One line of the history for runs that did not start, for the same reason, one after the other. */
export interface UnstartedRuns {
  outcome: 'skipped' | 'missed'
  reason: string
  dueAt: number
  lastDueAt: number
  runs: number
}

interface RunFacts {
  schedule: Schedule
  dueAt: number
  now: number
  identifier: string
  /** Why the environment cannot run it, in a sentence; null if it can. */
  pause: string | null
  server: {
    name: string
    isJoined: boolean
    isPaused: boolean
    /** Null: connected, or not known yet. */
    offlineSince: number | null
  }
  /** A queued or running task of the same action, started by a schedule or by a user. */
  openTaskId: number | null
  /** Queued tasks of the environment that do not lock it. */
  queued: number
}

interface RunDecision {
  unstarted: UnstartedRuns[]
  /** The run to start; null if there is none. */
  startsFor: number | null
  nextRunAt: number | null
}

const NOT_RUNNING = 'The control plane did not run at that time.'

export function decideRun(facts: RunFacts): RunDecision {
  const { schedule, dueAt, now } = facts
  const nextRunAt = nextRun(schedule, now)
  const current = newestDue(facts)
  const before = runsBetween(schedule, dueAt, (current ?? now + 1) - 1, SCHEDULES.countedMissed)
  const unstarted: UnstartedRuns[] = []
  const [first] = before
  if (first !== undefined) {
    const lastDueAt = before.at(-1) ?? first
    const runs = before.length
    unstarted.push({ outcome: 'missed', reason: NOT_RUNNING, dueAt: first, lastDueAt, runs })
  }
  if (current === null) return { unstarted, startsFor: null, nextRunAt }
  const obstacle = obstacleTo(facts)
  if (!obstacle) return { unstarted, startsFor: current, nextRunAt }
  unstarted.push({ ...obstacle, dueAt: current, lastDueAt: current, runs: 1 })
  return { unstarted, startsFor: null, nextRunAt }
}

function newestDue({ schedule, dueAt, now }: RunFacts): number | null {
  const from = Math.max(dueAt, now - SCHEDULES.lateMs)
  return runsBetween(schedule, from, now, SCHEDULES.countedMissed).at(-1) ?? null
}

function obstacleTo(facts: RunFacts): Pick<UnstartedRuns, 'outcome' | 'reason'> | null {
  const { server, pause, openTaskId, now } = facts
  const missed = (reason: string) => ({ outcome: 'missed' as const, reason })
  const skipped = (reason: string) => ({ outcome: 'skipped' as const, reason })
  if (pause !== null) return missed(pause)
  if (!server.isJoined) return missed(`${server.name} has no agent.`)
  if (server.isPaused) return missed(`${server.name} is paused and takes no new tasks.`)
  if (server.offlineSince !== null && now - server.offlineSince >= SCHEDULES.offlineMs) {
    return missed(`${server.name} is offline.`)
  }
  if (openTaskId !== null) return skipped(`Task ${openTaskId} of this action had not ended.`)
  if (facts.queued >= TASKS.actionsQueued) {
    return skipped(`${facts.queued} tasks of ${facts.identifier} waited already.`)
  }
  return null
}

interface PauseFacts {
  identifier: string
  isRemoving: boolean
  /** Every service is stopped by a user. */
  isStopped: boolean
  stoppedServices: readonly string[]
  /** docker: the service whose container runs the action; empty in the manual recipe. */
  service: string
  disabledReason: string
  /** Why this control plane cannot follow the schedule. */
  problem: string | null
}

/** Why the schedule does not run now, in a sentence; null if it does. */
export function pauseReason(facts: PauseFacts): string | null {
  if (facts.disabledReason !== '') return facts.disabledReason
  if (facts.problem !== null) return facts.problem
  if (facts.isRemoving) return `${facts.identifier} is being removed.`
  if (facts.isStopped) return `${facts.identifier} is stopped.`
  if (facts.stoppedServices.includes(facts.service)) return `${facts.service} is stopped.`
  return null
}
