// What a server observes about its services, and what users see of it. An observation counts only for the version with
// its fence: one of a former version is dropped, one of a version whose success is not reported yet waits for it, and a
// new version starts without observations. PURE.
import { SERVICE_STATES } from '@berth/shared/api'
import { toUtc } from '../core/utc.ts'

type ServiceState = (typeof SERVICE_STATES)[number]

/** The stored form. */
export interface Observation {
  fence: number
  /** The commit that serves; null if not reported. */
  commit: string | null
  /** Why it is degraded, in a sentence; null if it is not. */
  reason: string | null
  services: { name: string; state: ServiceState; replicas?: Replicas; restarts?: number }[]
}

/** Containers that a service should have, and those that serve. */
interface Replicas {
  wanted: number
  running: number
}

/** An agent's report; fence 0 means that nothing of the environment runs there. */
interface Seen {
  fence: number
  commitSha: string
  degradedReason: string
  services: {
    name: string
    state: string
    replicas: number
    replicasUp: number
    restarts?: number
  }[]
}

interface Observed {
  fence: number
  deployedFence: number
  services: { name: string }[]
}

const REASON_LENGTH = 500
const SERVICES = 64
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/
const GONE = 'Nothing of it runs on its server any more.'

const isState = (text: string): text is ServiceState =>
  (SERVICE_STATES as readonly string[]).includes(text)

/** Turns any text of an agent into one line without control characters. */
const sentence = (text: string): string | null =>
  text
    .replaceAll(/\p{Cc}+/gu, ' ')
    .trim()
    .slice(0, REASON_LENGTH) || null

/** Returns what to store; undefined if it is about no version that matters. */
export function takeObservation(environment: Observed, seen: Seen): Observation | undefined {
  const { fence, deployedFence } = environment
  if (seen.fence === 0) {
    if (deployedFence === 0) return undefined
    const services = environment.services.map(({ name }) => ({ name, state: 'missing' as const }))
    return { fence: deployedFence, commit: null, reason: GONE, services }
  }
  if (seen.fence < deployedFence || seen.fence > fence) return undefined
  // not compared with the deployed services: those of a version without a reported success are unknown
  const services = seen.services.slice(0, SERVICES).flatMap(({ name, state, ...counted }) => {
    if (!isState(state) || !NAME.test(name)) return []
    const { replicas: wanted, replicasUp, restarts = 0 } = counted
    const replicas = { wanted, running: Math.min(replicasUp, wanted) }
    const counts = { ...(wanted > 1 ? { replicas } : {}), ...(restarts > 0 ? { restarts } : {}) }
    return [{ name, state, ...counts }]
  })
  const commit = /^[0-9a-f]{40,64}$/.test(seen.commitSha) ? seen.commitSha : null
  return { fence: seen.fence, commit, reason: sentence(seen.degradedReason), services }
}

interface Shown {
  deployedFence: number
  commitSha: string | null
  observed: Observation | null
  /** Set by the control plane itself, for example after a failed removal. */
  degradedReason: string | null
}

/** Why the environment is degraded; null if it is not, as far as is known. */
export function degradation(e: Shown): string | null {
  if (e.degradedReason !== null) return e.degradedReason
  const { observed } = e
  if (!observed || e.deployedFence === 0 || observed.fence < e.deployedFence) return null
  const { commit } = observed
  if (commit !== null && e.commitSha !== null && commit !== e.commitSha) {
    const [runs, deployed] = [commit, e.commitSha].map((sha) => sha.slice(0, 7))
    return `Running differs from last deployed: ${runs} runs, ${deployed} was deployed.`
  }
  return observed.fence === e.deployedFence ? observed.reason : null
}

/** Who stopped services last (JSON in the environment's row). */
export interface StopRecord {
  by: string
  at: number
  taskId: number
}

interface Stoppable extends Shown {
  services: { name: string }[]
}

/** Names of the services that a user stopped, as far as is known. */
export const stoppedServices = (e: Stoppable): string[] =>
  e.deployedFence === 0
    ? []
    : e.services.map(({ name }) => name).filter((name) => serviceState(e, name) === 'stopped')

/** True if a user stopped everything that Berth runs of it. */
export const isStopped = (e: Stoppable): boolean =>
  stoppedServices(e).length > 0 &&
  e.services.every(({ name }) => ['stopped', 'unmanaged'].includes(serviceState(e, name)))

/** Why it does not serve completely, in a sentence; null if a user stopped nothing. */
export function stopReason(e: Stoppable, record: StopRecord | null): string | null {
  const names = stoppedServices(e)
  if (names.length === 0) return null
  const who = record ? ` by ${record.by} at ${toUtc(record.at)}` : ''
  if (isStopped(e)) return `Stopped${who}. A start or a deployment brings it back.`
  return `${names.join(', ')} ${names.length === 1 ? 'is' : 'are'} stopped${who}.`
}

/**
 * What the server will report after a restart, stop or start, known from its success: users who waited for the task
 * must not see the former state until the report arrives.
 */
export function observeChange(
  e: Stoppable,
  changed: { service: string | null; stopped: boolean },
): Observation {
  const isMeant = (name: string, state: ServiceState): boolean =>
    changed.service === null ? state !== 'unmanaged' : name === changed.service
  const services = e.services.map(({ name }) => {
    const state = serviceState(e, name)
    if (!isMeant(name, state)) return { name, state }
    return { name, state: changed.stopped ? ('stopped' as const) : ('running' as const) }
  })
  const known = e.observed?.fence === e.deployedFence ? e.observed : null
  return { fence: e.deployedFence, commit: known?.commit ?? null, reason: null, services }
}

/** Null: it has one, or the number is not known. */
export function serviceReplicas(e: Shown, name: string): Replicas | null {
  if (e.observed?.fence !== e.deployedFence) return null
  return e.observed.services.find((s) => s.name === name)?.replicas ?? null
}

/** Since its deployment, as far as is known. */
export function serviceRestarts(e: Shown, name: string): number {
  if (e.observed?.fence !== e.deployedFence) return 0
  return e.observed.services.find((s) => s.name === name)?.restarts ?? 0
}

export function serviceState(e: Shown, name: string): ServiceState {
  if (e.observed?.fence !== e.deployedFence) return 'running'
  return e.observed.services.find((s) => s.name === name)?.state ?? 'running'
}
