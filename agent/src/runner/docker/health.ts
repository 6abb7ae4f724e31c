// `health`: sends requests from this server directly to the container's address, with the public hostname. A container
// that exited is reported immediately, with its exit and last output; restarts begin only after verification.
import { STEPS } from '@berth/shared'
import type { DockerService } from '@berth/shared/service-file'
import { FailureCode } from '@berth/shared/wire'
import { PROCESSES } from '../../limits/machine.ts'
import { inspectContainer, type Observed } from '../../machine/docker/containers.ts'
import { tailLogs } from '../../machine/docker/logs.ts'
import {
  type AskingCheck,
  askingCheck,
  type HealthSample,
  judgeHealth,
} from '../../machine/process/health.ts'
import { explainListening, listListening } from '../../machine/process/listening.ts'
import { probe } from '../../machine/process/probes.ts'
import { proofMs } from '../../settings.ts'
import type { Attempt } from '../attempt.ts'
import { StepFailure } from '../failure.ts'
import { routeOf } from '../routing.ts'
import { environmentFacts } from '../steps/configure.ts'
import { dockerOf, dockerServiceOf, type Placed } from './docker-context.ts'
import { probeInContainer } from './health-command.ts'
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
  const { memoryBytes } = dockerOf(attempt).limits.get(service) ?? {}
  const text = describeEnd(service, known, { upMs, memoryBytes })
  const code = seen.outOfMemory ? FailureCode.OUT_OF_MEMORY : FailureCode.HEALTH_CHECK_FAILED
  throw await withLastLines(attempt, service, code, text)
}

/** The check of the file; if it names none, the HEALTHCHECK of the image comes first. */
function checksOf(attempt: Attempt, service: DockerService): AskingCheck[] {
  const own = askingCheck(service.health)
  const image = dockerOf(attempt).images.get(service.name)?.healthcheck
  if (!service.asksImage || !image) return own ? [own] : []
  const check: AskingCheck = {
    kind: 'command',
    command: image.command,
    intervalMs: STEPS.healthIntervalMs,
    timeoutMs: image.timeoutMs ?? STEPS.healthTimeoutMs,
    // images rarely name one, and their default of 0 would give up on every slow start
    startPeriodMs: Math.max(image.startPeriodMs ?? 0, own?.startPeriodMs ?? STEPS.healthStartMs),
    retries: image.retries ?? STEPS.healthRetries,
  }
  return own ? [check, own] : [check]
}

async function askOnce(
  attempt: Attempt,
  { name, port }: DockerService,
  check: AskingCheck,
): Promise<HealthSample> {
  const { id, address } = placedOf(attempt, name)
  if (check.kind === 'command') return probeInContainer(attempt, id, check)
  const host = routeOf(attempt, name)?.host ?? environmentFacts(attempt).domain
  return probe({ address, port: check.port ?? port ?? 0 }, check, host)
}

async function awaitAnswer(
  attempt: Attempt,
  service: DockerService,
  check: AskingCheck,
): Promise<void> {
  const { name } = service
  const since = performance.now()
  let failures = 0
  let advice: string | undefined
  for (;;) {
    const sample = await askOnce(attempt, service, check)
    attempt.interruption.throwIfFired()
    // a healthy answer does not count if the container has exited since; a failed one may have that cause
    const { pid } = await requireRunning(attempt, name)
    const elapsedMs = performance.now() - since
    const verdict = judgeHealth(check, sample, elapsedMs, failures)
    if (verdict.kind === 'healthy') return
    if (
      check.kind !== 'command' &&
      (elapsedMs > STEPS.healthExplainMs || verdict.kind === 'unhealthy')
    ) {
      const port = check.port ?? service.port ?? 0
      const found = explainListening(name, listListening(pid ?? 0), { port, fromOutside: true })
      if (found !== undefined && found !== advice) attempt.output.say(`Warning: ${found}`)
      advice = found
    }
    if (verdict.kind === 'unhealthy') {
      const message = advice ? `${verdict.message} ${advice}` : verdict.message
      throw await withLastLines(attempt, name, FailureCode.HEALTH_CHECK_FAILED, message)
    }
    failures = verdict.failures
    await attempt.interruption.wait(verdict.waitMs)
  }
}

/** Once more, when traffic has moved: no failure is excused any more. */
export async function checkAgain(attempt: Attempt, service: DockerService): Promise<void> {
  for (const check of checksOf(attempt, service)) {
    await awaitAnswer(attempt, service, { ...check, startPeriodMs: 0 })
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

async function awaitHealthy(attempt: Attempt, service: DockerService): Promise<void> {
  const { name, health } = service
  const { isKept, address } = placedOf(attempt, name)
  const checks = checksOf(attempt, service)
  if (checks.length > 0) {
    if (address === '') await explainNowhere(attempt, name)
    for (const check of checks) await awaitAnswer(attempt, service, check)
    return attempt.output.say(`${name} is healthy.`)
  }
  await requireRunning(attempt, name)
  if (health.kind === 'none') return attempt.output.say(`${name} has no health check.`)
  if (isKept) return attempt.output.say(`${name} runs.`)
  await awaitSteady(attempt, name)
  attempt.output.say(`${name} has stayed up for ${proofMs(attempt.settings) / 1_000} s.`)
}

export async function awaitContainer(attempt: Attempt, name: string): Promise<void> {
  try {
    await awaitHealthy(attempt, dockerServiceOf(attempt, name))
  } catch (error) {
    if (error instanceof StepFailure) dockerOf(attempt).unhealthy.add(name)
    throw error
  }
}
