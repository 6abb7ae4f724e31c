// Phases route and verify with containers: their addresses, and the proof that the new containers run and answer. The
// old containers run until the proof is complete, so going back means switching to the old table.
import { FailureCode } from '@berth/shared/wire'
import { setRestartPolicy } from '../../machine/docker/containers.ts'
import { proofMs } from '../../settings.ts'
import type { Attempt } from '../attempt.ts'
import { StepFailure } from '../failure.ts'
import type { ContainerRoute } from '../plan/plan.ts'
import { routingOf } from '../routing.ts'
import { answeredFrom, unproven, verifyRoute } from '../steps/route.ts'
import { dockerOf, dockerServiceOf, type Placed } from './docker-context.ts'
import { checkAgain, look, placedOf, requireRunning, showPlaced, toSeen } from './health.ts'
import { contradiction, type ExpectedContainer, restartProblem } from './verify.ts'

/** The address of every routed service of this deployment. */
export const newRoutes = (attempt: Attempt): ContainerRoute[] =>
  routingOf(attempt).routes.map(({ service, host, path, auth }) => {
    const { port } = dockerServiceOf(attempt, service)
    const [id = '', ...others] = placedOf(attempt, service).map((placed) => placed.id)
    const more = others.length > 0 ? { others } : {}
    const target = { kind: 'container' as const, id, port: port ?? 0, ...more }
    return { service, host, path, auth, target }
  })

function expected(attempt: Attempt, name: string, placed: Placed): ExpectedContainer {
  const { spec, isKept } = placed
  const { taskId, fence } = attempt.assignment
  const docker = dockerOf(attempt)
  const imageId = docker.images.get(name)?.id ?? ''
  const service = showPlaced(attempt, name, placed)
  return { service, imageId, taskId, fence, spec, isKept, notBefore: docker.beganAt }
}

/** All services share one observation period in which none may restart. */
async function watchAwhile(attempt: Attempt): Promise<void> {
  attempt.results.verifySince ??= performance.now()
  const left = attempt.results.verifySince + proofMs(attempt.settings) - performance.now()
  if (left > 0) await attempt.interruption.wait(left)
}

async function verifyContainer(attempt: Attempt, name: string, placed: Placed): Promise<void> {
  const service = dockerServiceOf(attempt, name)
  const check = async () => {
    const seen = await look(attempt, placed)
    const problem = contradiction(expected(attempt, name, placed), seen && toSeen(seen))
    if (problem !== undefined || !seen) throw unproven(problem ?? '')
    return toSeen(seen)
  }
  const before = await check()
  const since = performance.now()
  await watchAwhile(attempt)
  const after = await check()
  const shown = showPlaced(attempt, name, placed)
  const problem = restartProblem(shown, before, after, performance.now() - since)
  if (problem !== undefined) throw unproven(problem)
  await checkAgain(attempt, service, placed)
}

export async function verifyDocker(attempt: Attempt, name: string): Promise<void> {
  const placed = placedOf(attempt, name)
  try {
    await Promise.all(placed.map((container) => verifyContainer(attempt, name, container)))
    const service = dockerServiceOf(attempt, name)
    const upstreams = placed.map(({ address }) => `${address}:${service.port}`)
    await verifyRoute(attempt, service, answeredFrom(name, upstreams))
  } catch (error) {
    if (error instanceof StepFailure && error.code === FailureCode.HEALTH_CHECK_FAILED) {
      throw unproven(error.message)
    }
    throw error
  }
  // from here on the engine restarts it when it exits
  for (const container of placed) {
    await requireRunning(attempt, name, container)
    await setRestartPolicy(dockerOf(attempt).engine, container.id, 'unless-stopped')
  }
  attempt.output.say(`${name} is verified.`)
}
