// Restarts, stops or starts one service of the running version, without a deployment. A stop is recorded before
// anything ends, so that neither the daemon nor a restart of the machine brings the service back; its address shows a
// page. A runner that dies in a restart leaves a paused service, which the next recovery starts again.
import { STEPS } from '@berth/shared'
import { routes, type ServiceFile } from '@berth/shared/service-file'
import { FailureCode } from '@berth/shared/wire'
import type { ObjectRow } from '../../journal/objects.ts'
import { ROUTE_STEPS } from '../../limits/proxy.ts'
import {
  inspectContainer,
  inspectOwned,
  startContainer,
  stopContainer,
} from '../../machine/docker/containers.ts'
import { inspectImage } from '../../machine/docker/images.ts'
import { serverName } from '../../machine/server-settings.ts'
import { letRequestsEnd } from '../../proxy/client.ts'
import { instructionsOf, startService, stopService } from '../../supervise/control.ts'
import { isSupervised, readState, serviceDir } from '../../supervise/instructions.ts'
import type { Attempt } from '../attempt.ts'
import { dockerOf } from '../docker/docker-context.ts'
import { awaitContainer, showPlaced } from '../docker/health.ts'
import { StepFailure } from '../failure.ts'
import { awaitHealth } from '../manual/service-processes.ts'
import {
  type DockerPlan,
  isDockerPlan,
  type LastPlan,
  type LifecycleVerb,
  type ManualPlan,
  type RunningContainer,
} from '../plan/plan.ts'
import { routesNow } from '../restore-routes.ts'
import { giveRoutes, routingOf } from '../routing.ts'
import { environmentFacts } from './configure.ts'
import { lookUpAccount } from './end-version.ts'
import { managedServices } from './lifecycle-plan.ts'

const failed = (code: FailureCode, message: string): StepFailure =>
  new StepFailure(code, message, { isCheck: false })

/** One service of the running version, whichever recipe deployed it. */
export interface Control {
  isUp: boolean
  /** Where requests reach it; empty: it does not run, or has no address. */
  upstreams: string[]
  stop(): Promise<void>
  /** It ends only until the next `start`, which a recovery makes if this runner dies. */
  pause(): Promise<void>
  /** Starts it and waits until it is healthy. */
  start(): Promise<void>
  /** Replicas one after the other. If this runner dies in between, the recovery starts what was stopped. */
  restart(): Promise<void>
}

export async function changeService(
  attempt: Attempt,
  { does, service }: { does: LifecycleVerb; service: string },
): Promise<void> {
  const last = lastOf(attempt, service)
  const control = await openControl(attempt, last, service)
  switch (does) {
    case 'stop':
      return stop(attempt, last, service, control)
    case 'start':
      return start(attempt, last, service, control)
    case 'restart':
      return restart(attempt, last, service, control)
  }
}

/** One of `managedServices`. */
export const openControl = (attempt: Attempt, last: LastPlan, service: string): Promise<Control> =>
  isDockerPlan(last)
    ? containerControl(attempt, last, service)
    : processControl(attempt, last, service)

export function requireLast(attempt: Attempt): LastPlan {
  const { last } = attempt.results
  const identifier = attempt.spec.environment?.identifier
  if (!last) {
    throw failed(
      FailureCode.NOT_DEPLOYED,
      `Nothing of ${identifier} was ever deployed successfully on server ${serverName(attempt.settings)}. Deploy it first.`,
    )
  }
  return last
}

function lastOf(attempt: Attempt, service: string): LastPlan {
  const last = requireLast(attempt)
  const names = managedServices(last)
  if (names.includes(service)) return last
  const all: string[] = last.section.services.map(({ name }) => name)
  if (all.includes(service)) {
    throw failed(
      FailureCode.STEP_FAILED,
      `${service} has no 'run': the repository's own commands start and stop it, so Berth cannot.`,
    )
  }
  const has = names.length > 0 ? `It has: ${names.join(', ')}.` : 'Berth keeps none of it running.'
  const what = service === '' ? 'no service that Berth runs' : `no service ${service}`
  throw failed(FailureCode.STEP_FAILED, `The last deployment (${last.taskId}) has ${what}. ${has}`)
}

