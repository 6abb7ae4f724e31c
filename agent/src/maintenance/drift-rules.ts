// Compares what runs with what was deployed: the state of each service and the one sentence that says why an
// environment is degraded. PURE: the caller observes and passes the time. The caller counts the ends of a service, so a
// crash loop is found whether the engine or a supervisor restarts it.

import { contradiction, describeEnd, type SeenContainer } from '../runner/docker/verify.ts'
import type { RunningContainer } from '../runner/plan/plan.ts'

/** How a service last ended. */
export interface End {
  exitCode: number | null
  signal: string | null
  outOfMemory: boolean
}

/** What is remembered of a service between checks. */
export interface Ends {
  /** The version these ends belong to; a new version begins with none. */
  of: string
  /** Restarts as the engine or the supervisor counts them. */
  restarts: number
  /** When ends were noticed, oldest first, within the window. */
  times: number[]
  last: End | undefined
}

export interface EndsSeen {
  of: string
  restarts: number
  last: End | undefined
  /** It is down or has just come up; with enough restarts it counts as a loop even at the first check. */
  isUnsteady: boolean
}

interface CrashRule {
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
  // a manual restart resets the engine's counter
  const more = Math.min(Math.max(0, restarts - before.restarts), rule.ends)
  const times = [...before.times, ...Array<number>(more).fill(now)].filter(
    (at) => now - at < rule.windowMs,
  )
  return { of, restarts, times, last: last ?? before.last }
}

const isCrashLoop = (ends: Ends | undefined, rule: CrashRule): boolean =>
  ends !== undefined && ends.times.length >= rule.ends

const howLong = (ms: number): string =>
  ms < 60_000 ? `${Math.max(1, Math.ceil(ms / 1_000))} s` : `${Math.ceil(ms / 60_000)} min`

/** "web ended 5 times in 2 min, last exit code 1." */
function describeLoop(service: string, ends: Ends, now: number): string {
  const spanMs = now - (ends.times[0] ?? now)
  const span = spanMs > 0 ? ` in ${howLong(spanMs)}` : '' // all seen in one check, so the time span is unknown
  const { last } = ends
  const how = !last
    ? ''
    : last.outOfMemory
      ? ', at last because it needed more than its memory limit'
      : last.signal
        ? `, last signal ${last.signal}`
        : `, last exit code ${last.exitCode ?? 'unknown'}`
  return `${service} ended ${ends.times.length} times${span}${how}.`
}

/** Like ObservedService on the wire. */
export interface ServiceView {
  name: string
  state: 'running' | 'restarting' | 'exited' | 'missing' | 'stopped' | 'unmanaged'
  restarts: number
  outOfMemory: boolean
  /** Why this service degrades its environment; empty: it does not. */
  reason: string
  /** Containers that it should have, and those that run. */
  replicas?: { wanted: number; running: number }
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

/** A container of the running version. `seen` undefined: no container has its name. */
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
  // whether it runs is judged below, because a restart under way is not drift
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

/** One view of a service with several containers: it runs while one of them does. */
export function mergeReplicas(service: string, views: readonly ServiceView[]): ServiceView {
  const [first] = views
  const isUp = views.some(({ state }) => state === 'running')
  return {
    name: service,
    state: isUp ? 'running' : (first?.state ?? 'missing'),
    restarts: views.reduce((sum, { restarts }) => sum + restarts, 0),
    outOfMemory: views.some(({ outOfMemory }) => outOfMemory),
    reason: degradedReason(views),
    replicas: {
      wanted: views.length,
      running: views.filter((one) => one.state === 'running').length,
    },
  }
}

/** A process with `run`, as its supervisor reports it; undefined: it has no supervisor. */
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

/** A service that a task stopped. If it runs, it was started past Berth, and its address does not lead to it. */
export function viewStopped(name: string, runs: boolean): ServiceView {
  const reason = runs
    ? `${name} runs although it was stopped: something on the server started it. Start it here, or stop it again.`
    : ''
  return {
    name,
    state: runs ? 'running' : 'stopped',
    restarts: 0,
    outOfMemory: false,
    reason,
  }
}

/** One sentence for the environment: the first objection, in the order of the file. */
export function degradedReason(views: readonly ServiceView[]): string {
  return views.find(({ reason }) => reason !== '')?.reason ?? ''
}
