// Phases release and start: networks, volumes and containers. A routed service starts beside the one that serves. A
// service without a route exists once: a changed one is stopped first (and restarted if anything fails), an unchanged
// one is left alone. Invariant: the row of every object is committed before the object is created.

import type { DockerService } from '@berth/shared/service-file'
import { FailureCode, LogSource } from '@berth/shared/wire'
import type { ObjectKind, ObjectRow } from '../../journal/objects.ts'
import { DOCKER_STEPS } from '../../limits/docker.ts'
import {
  createContainer,
  hasShell,
  inspectContainer,
  inspectOwned,
  type Observed,
  removeContainer,
  startContainer,
  stopContainer,
  waitContainer,
} from '../../machine/docker/containers.ts'
import { EngineError } from '../../machine/docker/engine-error.ts'
import { followLogs } from '../../machine/docker/logs.ts'
import {
  containerName,
  nameReplica,
  networkName,
  releaseName,
  volumeName,
} from '../../machine/docker/names.ts'
import { ensureNetwork } from '../../machine/docker/networks.ts'
import { ensureVolume } from '../../machine/docker/volumes.ts'
import { fingerprint } from '../../machine/spec-key.ts'
import { guardServer } from '../../resources/firewall.ts'
import { type Attempt, need } from '../attempt.ts'
import { StepFailure } from '../failure.ts'
import { neededMemory } from '../plan/ceilings.ts'
import { routeOf } from '../routing.ts'
import { variableFiles } from './configure.ts'
import {
  type ContainerFacts,
  type ContainerSpec,
  programOf,
  releaseContainer,
  serviceContainer,
  specText,
} from './container-spec.ts'
import {
  dockerOf,
  dockerSectionOf,
  dockerServiceOf,
  isUntrusted,
  labels,
  lastDocker,
  type Placed,
} from './docker-context.ts'
import { awaitContainer, placedOf } from './health.ts'
import { LABELS } from './verify.ts'

/**
 * Whether an earlier attempt of the same task, whose runner died, may have created it; an object without a row does not
 * exist.
 */
const isFormer = (attempt: Attempt, name: string): boolean =>
  attempt.ledger.objects
    .list({ environmentId: attempt.assignment.environmentId, kind: 'container' })
    .some((row) => row.name === name)

function putRow(
  attempt: Attempt,
  kind: ObjectKind,
  name: string,
  service: string,
  facts: Record<string, unknown> = {},
): void {
  const { environmentId, taskId, attemptId } = attempt.assignment
  const row = { kind, name, environmentId, taskId, attemptId, service, facts }
  // networks and volumes outlive the deployment that created them
  const state = kind === 'container' ? 'making' : 'kept'
  attempt.ledger.objects.put({ ...row, state })
}

/** Network and volumes are created once for the environment and kept until it is removed. */
async function prepareNetwork(attempt: Attempt): Promise<void> {
  const { engine } = dockerOf(attempt)
  const { settings, assignment, ledger } = attempt
  const { environmentId } = assignment
  const known = ledger.objects.list({ environmentId })
  const { subnet, name } = await ensureNetwork(engine, settings, {
    environmentId,
    labels: labels(attempt),
    isIsolated: isUntrusted(attempt),
    takenSubnets: ledger.objects.takenSubnets(),
    onChosen: (chosen) => putRow(attempt, 'network', chosen.name, '', { subnet: chosen.subnet }),
  })
  if (!known.some((row) => row.kind === 'network')) putRow(attempt, 'network', name, '', { subnet })
  await guardServer(settings, ledger) // before anything runs in it
  for (const volume of dockerSectionOf(attempt).volumes) {
    const full = volumeName(settings, environmentId, volume)
    if (!known.some((row) => row.kind === 'volume' && row.name === full)) {
      putRow(attempt, 'volume', full, '', { volume })
    }
    await ensureVolume(engine, { name: full, labels: labels(attempt) })
  }
}

export async function networkStep(attempt: Attempt): Promise<void> {
  await prepareNetwork(attempt)
  attempt.output.say(`Network ${networkName(attempt.settings, attempt.assignment.environmentId)}.`)
}

const must = <T>(value: T | undefined, what: string): T => {
  if (value === undefined) throw new Error(`${what} is not known yet`)
  return value
}

