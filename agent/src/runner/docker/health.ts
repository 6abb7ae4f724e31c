// `health`: sends requests from this server directly to the container's address, with the public hostname. A container
// that exited is reported immediately, with its exit and last output; restarts begin only after verification.
import { STEPS } from '@berth/shared'
import type { DockerService } from '@berth/shared/service-file'
import { FailureCode } from '@berth/shared/wire'
import { PROCESSES } from '../../limits/machine.ts'
import { inspectContainer, type Observed } from '../../machine/docker/containers.ts'
import { tailLogs } from '../../machine/docker/logs.ts'
import { type HealthCheck, judgeHealth } from '../../machine/process/health.ts'
import { probe } from '../../machine/process/probes.ts'
import { proofMs } from '../../settings.ts'
import type { Attempt } from '../attempt.ts'
import { StepFailure } from '../failure.ts'
import { routeOf } from '../routing.ts'
import { environmentFacts } from '../steps/configure.ts'
import { dockerOf, dockerServiceOf, type Placed } from './docker-context.ts'
import { lastOf } from './images.ts'
import { describeEnd, type SeenContainer } from './verify.ts'

export function placedOf(attempt: Attempt, service: string): Placed {
  const found = dockerOf(attempt).containers.get(service)
  if (!found) throw new Error(`no container of ${service} yet`)
  return found
}

export const toSeen = (observed: Observed): SeenContainer => ({
  ...observed,
  startedAt: observed.startedAt ? Date.parse(observed.startedAt) : 0,
})

/** Writes the container's last lines to the output and a few of them to the message. */
async function withLastLines(
  attempt: Attempt,
  service: string,
  code: FailureCode,
  text: string,
): Promise<StepFailure> {
  const { id } = placedOf(attempt, service)
  const lines = await tailLogs(dockerOf(attempt).engine, id, STEPS.outputTailLines).catch(() => '')
  if (lines.trim() === '') return new StepFailure(code, `${text} ${service} wrote nothing.`)
  attempt.output.say(`Last ${STEPS.outputTailLines} lines of ${service}:\n${lines}`)
  return new StepFailure(code, `${text} Its last lines:\n${lastOf(lines)}`)
}

export const look = (attempt: Attempt, service: string): Promise<Observed | undefined> =>
  inspectContainer(dockerOf(attempt).engine, placedOf(attempt, service).id)

/** Throws when the container is not running. */
export async function requireRunning(attempt: Attempt, service: string): Promise<SeenContainer> {
  const seen = await look(attempt, service)
  if (!seen) {
    const message = `The container of ${service} is gone.`
    throw new StepFailure(FailureCode.HEALTH_CHECK_FAILED, message)
  }
  if (seen.state === 'running') return toSeen(seen)
  const known = toSeen(seen)
  const isKnown = known.startedAt > 0 && seen.endedAt !== undefined
  // a container that exits immediately ends before the engine has recorded its start
  const upMs = isKnown ? Math.max(0, Date.parse(seen.endedAt ?? '') - known.startedAt) : undefined
  const text = describeEnd(service, known, upMs)
  const code = seen.outOfMemory ? FailureCode.OUT_OF_MEMORY : FailureCode.HEALTH_CHECK_FAILED
  throw await withLastLines(attempt, service, code, text)
}

export async function awaitAnswer(
  attempt: Attempt,
  service: DockerService,
  check: HealthCheck,
): Promise<void> {
  const { name, port } = service
  const { address } = placedOf(attempt, name)
  const host = routeOf(attempt, name)?.host ?? environmentFacts(attempt).domain
  const target = { address, port: port ?? 0 }
  const since = performance.now()
  let failures = 0
  for (;;) {
    const sample = await probe(target, check, host)
    attempt.interruption.throwIfFired()
    // a healthy answer does not count if the container has exited since; a failed one may have that cause
    await requireRunning(attempt, name)
    const verdict = judgeHealth(check, sample, performance.now() - since, failures)
    if (verdict.kind === 'healthy') return
    if (verdict.kind === 'unhealthy') {
      throw await withLastLines(attempt, name, FailureCode.HEALTH_CHECK_FAILED, verdict.message)
    }
    failures = verdict.failures
    await attempt.interruption.wait(verdict.waitMs)
  }
}

async function awaitSteady(attempt: Attempt, name: string): Promise<void> {
  const until = performance.now() + proofMs(attempt.settings)
  while (performance.now() < until) {
    await attempt.interruption.wait(PROCESSES.activatePollMs)
    await requireRunning(attempt, name)
  }
}

/** A container that exited immediately has no address, and no other container may be probed in its place. */
async function explainNowhere(attempt: Attempt, name: string): Promise<never> {
  await requireRunning(attempt, name)
  const message = `${name} runs and has no address in its network.`
  throw new StepFailure(FailureCode.HEALTH_CHECK_FAILED, message)
}

export async function awaitContainer(attempt: Attempt, name: string): Promise<void> {
  const service = dockerServiceOf(attempt, name)
  const { health, port } = service
  const { isKept, address } = placedOf(attempt, name)
  if (health.kind !== 'none' && health.kind !== 'stays-up' && port !== null) {
    if (address === '') await explainNowhere(attempt, name)
    await awaitAnswer(attempt, service, health)
    return attempt.output.say(`${name} is healthy.`)
  }
  await requireRunning(attempt, name)
  if (health.kind === 'none') return attempt.output.say(`${name} has no health check.`)
  if (isKept) return attempt.output.say(`${name} runs.`)
  await awaitSteady(attempt, name)
  attempt.output.say(`${name} has stayed up for ${proofMs(attempt.settings) / 1_000} s.`)
}