async function showRoutes(attempt: Attempt, last: LastPlan): Promise<void> {
  const stopped = attempt.ledger.listStopped(attempt.assignment.environmentId)
  const wanted = routesNow(last, stopped) ?? []
  if (wanted.length === 0) return
  await giveRoutes(attempt, wanted)
}

async function stop(
  attempt: Attempt,
  last: LastPlan,
  service: string,
  control: Control,
): Promise<void> {
  const { ledger, assignment, output } = attempt
  const { environmentId, taskId } = assignment
  const wasStopped = ledger.listStopped(environmentId).has(service)
  if (!wasStopped) ledger.setStopped(environmentId, service, taskId)
  await showRoutes(attempt, last)
  if (wasStopped && !control.isUp) return output.say(`${service} is stopped already.`)
  await letRequestsEnd(routingOf(attempt).edge, control.upstreams, ROUTE_STEPS.drainMaxMs)
  const startedAt = performance.now()
  await control.stop()
  output.say(`${service} was stopped in ${Math.round(performance.now() - startedAt)} ms.`)
}

async function start(
  attempt: Attempt,
  last: LastPlan,
  service: string,
  control: Control,
): Promise<void> {
  const { ledger, assignment, output } = attempt
  const wasStopped = ledger.listStopped(assignment.environmentId).has(service)
  if (control.isUp && !wasStopped) return output.say(`${service} runs already.`)
  try {
    await control.start()
  } catch (error) {
    if (wasStopped) await control.stop() // so that it is what it is shown as
    throw error
  }
  ledger.setStarted(assignment.environmentId, service)
  await showRoutes(attempt, last)
}

/** Nothing may interrupt it between its end and its start. */
async function restart(
  attempt: Attempt,
  last: LastPlan,
  service: string,
  control: Control,
): Promise<void> {
  const { ledger, assignment, output } = attempt
  if (ledger.listStopped(assignment.environmentId).has(service)) {
    return start(attempt, last, service, control)
  }
  attempt.interruption.throwIfFired()
  const startedAt = performance.now()
  await control.restart()
  const ms = Math.round(performance.now() - startedAt)
  const isRolling = control.upstreams.length > 1
  output.say(
    isRolling
      ? `${service} was restarted in ${ms} ms, one replica after the other.`
      : `${service} was away for ${ms} ms.`,
  )
}

/** The health checks of a deployment look at the file and the routes of the version they check. */
function adopt(attempt: Attempt, last: LastPlan): void {
  const isDocker = isDockerPlan(last)
  const file: ServiceFile = {
    docker: isDocker ? last.section : null,
    manual: isDocker ? null : last.section,
    actions: last.actions,
  }
  const recipe = isDocker ? 'docker' : 'manual'
  attempt.results.file = file
  routingOf(attempt).routes = routes(file, recipe, environmentFacts(attempt)).routes
}

async function containerControl(
  attempt: Attempt,
  last: DockerPlan,
  service: string,
): Promise<Control> {
  adopt(attempt, last)
  const running = last.services.filter((found) => found.service === service)
  const replicas: Replica[] = []
  for (const container of running) replicas.push(await replicaControl(attempt, container))
  if (replicas.length === 0) throw isGone(service)
  const port = last.section.services.find(({ name }) => name === service)?.port
  return {
    isUp: replicas.every(({ isUp }) => isUp),
    upstreams: replicas.flatMap(({ address }) => (address && port ? [`${address}:${port}`] : [])),
    async stop() {
      for (const replica of replicas) await replica.stop()
    },
    async pause() {
      for (const replica of replicas) await replica.pause()
    },
    async start() {
      for (const replica of replicas) await replica.start()
    },
    async restart() {
      const isRouted = last.routes.some((route) => route.service === service)
      for (const replica of replicas) {
        if (isRouted && replicas.length > 1) await leave(attempt, replica, port)
        await replica.pause()
        await replica.start()
      }
      if (isRouted && replicas.length > 1) await avoid(attempt, [])
    },
  }
}

const isGone = (service: string): StepFailure =>
  failed(
    FailureCode.STEP_FAILED,
    `The container of ${service} is gone. Deploy the environment again.`,
  )

/** One container of a service. */
interface Replica {
  id: string
  isUp: boolean
  address: string | undefined
  /** It ends only until the next `start`. */
  pause(): Promise<void>
  stop(): Promise<void>
  start(): Promise<void>
}

