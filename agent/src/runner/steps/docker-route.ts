// Phases route and verify: the table of the edge moves the traffic to the new containers in one call, and the proof that
// they, and not what was there before, are what answers. Until the proof is complete the old containers run on, so going
// back is the same call with the old table.
import { setTimeout as delay } from 'node:timers/promises'
import { DOCKER_STEPS, PROXY } from '@berth/shared'
import { FailureCode } from '@berth/shared/wire'
import { setRestartPolicy } from '../../exec/docker/containers.ts'
import { tryHandshake } from '../../exec/handshake.ts'
import { isLocalHost } from '../../exec/proxy/client.ts'
import { EdgeError, type EdgeRoute } from '../../exec/proxy/protocol.ts'
import {
  contradiction,
  type ExpectedContainer,
  probeOf,
  restartProblem,
} from '../../recipes/docker-verify.ts'
import { isExpectedStatus } from '../../recipes/health.ts'
import type { ContainerRoute } from '../../recipes/plan.ts'
import { proofMs } from '../../settings.ts'
import type { Attempt } from '../attempt.ts'
import { dockerOf, dockerServiceOf, routeOf } from '../docker-scene.ts'
import { StepFailure } from '../failure.ts'
import { findProxyProblem } from './docker-configure.ts'
import { awaitAnswer, look, placedOf, requireRunning, toSeen } from './docker-health.ts'

/** Where every routed service of this deployment answers. */
export const newRoutes = (attempt: Attempt): ContainerRoute[] =>
  dockerOf(attempt).routes.map(({ service, host, path, auth }) => {
    const { port } = dockerServiceOf(attempt, service)
    const { id } = placedOf(attempt, service)
    return { service, host, path, auth, target: { kind: 'container', id, port: port ?? 0 } }
  })

/** An edge that is being started again is waited for: what it is told may be told twice. */
async function whileAway<T>(tell: () => Promise<T>): Promise<T> {
  const until = performance.now() + PROXY.waitForCaddyMs
  for (;;) {
    try {
      return await tell()
    } catch (error) {
      const isAway = error instanceof EdgeError && error.kind === 'unavailable'
      if (!isAway || performance.now() >= until) throw error
    }
    await delay(PROXY.probePollMs)
  }
}

async function giveAuth(attempt: Attempt): Promise<void> {
  const { basicAuth, edgeRevision } = attempt.secrets
  try {
    await whileAway(() =>
      dockerOf(attempt).edge.setAuth({
        environmentId: attempt.assignment.environmentId,
        revision: edgeRevision,
        basicAuth: basicAuth
          ? { username: basicAuth.username, passwordHash: basicAuth.bcryptHash }
          : null,
      }),
    )
  } catch (error) {
    // settings that were changed after this deployment was asked for are the right ones
    if (!(error instanceof EdgeError && error.kind === 'stale')) throw error
  }
}

export async function giveRoutes(attempt: Attempt, routes: EdgeRoute[]): Promise<void> {
  const { environmentId, fence } = attempt.assignment
  await whileAway(() => dockerOf(attempt).edge.setRoutes({ environmentId, fence, routes }))
}

export async function switchTraffic(attempt: Attempt): Promise<void> {
  const scene = dockerOf(attempt)
  const routes = newRoutes(attempt)
  const hadRoutes = scene.routesBefore.length > 0
  if (routes.length === 0 && !hadRoutes) return attempt.output.say('Nothing is routed.')
  const problem = await findProxyProblem(attempt, PROXY.waitForCaddyMs)
  if (problem !== undefined) throw new StepFailure(FailureCode.PROXY_UNAVAILABLE, problem)
  await giveAuth(attempt)
  scene.hasSwitched = true
  await giveRoutes(attempt, routes)
  await attempt.interruption.wait(scene.edge.refreshMs)
  scene.settledAt = performance.now()
  for (const { service, host, path } of routes) {
    attempt.output.say(`${scene.edge.urlOf(host, path)} → ${service}`)
  }
}

