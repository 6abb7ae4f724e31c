// What runs against what was deployed: the state of each service and the one sentence that says why an environment is
// degraded. PURE: the caller looks and knows the time. Ends of a service are counted by the caller's looks, so a crash
// loop is found whoever restarts the service, engine or supervisor.

import { contradiction, describeEnd, type SeenContainer } from '../runner/docker/verify.ts'
import type { RunningContainer } from '../runner/plan/plan.ts'

/** How a service ended the last time. */
export interface End {
  exitCode: number | null
  signal: string | null
  outOfMemory: boolean
}

/** What is remembered of a service from look to look. */
export interface Ends {
  /** Whose ends these are: a new version begins with none. */
  of: string
  /** Restarts as the engine or the supervisor counts them. */
  restarts: number
  /** When ends were noticed, oldest first, not older than the window. */
  times: number[]
  last: End | undefined
}

export interface EndsSeen {
  of: string
  restarts: number
  last: End | undefined
  /** It is down, or has come up only just now: with enough restarts it counts as a loop at the first look too. */
  isUnsteady: boolean
}

export interface CrashRule {
  ends: number
  windowMs: number
}

export function noteEnds(
  before: Ends | undefined,
  seen: EndsSeen,
  now: number,
  rule: CrashRule,
): Ends {
  const { of, restarts, last } = seen
  if (before?.of !== of) {
    const isLoop = restarts >= rule.ends && seen.isUnsteady
    return { of, restarts, times: isLoop ? Array<number>(rule.ends).fill(now) : [], last }
  }
  // a restart by hand sets the engine's counter back
  const more = Math.min(Math.max(0, restarts - before.restarts), rule.ends)
  const times = [...before.times, ...Array<number>(more).fill(now)].filter(
    (at) => now - at < rule.windowMs,
  )
  return { of, restarts, times, last: last ?? before.last }
}

export const isCrashLoop = (ends: Ends | undefined, rule: CrashRule): boolean =>
  ends !== undefined && ends.times.length >= rule.ends

const howLong = (ms: number): string =>
  ms < 60_000 ? `${Math.max(1, Math.ceil(ms / 1_000))} s` : `${Math.ceil(ms / 60_000)} min`

/** "web ended 5 times in 2 min, last exit code 1." */
export function describeLoop(service: string, ends: Ends, now: number): string {
  const spanMs = now - (ends.times[0] ?? now)
  const span = spanMs > 0 ? ` in ${howLong(spanMs)}` : '' // all seen with one look: nobody knows since when
  const { last } = ends
  const how = !last
    ? ''
    : last.outOfMemory
      ? ', at last because it needed more memory than it may have'
      : last.signal
        ? `, last signal ${last.signal}`
        : `, last exit code ${last.exitCode ?? 'unknown'}`
  return `${service} ended ${ends.times.length} times${span}${how}.`
}

/** As ObservedService of the wire. */
export interface ServiceView {
  name: string
  state: 'running' | 'restarting' | 'exited' | 'missing' | 'unmanaged'
  restarts: number
  outOfMemory: boolean
  /** Why this service makes its environment degraded; empty: it does not. */
  reason: string
}

const DIFFERS = 'Running differs from last deployed:'

const STATES: Record<string, ServiceView['state']> = {
  running: 'running',
  restarting: 'restarting',
  created: 'exited',
  exited: 'exited',
  dead: 'exited',
}

const lowerFirst = (text: string): string => `${text.slice(0, 1).toLowerCase()}${text.slice(1)}`

/** A container of the running version. `seen` undefined: there is none of its name. */
export function viewContainer(
  expected: RunningContainer,
  version: { taskId: number; fence: bigint },
  seen: (SeenContainer & { id: string }) | undefined,
  ends: Ends | undefined,
  look: { now: number; rule: CrashRule },
): ServiceView {
  const name = expected.service
  if (!seen) {
    const reason = `${DIFFERS} the container of ${name} is gone.`
    return { name, state: 'missing', restarts: 0, outOfMemory: false, reason }
  }
  const { restarts } = seen
  const outOfMemory = seen.outOfMemory || (ends?.last?.outOfMemory ?? false)
  const state = STATES[seen.state] ?? 'exited'
  const view = (reason: string): ServiceView => ({ name, state, restarts, outOfMemory, reason })
  if (isCrashLoop(ends, look.rule)) return view(describeLoop(name, ends as Ends, look.now))
  // whether it runs is judged below: a restart under way is no difference
  const difference = contradiction(
    {
      service: name,
      imageId: expected.imageId,
      spec: expected.spec,
      taskId: version.taskId,
      fence: version.fence,
      isKept: expected.taskId !== version.taskId,
      notBefore: 0,
    },
    { ...seen, state: 'running' },
  )
  if (difference) {
    const isName = difference.startsWith(name)
    return view(`${DIFFERS} ${isName ? difference : lowerFirst(difference)}`)
  }
  if (state === 'running' || state === 'restarting') return view('')
  if (seen.state === 'created') return view(`${name} was made, but never started.`)
  return view(describeEnd(name, seen))
}

/** A process with `run`, as its supervisor tells; undefined: there is no supervisor. */
export interface SeenProcess {
  condition: 'running' | 'waiting' | 'stopping' | 'ended'
  restarts: number
  last: End | undefined
}

export function viewProcess(
  name: string,
  seen: SeenProcess | undefined,
  ends: Ends | undefined,
  look: { now: number; rule: CrashRule },
): ServiceView {
  if (!seen) {
    const reason = `${name} does not run: its supervisor is gone.`
    return { name, state: 'missing', restarts: 0, outOfMemory: false, reason }
  }
  const { restarts } = seen
  const outOfMemory = ends?.last?.outOfMemory ?? false
  const view = (state: ServiceView['state'], reason: string): ServiceView => {
    return { name, state, restarts, outOfMemory, reason }
  }
  const state =
    seen.condition === 'running'
      ? 'running'
      : seen.condition === 'waiting'
        ? 'restarting'
        : 'exited'
  if (isCrashLoop(ends, look.rule)) return view(state, describeLoop(name, ends as Ends, look.now))
  return view(state, state === 'exited' ? `${name} was stopped on the server.` : '')
}

/** One sentence for all: the first that objects, in the order of the file. */
export const degradedReason = (views: readonly ServiceView[]): string =>
  views.find(({ reason }) => reason !== '')?.reason ?? ''