function specOf(attempt: Attempt, service: DockerService): string {
  const docker = dockerOf(attempt)
  const { name } = service
  return fingerprint(
    attempt.settings,
    specText(service, {
      imageId: must(docker.images.get(name), `the image of ${name}`).id,
      values: must(docker.values.get(name), `the variables of ${name}`),
      limits: must(docker.limits.get(name), `the limits of ${name}`),
      isUntrusted: isUntrusted(attempt),
    }),
  )
}

function factsOf(
  attempt: Attempt,
  service: DockerService,
  name: string,
  { spec, replica }: { spec: string; replica?: number },
): ContainerFacts {
  const docker = dockerOf(attempt)
  const { environmentId } = attempt.assignment
  const { volumes } = dockerSectionOf(attempt)
  return {
    name,
    image: must(docker.images.get(service.name), `the image of ${service.name}`),
    labels: labels(attempt, { service: service.name, spec, replica }),
    network: networkName(attempt.settings, environmentId),
    volumeNames: new Map(volumes.map((v) => [v, volumeName(attempt.settings, environmentId, v)])),
    files: variableFiles(attempt, service.name),
    limits: must(docker.limits.get(service.name), `the limits of ${service.name}`),
    isUntrusted: isUntrusted(attempt),
  }
}

async function removeFormer(attempt: Attempt, name: string): Promise<void> {
  const { engine } = dockerOf(attempt)
  const former = await inspectOwned(engine, attempt.settings, name)
  if (former) await removeContainer(engine, former.id)
}

/** Created again without the launcher when the image has no shell to run it. */
async function make(
  attempt: Attempt,
  service: DockerService,
  facts: ContainerFacts,
  specFor: (service: DockerService, facts: ContainerFacts) => ContainerSpec,
): Promise<{ id: string; isPlain: boolean }> {
  const { engine, values } = dockerOf(attempt)
  const id = await createContainer(engine, specFor(service, facts))
  if (await hasShell(engine, id)) return { id, isPlain: false }
  await removeContainer(engine, id)
  const plainValues = must(values.get(service.name), `the variables of ${service.name}`)
  const again = await createContainer(engine, specFor(service, { ...facts, plainValues }))
  return { id: again, isPlain: true }
}

/** The engine's own message for a container that cannot be created or started; the cause is in the service file. */
function explainStart(service: string, error: unknown): unknown {
  if (!(error instanceof EngineError)) return error
  if (error.kind === 'unavailable' || error.kind === 'disk_full' || error.kind === 'canceled') {
    return error
  }
  const message = `${service} could not be started: ${error.message}`
  return new StepFailure(FailureCode.HEALTH_CHECK_FAILED, message.replace(/\.?$/, '.'))
}

interface OldContainer {
  row: ObjectRow
  seen: Observed | undefined
}

/** In the order of their replicas. */
async function findOld(attempt: Attempt, service: string): Promise<OldContainer[]> {
  const { environmentId } = attempt.assignment
  const rows = attempt.ledger.objects
    .list({ environmentId, kind: 'container' })
    .filter((found) => found.service === service && found.state === 'serving')
    .toSorted((a, b) => replicaOf(a) - replicaOf(b))
  const { engine } = dockerOf(attempt)
  return Promise.all(
    rows.map(async (row) => {
      return { row, seen: await inspectOwned(engine, attempt.settings, row.name) }
    }),
  )
}

/** Rows of earlier agents have no number. */
const replicaOf = ({ facts }: ObjectRow): number => Number(facts.replica ?? 1)

const wasRouted = (attempt: Attempt, service: string): boolean =>
  lastDocker(attempt)?.routes.some((route) => route.service === service) ?? false

function keep(old: OldContainer, seen: Observed, spec: string): Placed {
  const { row } = old
  const { imageId, address = '', id, name } = seen
  const replica = replicaOf(row)
  return { id, name, taskId: row.taskId, imageId, spec, isKept: true, address, replica }
}

async function pauseOld(attempt: Attempt, { row, seen }: OldContainer): Promise<void> {
  const { ledger, assignment, output } = attempt
  const startedAt = performance.now()
  ledger.objects.setState(row, 'paused', assignment.attemptId)
  if (!seen) return
  const timeoutMs = Number(row.facts.stopTimeoutMs ?? 10_000)
  await stopContainer(dockerOf(attempt).engine, seen.id, timeoutMs)
  const tookMs = Math.round(performance.now() - startedAt)
  output.say(
    `${row.service} of deployment ${row.taskId} was stopped in ${tookMs} ms: from here to the start of the new one it is away.`,
  )
}