const unproven = (message: string): StepFailure =>
  new StepFailure(FailureCode.VERIFY_FAILED, message)

function expected(attempt: Attempt, service: string): ExpectedContainer {
  const { spec, isKept } = placedOf(attempt, service)
  const { taskId, fence } = attempt.assignment
  const scene = dockerOf(attempt)
  const imageId = scene.images.get(service)?.id ?? ''
  return { service, imageId, taskId, fence, spec, isKept, notBefore: scene.beganAt }
}

/** The time in which nothing may restart is the same for all services. */
async function watchAwhile(attempt: Attempt): Promise<void> {
  attempt.verifySince ??= performance.now()
  const left = attempt.verifySince + proofMs(attempt.settings) - performance.now()
  if (left > 0) await attempt.interruption.wait(left)
}

async function verifyContainer(attempt: Attempt, name: string): Promise<void> {
  const service = dockerServiceOf(attempt, name)
  const { health } = service
  const check = async () => {
    const seen = await look(attempt, name)
    const problem = contradiction(expected(attempt, name), seen && toSeen(seen))
    if (problem !== undefined || !seen) throw unproven(problem ?? '')
    return toSeen(seen)
  }
  const before = await check()
  const since = performance.now()
  await watchAwhile(attempt)
  const after = await check()
  const problem = restartProblem(name, before, after, performance.now() - since)
  if (problem !== undefined) throw unproven(problem)
  if (service.port !== null && (health.kind === 'http' || health.kind === 'connect')) {
    await awaitAnswer(attempt, service, { ...health, startPeriodMs: 0 })
  }
}

/** Through the proxy, at the real name: the new container answers, and not the one before. */
async function verifyRoute(attempt: Attempt, name: string): Promise<void> {
  const route = routeOf(attempt, name)
  if (!route) return
  const { edge } = dockerOf(attempt)
  const service = dockerServiceOf(attempt, name)
  const asked = probeOf(service, route.path)
  const { host } = route
  const timeoutMs = DOCKER_STEPS.probeMs
  const { status, upstream } = await edge.probe({ host, ...asked, timeoutMs }).catch((error) => {
    throw error instanceof EdgeError ? unproven(error.message) : error
  })
  const wanted = `${placedOf(attempt, name).address}:${service.port}`
  if (upstream === '') {
    throw unproven(`${host} is answered by the proxy itself (${status}), not by ${name}.`)
  }
  if (upstream !== wanted) {
    throw unproven(`${host} still answers from the version before (${upstream}).`)
  }
  if (asked.isHealth && !isExpectedStatus(asked.status, status)) {
    throw unproven(`${host}${asked.path} answered ${status} through the proxy.`)
  }
  await verifyHandshake(attempt, name, host)
}

/** DNS or issuance may lag behind a deployment: a warning, with the reason. */
async function verifyHandshake(attempt: Attempt, name: string, host: string): Promise<void> {
  const { https } = attempt.settings.proxy
  if (!https || isLocalHost(host)) return
  const problem = await tryHandshake(https, host, DOCKER_STEPS.handshakeMs)
  if (problem === undefined) return
  const message = `https://${host} does not answer with a certificate yet: ${problem}.`
  attempt.output.say(`Warning: ${message}`)
  attempt.report.warning('tls_not_ready', message, `verify:${name}`)
}

export async function verifyDocker(attempt: Attempt, name: string): Promise<void> {
  try {
    await verifyContainer(attempt, name)
    await verifyRoute(attempt, name)
  } catch (error) {
    if (error instanceof StepFailure && error.code === FailureCode.HEALTH_CHECK_FAILED) {
      throw unproven(error.message)
    }
    throw error
  }
  // from here on the engine starts it again when it ends
  const { id } = placedOf(attempt, name)
  await requireRunning(attempt, name)
  await setRestartPolicy(dockerOf(attempt).engine, id, 'unless-stopped')
  attempt.output.say(`${name} is verified.`)
}