async function avoid(attempt: Attempt, containers: string[]): Promise<void> {
  const { environmentId } = attempt.assignment
  await routingOf(attempt).edge.setAvoided({ environmentId, containers })
}

/** New requests go to the other replicas, and running ones end, before this one does. */
async function leave(
  attempt: Attempt,
  { id, address }: Replica,
  port: number | null | undefined,
): Promise<void> {
  const { edge } = routingOf(attempt)
  await avoid(attempt, [id])
  if (address && port) await letRequestsEnd(edge, [`${address}:${port}`], ROUTE_STEPS.drainMaxMs)
}

async function replicaControl(attempt: Attempt, running: RunningContainer): Promise<Replica> {
  const { engine, containers, images } = dockerOf(attempt)
  const { settings, ledger, assignment } = attempt
  const { environmentId, attemptId } = assignment
  const { service, replica = 1 } = running
  const seen = await inspectOwned(engine, settings, running.container)
  if (!seen) throw isGone(service)
  const row = ledger.objects
    .list({ environmentId, kind: 'container' })
    .find(({ name }) => name === running.container)
  const mark = (state: ObjectRow['state']): void => {
    if (row) ledger.objects.setState(row, state, attemptId)
  }
  const end = (): Promise<void> =>
    stopContainer(engine, seen.id, Number(row?.facts.stopTimeoutMs ?? STEPS.stopTimeoutMs))
  return {
    id: seen.id,
    isUp: seen.state === 'running',
    address: seen.address,
    async pause() {
      mark('paused')
      await end()
    },
    async stop() {
      await end()
      mark('serving')
    },
    async start() {
      await startContainer(engine, seen.id)
      mark('serving')
      const address = (await inspectContainer(engine, seen.id))?.address ?? ''
      const { taskId, imageId, spec } = running
      const name = running.container
      const placed = { id: seen.id, name, taskId, imageId, spec, isKept: false, address, replica }
      containers.set(service, [placed])
      const image = await inspectImage(engine, imageId) // its own HEALTHCHECK may be asked
      const { image: reference, digest } = running
      if (image) images.set(service, { ...image, reference, digest })
      attempt.output.say(`${showPlaced(attempt, service, placed)} was started.`)
      await awaitContainer(attempt, service, placed)
    },
  }
}

async function processControl(
  attempt: Attempt,
  last: ManualPlan,
  service: string,
): Promise<Control> {
  const { settings, ledger, assignment, results } = attempt
  const { environmentId, attemptId } = assignment
  await lookUpAccount(attempt)
  adopt(attempt, last)
  results.ports = new Map(Object.entries(last.ports))
  results.processesOf = last.taskId
  const row = ledger
    .listProcesses(environmentId)
    .find((found) => found.service === service && found.taskId === last.taskId)
  if (!row) {
    const isStatic = last.section.services.some(({ name, run }) => name === service && run === null)
    if (isStatic) return FILES
    const message = `${service} has no process here. Deploy the environment again.`
    throw failed(FailureCode.STEP_FAILED, message)
  }
  const instructions = instructionsOf(row)
  const isUp = isSupervised(readState(serviceDir(settings, instructions)))
  const start = async (): Promise<void> => {
    await stopService(settings, instructions) // also ends what a dead supervisor left behind
    await startService(settings, instructions, { isVerified: true })
    ledger.setProcessState(row, 'serving', attemptId)
    attempt.output.say(`${service} was started.`)
    await awaitHealth(attempt, service)
  }
  return {
    isUp,
    upstreams: isUp && row.port !== undefined ? [`127.0.0.1:${row.port}`] : [],
    async stop() {
      await stopService(settings, instructions)
      ledger.setProcessState(row, 'serving', attemptId)
    },
    async pause() {
      ledger.setProcessState(row, 'paused', attemptId)
      await stopService(settings, instructions)
    },
    start,
    async restart() {
      ledger.setProcessState(row, 'paused', attemptId)
      await start()
    },
  }
}

/** A folder of files has no process; only its address changes. */
const FILES: Control = {
  isUp: true,
  upstreams: [],
  stop: async () => undefined,
  pause: async () => undefined,
  start: async () => undefined,
  restart: async () => undefined,
}