async function place(attempt: Attempt, service: DockerService, replica: number): Promise<Placed> {
  const { engine } = dockerOf(attempt)
  const { environmentId, taskId } = attempt.assignment
  const { name: serviceName, port, stopTimeoutMs, drainMs } = service
  const spec = specOf(attempt, service)
  const name = containerName(attempt.settings, environmentId, serviceName, taskId, replica)
  const facts = factsOf(attempt, service, name, { spec, replica })
  if (programOf(service, facts.image).length === 0) {
    throw new StepFailure(
      FailureCode.HEALTH_CHECK_FAILED,
      `${serviceName} has nothing to run: its image names neither ENTRYPOINT nor CMD. Give it a 'command'.`,
    )
  }
  const { secretKeys } = need(attempt, 'variables') // their values are masked in its log
  const isAgain = isFormer(attempt, name)
  putRow(attempt, 'container', name, serviceName, {
    port,
    stopTimeoutMs,
    drainMs,
    spec,
    secretKeys,
    replica,
    replicas: service.replicas,
  })
  try {
    if (isAgain) await removeFormer(attempt, name)
    const { id, isPlain } = await make(attempt, service, facts, serviceContainer)
    if (isPlain) {
      attempt.output.say(
        `${serviceName} has no shell; its variables are visible to \`docker inspect\` on this server.`,
      )
    }
    await startContainer(engine, id)
    const address = (await inspectContainer(engine, id))?.address ?? ''
    const imageId = facts.image.id
    return { id, name, taskId, imageId, spec, isKept: false, address, replica }
  } catch (error) {
    throw explainStart(serviceName, error)
  }
}

/** Keeps what is unchanged, or starts the first replica; the others follow when it is healthy. */
async function bringUp(attempt: Attempt, service: DockerService): Promise<Placed[]> {
  const { name, replicas } = service
  const spec = specOf(attempt, service)
  const isRouted = routeOf(attempt, name) !== undefined || wasRouted(attempt, name)
  const old = isRouted ? [] : await findOld(attempt, name)
  const same = old.flatMap(({ row, seen }) =>
    seen?.state === 'running' && seen.labels[LABELS.spec] === spec
      ? [keep({ row, seen }, seen, spec)]
      : [],
  )
  if (same.length > 0) return same.slice(0, replicas)
  for (const container of old) await pauseOld(attempt, container)
  return [await place(attempt, service, 1)]
}

/** Each replica is healthy before the next one starts, so a broken version has one broken container. */
export async function awaitReplicas(attempt: Attempt, name: string): Promise<void> {
  const service = dockerServiceOf(attempt, name)
  const placed = placedOf(attempt, name)
  for (const container of placed) await awaitContainer(attempt, name, container)
  while (placed.length < service.replicas) {
    attempt.interruption.throwIfFired()
    const taken = new Set(placed.map(({ replica }) => replica))
    let replica = 1
    while (taken.has(replica)) replica += 1
    const started = await place(attempt, service, replica)
    placed.push(started)
    const shown = nameReplica(name, replica, service.replicas)
    attempt.output.say(`${shown} was started as ${started.name} (${started.address}).`)
    await awaitContainer(attempt, name, started)
  }
}

/** Starts the services of one rank concurrently, a few at a time; the step of each service awaits its own start. */
function startAhead(attempt: Attempt, names: string[]): void {
  const docker = dockerOf(attempt)
  const lanes = Array<Promise<unknown>>(DOCKER_STEPS.parallel).fill(Promise.resolve())
  for (const [index, name] of names.filter((found) => !docker.ahead.has(found)).entries()) {
    const lane = index % lanes.length
    const started = (lanes[lane] as Promise<unknown>).then(() => {
      attempt.interruption.throwIfFired()
      if (docker.isOver) throw new Error('the deployment is over')
      return bringUp(attempt, dockerServiceOf(attempt, name))
    })
    lanes[lane] = started.catch(() => undefined) // reported by the step that awaits it
    docker.ahead.set(name, started)
  }
}

