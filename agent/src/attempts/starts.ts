// Decides which waiting attempts start now, which must end first and which have waited too long. Pure. A deployment that
// builds, or waits for a build slot, leaves its task slot to others, and goes on afterwards without waiting for one, so
// nothing can block it. Invariants: at most one attempt per environment is between STARTING and its end; the newest fence
// wins, so even a faulty control plane cannot make two deployments of one environment overlap.
import { AttemptState, Desired } from '@berth/shared/wire'
import { SLOTS } from '../limits/machine.ts'

export interface Candidate {
  id: string
  environmentId: number
  fence: bigint
  state: AttemptState
  desired: Desired
  /** False after a daemon restart, until the control plane has sent them again. */
  secretsHeld: boolean
  /** A live one that builds or waits for a build slot: it has a build slot, or none, but no task slot. */
  isBuilding: boolean
  /** It may need a build, which shows only after it has started. */
  mayBuild: boolean
  waitedMs: number
  startWithinMs: number
}

type WaitingFor = '' | 'environment' | 'dispatch'

interface Starts {
  start: string[]
  /** Live attempts whose runner must stop. */
  stop: { id: string; why: 'asked' | 'superseded' }[]
  /** Waiting attempts that end without having started. */
  cancel: { id: string; why: 'asked' | 'superseded' }[]
  expire: string[]
  waiting: { id: string; waitingFor: WaitingFor }[]
}

interface StartLimits {
  taskSlots: number
  /** Attempts that may be at their build or wait for it: each costs the memory of a process. */
  builders: number
  draining: boolean
  occupied?: ReadonlyMap<number, number>
}

export function decideStarts(candidates: readonly Candidate[], limits: StartLimits): Starts {
  const out: Starts = { start: [], stop: [], cancel: [], expire: [], waiting: [] }
  const accepted = candidates.filter((c) => c.state === AttemptState.ACCEPTED)
  const live = candidates.filter(
    (c) => c.state >= AttemptState.STARTING && c.state < AttemptState.SUCCEEDED,
  )
  const ready: Candidate[] = []
  for (const c of accepted) {
    if (c.desired !== Desired.RUNNING) out.cancel.push({ id: c.id, why: 'asked' })
    else if (c.waitedMs >= c.startWithinMs) out.expire.push(c.id)
    else ready.push(c)
  }
  const newest = newestFences([...ready, ...live])
  const isOld = (c: Candidate): boolean => c.fence < (newest.get(c.environmentId) ?? 0n)
  for (const c of live) {
    if (c.desired !== Desired.RUNNING) out.stop.push({ id: c.id, why: 'asked' })
    else if (isOld(c)) out.stop.push({ id: c.id, why: 'superseded' })
  }
  const busy = new Set([...live.map((c) => c.environmentId), ...(limits.occupied?.keys() ?? [])])
  const building = live.filter((c) => c.isBuilding).length
  let free = limits.taskSlots - (live.length - building)
  const isCrowded = building >= limits.builders
  for (const c of ready.sort((a, b) => (a.id < b.id ? -1 : 1))) {
    if (isOld(c)) out.cancel.push({ id: c.id, why: 'superseded' })
    else if (busy.has(c.environmentId)) out.waiting.push({ id: c.id, waitingFor: 'environment' })
    else if (!c.secretsHeld || limits.draining) out.waiting.push({ id: c.id, waitingFor: '' })
    else if (free <= 0 || (isCrowded && c.mayBuild))
      out.waiting.push({ id: c.id, waitingFor: 'dispatch' })
    else {
      free--
      out.start.push(c.id)
    }
  }
  return out
}

/** Runners of waiting builds may use a small part of the server's memory. */
export const mostBuilders = (memoryBytes: number): number =>
  Math.max(SLOTS.buildersMin, Math.floor((memoryBytes * SLOTS.buildersPart) / SLOTS.runnerBytes))

function newestFences(candidates: readonly Candidate[]): Map<number, bigint> {
  const newest = new Map<number, bigint>()
  for (const { environmentId, fence } of candidates) {
    if (fence > (newest.get(environmentId) ?? -1n)) newest.set(environmentId, fence)
  }
  return newest
}
