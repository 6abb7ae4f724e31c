// Compares a container with what was deployed: returns the first fact that does not hold, or how the container ended,
// as a sentence. PURE: the caller inspects and waits. A service counts as running only when nothing here objects.
import type { DockerService } from '@berth/shared/service-file'
import { neededMemory } from '../plan/ceilings.ts'
import { shortId } from './container-spec.ts'

/** A container as the engine shows it. */
export interface SeenContainer {
  state: string
  exitCode: number
  outOfMemory: boolean
  restarts: number
  /** Milliseconds since the epoch; 0: never. */
  startedAt: number
  imageId: string
  labels: Readonly<Record<string, string>>
  /** Of its first process; undefined while it does not run. */
  pid?: number | undefined
}

export interface ExpectedContainer {
  service: string
  imageId: string
  taskId: number
  fence: bigint
  spec: string
  /** Unchanged and left running, so it is older than this deployment. */
  isKept: boolean
  /** Milliseconds since the epoch at which the task began. */
  notBefore: number
}

export const LABELS = {
  task: 'dev.berth.task',
  fence: 'dev.berth.fence',
  spec: 'dev.berth.spec',
} as const

const NUMBERS = ['', 'once', 'twice', 'three times']
const times = (count: number): string => NUMBERS[count] ?? `${count} times`

const stays = ({ state }: SeenContainer): boolean => state === 'running'

/** Undefined: the container is exactly what was deployed, and it runs. */
export function contradiction(
  expected: ExpectedContainer,
  seen: SeenContainer | undefined,
): string | undefined {
  const { service } = expected
  if (!seen) return `The container of ${service} is gone.`
  if (seen.imageId !== expected.imageId) {
    return `${service} runs image ${shortId(seen.imageId)}, expected ${shortId(expected.imageId)}.`
  }
  if (seen.labels[LABELS.spec] !== expected.spec) {
    return `${service} runs with other settings than those that were deployed.`
  }
  if (!expected.isKept) {
    const task = seen.labels[LABELS.task]
    const fence = seen.labels[LABELS.fence]
    if (task !== String(expected.taskId) || fence !== String(expected.fence)) {
      return `The container of ${service} belongs to deployment ${task}, not to ${expected.taskId}.`
    }
    if (seen.startedAt < expected.notBefore) {
      return `The container of ${service} was started before this deployment began.`
    }
  }
  if (!stays(seen)) return describeEnd(service, seen)
  return undefined
}

/** Compares two inspections. */
export function restartProblem(
  service: string,
  before: SeenContainer,
  after: SeenContainer,
  elapsedMs: number,
): string | undefined {
  const restarts = after.restarts - before.restarts
  const elapsed = `${Math.max(1, Math.round(elapsedMs / 1_000))} s`
  if (restarts > 0) return `${service} restarted ${times(restarts)} in ${elapsed}.`
  if (after.startedAt !== before.startedAt) {
    return `${service} was started again while it was watched.`
  }
  if (!after.outOfMemory || before.outOfMemory) return undefined
  return `A process of ${service} was stopped by the kernel: ${neededMemory(service)}`
}

/** Why a container that should run has ended; with its time and limit where they are known. */
export function describeEnd(
  service: string,
  seen: SeenContainer,
  { upMs, memoryBytes }: { upMs?: number | undefined; memoryBytes?: number | undefined } = {},
): string {
  const after = upMs === undefined ? '' : ` after ${(upMs / 1_000).toFixed(1)} s`
  if (seen.outOfMemory) {
    return `${service} was stopped by the kernel${after}: ${neededMemory(service, memoryBytes)}`
  }
  return `${service} stopped${after} with exit code ${seen.exitCode}.`
}

/**
 * What is requested through the proxy. A health path outside this service's prefix is answered by another service and
 * proves nothing; then the prefix itself is requested, and any answer counts.
 */
export function probeOf(
  { health }: Pick<DockerService, 'health'>,
  prefix: string,
): { path: string; status: number | null; isHealth: boolean } {
  if (health.kind !== 'http') return { path: prefix, status: null, isHealth: false }
  const { path, status } = health
  const bare = path.split('?')[0] as string
  const isInside = prefix === '/' || bare === prefix || bare.startsWith(`${prefix}/`)
  return isInside
    ? { path, status, isHealth: true }
    : { path: prefix, status: null, isHealth: false }
}
