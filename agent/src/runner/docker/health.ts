// `health`: sends requests from this server directly to the container's address, with the public hostname. A container
// that exited is reported immediately, with its exit and last output; restarts begin only after verification.
import { STEPS } from '@berth/shared'
import type { DockerService } from '@berth/shared/service-file'
import { FailureCode } from '@berth/shared/wire'
import { PROCESSES } from '../../limits/machine.ts'
import { inspectContainer, type Observed } from '../../machine/docker/containers.ts'
import { tailLogs } from '../../machine/docker/logs.ts'
import { nameReplica } from '../../machine/docker/names.ts'
import { type AskingCheck, askingCheck, type HealthSample } from '../../machine/process/health.ts'
import { explainListening, listListening } from '../../machine/process/listening.ts'
import { probe } from '../../machine/process/probes.ts'
import { proofMs } from '../../settings.ts'
import type { Attempt } from '../attempt.ts'
import { StepFailure } from '../failure.ts'
import { routeOf } from '../routing.ts'
import { type AskedService, awaitAnswer } from '../steps/await-health.ts'
import { environmentFacts } from '../steps/configure.ts'
import { dockerOf, dockerServiceOf, type Placed } from './docker-context.ts'
import { probeInContainer } from './health-command.ts'
import { lastOf } from './images.ts'
import { describeEnd, type SeenContainer } from './verify.ts'

/** The containers of a service, in the order of their replicas. */
export function placedOf(attempt: Attempt, service: string): Placed[] {
  const found = dockerOf(attempt).containers.get(service)
  if (!found) throw new Error(`no container of ${service} yet`)
  return found
}

/** As messages name it. */
export const showPlaced = (attempt: Attempt, service: string, { replica }: Placed): string =>
  nameReplica(service, replica, dockerServiceOf(attempt, service).replicas)

export const toSeen = (observed: Observed): SeenContainer => ({
  ...observed,
  startedAt: observed.startedAt ? Date.parse(observed.startedAt) : 0,
})

/** Writes the container's last lines to the output and a few of them to the message. */
async function withLastLines(
  attempt: Attempt,
  shown: string,
  { id }: Placed,
  code: FailureCode,
  text: string,
): Promise<StepFailure> {
  const lines = await tailLogs(dockerOf(attempt).engine, id, STEPS.outputTailLines).catch(() => '')
  if (lines.trim() === '') return new StepFailure(code, `${text} ${shown} wrote nothing.`)
  attempt.output.say(`Last ${STEPS.outputTailLines} lines of ${shown}:\n${lines}`)
  return new StepFailure(code, `${text} Its last lines:\n${lastOf(lines)}`)
}

export const look = (attempt: Attempt, { id }: Placed): Promise<Observed | undefined> =>
  inspectContainer(dockerOf(attempt).engine, id)

/** Throws when the container is not running. */
export async function requireRunning(
  attempt: Attempt,
  service: string,
  placed: Placed,
): Promise<SeenContainer> {
  const seen = await look(attempt, placed)
  const shown = showPlaced(attempt, service, placed)
  if (!seen) {
    const message = `The container of ${shown} is gone.`
    throw new StepFailure(FailureCode.HEALTH_CHECK_FAILED, message)
  }
  if (seen.state === 'running') return toSeen(seen)
  const known = toSeen(seen)
  const isKnown = known.startedAt > 0 && seen.endedAt !== undefined
  // a container that exits immediately ends before the engine has recorded its start
  const upMs = isKnown ? Math.max(0, Date.parse(seen.endedAt ?? '') - known.startedAt) : undefined
  const { memoryBytes } = dockerOf(attempt).limits.get(service) ?? {}
  const text = describeEnd(shown, known, { upMs, memoryBytes })
  const code = seen.outOfMemory ? FailureCode.OUT_OF_MEMORY : FailureCode.HEALTH_CHECK_FAILED
  throw await withLastLines(attempt, shown, placed, code, text)
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
  { id, address }: Placed,
  check: AskingCheck,
): Promise<HealthSample> {
  if (check.kind === 'command') return probeInContainer(attempt, id, check)
  const host = routeOf(attempt, name)?.host ?? environmentFacts(attempt).domain
  return probe({ address, port: check.port ?? port ?? 0 }, check, host)
}

function askedOf(
  attempt: Attempt,
  service: DockerService,
  placed: Placed,
  check: AskingCheck,
): AskedService {
  const { name } = service
  const shown = showPlaced(attempt, name, placed)
  let pid = 0
  return {
    check,
    once: () => askOnce(attempt, service, placed, check),
    async requireUp() {
      pid = (await requireRunning(attempt, name, placed)).pid ?? 0
    },
    explain() {
      if (check.kind === 'command') return undefined
      const port = check.port ?? service.port ?? 0
      return explainListening(shown, listListening(pid), { port, fromOutside: true })
    },
    fail: (message) =>
      withLastLines(attempt, shown, placed, FailureCode.HEALTH_CHECK_FAILED, message),
  }
}

/** Once more, when traffic has moved: no failure is excused any more. */
export async function checkAgain(
  attempt: Attempt,
  service: DockerService,
  placed: Placed,
): Promise<void> {
  for (const check of checksOf(attempt, service)) {
    await awaitAnswer(attempt, askedOf(attempt, service, placed, { ...check, startPeriodMs: 0 }))
  }
}

async function awaitSteady(attempt: Attempt, name: string, placed: Placed): Promise<void> {
  const until = performance.now() + proofMs(attempt.settings)
  while (performance.now() < until) {
    await attempt.interruption.wait(PROCESSES.activatePollMs)
    await requireRunning(attempt, name, placed)
  }
}

/** A container that exited immediately has no address, and no other container may be probed in its place. */
async function explainNowhere(attempt: Attempt, name: string, placed: Placed): Promise<never> {
  await requireRunning(attempt, name, placed)
  const message = `${showPlaced(attempt, name, placed)} runs and has no address in its network.`
  throw new StepFailure(FailureCode.HEALTH_CHECK_FAILED, message)
}

async function awaitHealthy(
  attempt: Attempt,
  service: DockerService,
  placed: Placed,
): Promise<void> {
  const { name, health } = service
  const shown = showPlaced(attempt, name, placed)
  const checks = checksOf(attempt, service)
  if (checks.length > 0) {
    if (placed.address === '') await explainNowhere(attempt, name, placed)
    for (const check of checks) {
      await awaitAnswer(attempt, askedOf(attempt, service, placed, check))
    }
    return attempt.output.say(`${shown} is healthy.`)
  }
  await requireRunning(attempt, name, placed)
  if (health.kind === 'none') return attempt.output.say(`${shown} has no health check.`)
  if (placed.isKept) return attempt.output.say(`${shown} runs.`)
  await awaitSteady(attempt, name, placed)
  attempt.output.say(`${shown} has stayed up for ${proofMs(attempt.settings) / 1_000} s.`)
}

export async function awaitContainer(
  attempt: Attempt,
  name: string,
  placed: Placed,
): Promise<void> {
  try {
    await awaitHealthy(attempt, dockerServiceOf(attempt, name), placed)
  } catch (error) {
    if (error instanceof StepFailure) dockerOf(attempt).unhealthy.add(name)
    throw error
  }
}