/** Consecutive start steps of the plan belong to one rank. */
function rankMates(attempt: Attempt, name: string): string[] {
  const steps = attempt.results.plan.phases.find((phase) => phase.name === 'start')?.steps ?? []
  const at = steps.findIndex(({ id }) => id === `start:${name}`)
  const mates: string[] = []
  for (const { work } of steps.slice(at)) {
    if (work.kind !== 'docker' || work.does !== 'start') break
    mates.push(work.service)
  }
  return mates
}

async function started(attempt: Attempt, name: string): Promise<void> {
  const docker = dockerOf(attempt)
  const placed = await must(docker.ahead.get(name), `the start of ${name}`)
  docker.containers.set(name, placed)
  const { replicas } = dockerServiceOf(attempt, name)
  for (const { isKept, replica, taskId, name: container, address } of placed) {
    const shown = nameReplica(name, replica, replicas)
    attempt.output.say(
      isKept
        ? `${shown} did not change; the container of deployment ${taskId} is left running.`
        : `${shown} was started as ${container} (${address}).`,
    )
  }
}

export async function startService(attempt: Attempt, name: string): Promise<void> {
  startAhead(attempt, rankMates(attempt, name))
  await started(attempt, name)
}

/** What a release command needs must be up and healthy before it runs. */
export async function bringUpDependency(attempt: Attempt, name: string): Promise<void> {
  await prepareNetwork(attempt)
  startAhead(attempt, [name])
  await started(attempt, name)
  await awaitReplicas(attempt, name)
}

/** The command's output becomes the output of the step. */
async function follow(attempt: Attempt, id: string, signal: AbortSignal): Promise<void> {
  await followLogs(dockerOf(attempt).engine, id, {
    signal,
    onRecord: ({ stream, bytes }) =>
      attempt.output.write(stream === 'err' ? LogSource.STDERR : LogSource.STDOUT, bytes),
  })
}

const DATA = 'What it did to data stays.'

async function runRelease(attempt: Attempt, service: DockerService, id: string): Promise<void> {
  const { engine } = dockerOf(attempt)
  const clock = AbortSignal.timeout(DOCKER_STEPS.releaseMs)
  const signal = AbortSignal.any([attempt.interruption.signal, clock])
  try {
    await startContainer(engine, id)
  } catch (error) {
    throw explainStart(`The release command of ${service.name}`, error)
  }
  const command = (service.release ?? '').trim().replaceAll(/\s+/g, ' ').slice(0, 80)
  const fail = (code: FailureCode, how: string, exitCode?: number): StepFailure =>
    new StepFailure(code, `\`${command}\` ${how}. ${DATA}`, { exitCode, isCheck: false })
  try {
    await follow(attempt, id, signal)
    const end = await waitContainer(engine, id, signal)
    if (end.outOfMemory) {
      const { memoryBytes } = dockerOf(attempt).limits.get(service.name) ?? {}
      const why = neededMemory(service.name, memoryBytes).replace(/\.$/, '')
      throw fail(FailureCode.OUT_OF_MEMORY, `was stopped by the kernel: ${why}`)
    }
    if (end.exitCode === 0) return
    throw fail(FailureCode.RELEASE_FAILED, `exited with ${end.exitCode}`, end.exitCode)
  } catch (error) {
    attempt.interruption.throwIfFired()
    if (clock.aborted && !(error instanceof StepFailure)) {
      throw fail(FailureCode.TIMEOUT, `took longer than ${DOCKER_STEPS.releaseMs / 60_000} min`)
    }
    throw error
  }
}

export async function releaseService(attempt: Attempt, serviceName: string): Promise<void> {
  const { engine } = dockerOf(attempt)
  const { environmentId, taskId } = attempt.assignment
  const service = dockerServiceOf(attempt, serviceName)
  await prepareNetwork(attempt)
  const name = releaseName(attempt.settings, environmentId, serviceName, taskId)
  const isAgain = isFormer(attempt, name)
  putRow(attempt, 'container', name, serviceName)
  if (isAgain) await removeFormer(attempt, name)
  const facts = factsOf(attempt, service, name, { spec: '' })
  const { id, isPlain } = await make(attempt, service, facts, releaseContainer)
  try {
    if (isPlain) {
      throw new StepFailure(
        FailureCode.RELEASE_FAILED,
        `The image of ${serviceName} has no shell, so its release command cannot run.`,
      )
    }
    await runRelease(attempt, service, id)
  } finally {
    await removeContainer(engine, id)
    attempt.ledger.objects.remove({ kind: 'container', name, environmentId })
  }
}
