// Phase build: every service gets an image, either built from the checkout or pulled and pinned to the registry's
// digest. A kept image of the same commit, settings and values is reused; a rollback is just that. Invariant: the row
// of an image is committed before the image can exist, and a build gets only the values that its file names.
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { registryOf, SERVER_SETTINGS, stripEscapes } from '@berth/shared'
import type { DockerService } from '@berth/shared/service-file'
import { FailureCode, LogSource } from '@berth/shared/wire'
import type { ObjectRow } from '../../journal/objects.ts'
import { BUILDS, DOCKER_STEPS } from '../../limits/docker.ts'
import {
  BuildError,
  type BuildStep,
  buildImage,
  readDockerfile,
} from '../../machine/docker/build/build.ts'
import { resolveInside } from '../../machine/docker/build/context.ts'
import { baseImageMissing, nameOf } from '../../machine/docker/build/failure.ts'
import type { BuildBounds } from '../../machine/docker/build/fence.ts'
import { EngineError } from '../../machine/docker/engine-error.ts'
import {
  findPulled,
  inspectImage,
  lookUpImage,
  pullImage,
  tagImage,
  withTag,
} from '../../machine/docker/images.ts'
import { hideImage, isImageName, labelsOf, shownImage } from '../../machine/docker/names.ts'
import { caseOf, isAway, registryAdvice, troubleOf } from '../../machine/docker/registries.ts'
import type { SlotKind } from '../../machine/process/slots.ts'
import { readServerSettings } from '../../machine/server-settings.ts'
import { fingerprint } from '../../machine/spec-key.ts'
import { type Attempt, need } from '../attempt.ts'
import { buildCeilingOf, describeMemory, describeTime } from '../ceiling.ts'
import { StepFailure } from '../failure.ts'
import type { MemoryLimit } from '../plan/build-limits.ts'
import { guardDiskSpace } from '../steps/disk-space.ts'
import { awaitSlot } from '../steps/slot.ts'
import {
  dockerOf,
  dockerSectionOf,
  dockerServiceOf,
  isUntrusted,
  type ReadyBuild,
  type ReadyImage,
  registriesOf,
} from './docker-context.ts'
import { baseImages, findDockerfileFault, isOwnImage, NOT_SHARED } from './image-references.ts'

/** Runs `act` in one of the server's slots and within the timeout of the step. */
async function withSlot<T>(
  attempt: Attempt,
  kind: SlotKind,
  service: string,
  timeoutMs: number,
  act: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { signal } = attempt.interruption
  const release = await awaitSlot(attempt, kind)
  const clock = AbortSignal.timeout(timeoutMs)
  try {
    return await guardDiskSpace(attempt, (watched) => act(AbortSignal.any([watched, clock])))
  } catch (error) {
    if (!clock.aborted || signal.aborted) throw error
    const what = `Step ${kind}:${service}`
    const message =
      kind === 'build'
        ? describeTime(attempt, what, timeoutMs)
        : `${what} took longer than ${timeoutMs / 60_000} min.`
    throw new StepFailure(FailureCode.TIMEOUT, message)
  } finally {
    release()
  }
}

async function ready(
  attempt: Attempt,
  imageId: string,
  facts: { reference: string; digest: string },
): Promise<ReadyImage> {
  const image = await inspectImage(dockerOf(attempt).engine, imageId)
  if (!image) throw new EngineError('not_found', `image ${imageId} is gone`)
  const { id, entrypoint, cmd, user, healthcheck } = image
  return { id, entrypoint, cmd, user, healthcheck, ...facts }
}

const rowOf = (
  attempt: Attempt,
  kind: 'image' | 'pulled',
  name: string,
  service: string,
  facts: Record<string, unknown>,
): Omit<ObjectRow, 'at'> => {
  const { environmentId, taskId, attemptId } = attempt.assignment
  return { kind, name, environmentId, taskId, attemptId, service, state: 'making', facts }
}

const readyBuildOf = (attempt: Attempt, name: string): ReadyBuild => {
  const found = dockerOf(attempt).builds.get(name)
  if (!found) throw new Error(`the build of ${name} is not ready`)
  return found
}

async function findKept(attempt: Attempt, service: DockerService): Promise<ObjectRow | undefined> {
  const { kind } = attempt.spec
  if (kind.case === 'deploy' && kind.value.noCache) return undefined
  const { environmentId, taskId } = attempt.assignment
  const commit = need(attempt, 'commit').sha
  const build = readyBuildOf(attempt, service.name).mark
  const rows = attempt.ledger.objects.list({ environmentId, kind: 'image' }).toReversed()
  for (const row of rows) {
    const isSame = row.service === service.name && row.facts.commit === commit
    if (!isSame || row.facts.build !== build || row.taskId === taskId) continue
    if (await inspectImage(dockerOf(attempt).engine, row.name)) return row
  }
  return undefined
}

const CODES: Record<BuildError['kind'], FailureCode> = {
  build_failed: FailureCode.BUILD_FAILED,
  out_of_memory: FailureCode.OUT_OF_MEMORY,
  disk_full: FailureCode.DISK_FULL,
  canceled: FailureCode.BUILD_FAILED,
  unavailable: FailureCode.DOCKER_UNAVAILABLE,
}

/** For a message, which is shown where no terminal obeys escape sequences. */
export function lastOf(text: string): string {
  const lines = stripEscapes(text)
    .split('\n')
    .map((line) => line.trimEnd())
    .filter((line) => line !== '')
  return lines
    .slice(-DOCKER_STEPS.messageLines)
    .map((line) => line.slice(0, DOCKER_STEPS.messageLineLength))
    .join('\n')
}

function explainBuild(attempt: Attempt, error: unknown): unknown {
  if (!(error instanceof BuildError)) return error
  if (error.kind === 'unavailable') return new EngineError('unavailable', error.message)
  const facts = { exitCode: error.exitCode, isCheck: false }
  if (error.memoryCause) {
    const { memory } = limitsOf(attempt)
    const message = describeMemory(attempt, nameOf(error.step), memory, error.memoryCause)
    return new StepFailure(FailureCode.OUT_OF_MEMORY, message, facts)
  }
  if (error.kind !== 'build_failed') {
    return new StepFailure(CODES[error.kind], error.message, facts)
  }
  const lines = lastOf(error.lastLines)
  const shown = lines ? ` Its last lines:\n${lines}` : ''
  return new StepFailure(FailureCode.BUILD_FAILED, `${error.message}${shown}`, facts)
}

/** Writes build progress as lines of the output. */
function follower(attempt: Attempt) {
  const numbers = new Map<string, number>()
  return {
    onStep: ({ id, name, state, ms, cached }: BuildStep): void => {
      const took = `${((ms ?? 0) / 1_000).toFixed(1)}s`
      const end = state === 'failed' ? 'FAILED' : cached ? 'CACHED' : `DONE ${took}`
      const number = numbers.get(id) ?? numbers.size + 1
      if (!numbers.has(id)) attempt.output.say(`#${number} ${name}`)
      numbers.set(id, number)
      if (state !== 'running') attempt.output.say(`#${number} ${end}`)
    },
    onText: (_step: unknown, text: string): void => {
      attempt.output.write(LogSource.STDOUT, Buffer.from(text))
    },
  }
}

/** Context and Dockerfile must stay inside the checkout after links are resolved. */
function findContext(
  attempt: Attempt,
  build: NonNullable<DockerService['build']>,
): { folder: string; dockerfile: string } {
  try {
    const folder = resolveInside(attempt.releaseDir, build.context)
    const real = resolveInside(folder, build.dockerfile)
    return { folder, dockerfile: relative(folder, real) }
  } catch (error) {
    const message = (error as Error).message
    throw new StepFailure(FailureCode.BUILD_FAILED, message, { isCheck: false })
  }
}

/** Serializes builds of the same folder for the same service. */
function shareContext(attempt: Attempt, service: string, folder: string) {
  const { environmentId } = attempt.assignment
  const key = fingerprint(
    attempt.settings,
    JSON.stringify(['context', environmentId, service, folder]),
  )
  return { key, times: join(attempt.paths.dir, 'contexts', `${service}.json`) }
}

/** Limits of a RUN command: the server's, at most those of the environment, and less for a fork's build. */
function limitsOf(attempt: Attempt): { memory: MemoryLimit; cpus: number; pids: number } {
  const own = buildCeilingOf(attempt)
  if (!isUntrusted(attempt)) return { ...own, pids: Math.min(BUILDS.pids, own.pids) }
  const { untrustedMemoryBytes: fork, untrustedPids, untrustedCpus } = BUILDS
  return {
    memory: fork < own.memory.bytes ? { bytes: fork, setBy: 'fork' } : own.memory,
    cpus: Math.min(untrustedCpus, own.cpus),
    pids: Math.min(untrustedPids, own.pids),
  }
}

function boundsOf(attempt: Attempt): BuildBounds {
  const { memory, cpus, pids } = limitsOf(attempt)
  // without a quota of its own, a build uses what is idle
  return { memoryBytes: memory.bytes, pids, cpus: cpus < availableParallelism() ? cpus : undefined }
}

/** Projects cannot see each other's caches, and a fork leaves nothing in its project's cache. */
function cachesOf(attempt: Attempt): string {
  const { environmentId } = attempt.assignment
  const projectId = attempt.spec.environment?.projectId ?? 0
  const owner = isUntrusted(attempt) ? { environmentId } : { projectId }
  return fingerprint(attempt.settings, JSON.stringify(['caches', owner]))
}

/** Whether a reference in a service file is a name that Berth gives to the images it builds. */
const isOurs =
  (attempt: Attempt) =>
  (reference: string): boolean =>
    isOwnImage(reference, (name) => isImageName(attempt.settings, name))

/** Images that a private registry gave to some environment of this server. */
const privatelyPulled = (attempt: Attempt): Set<string> =>
  new Set(
    attempt.ledger.objects
      .list({ kind: 'pulled' })
      .filter(({ facts }) => facts.isPrivate === true)
      .map(({ name }) => withTag(name)),
  )

/** Throws when the registry does not give the image to this environment; what is unclear is left to the build. */
async function requireBase(
  attempt: Attempt,
  dockerfile: string,
  reference: string,
  isHere: boolean,
): Promise<void> {
  const { engine } = dockerOf(attempt)
  const registries = registriesOf(attempt)
  try {
    await lookUpImage(engine, reference, registries, attempt.interruption.signal)
  } catch (error) {
    attempt.interruption.throwIfFired()
    if (!(error instanceof EngineError) || error.kind === 'unavailable') return
    const trouble = troubleOf(error.message)
    if (trouble === 'other' || (isHere && trouble !== 'denied')) return
    const isPinned = reference.includes('@')
    if (trouble === 'away' && isPinned) return // the engine may have it in its cache
    const advice = registryAdvice(
      error.message,
      caseOf(registries, reference, isUntrusted(attempt)),
    )
    const message = baseImageMissing(reference, error.message.replace(/\.$/, ''), advice)
    throw new StepFailure(FailureCode.BUILD_FAILED, `${dockerfile}: ${message}`)
  }
}

/**
 * Base images of a service that was never built here must exist, before time goes into the build of another one. An
 * image that another environment got with its credentials is used only if this one's registry access allows it.
 */
async function checkBasesOf(attempt: Attempt, service: DockerService): Promise<void> {
  const { build } = service
  if (!build) return
  const { environmentId, taskId } = attempt.assignment
  const wasBuilt = attempt.ledger.objects
    .list({ environmentId, kind: 'image' })
    .some((row) => row.service === service.name && row.taskId !== taskId)
  const { args } = readyBuildOf(attempt, service.name)
  const source = readDockerfile(findContext(attempt, build))
  const isGuarded = privatelyPulled(attempt)
  for (const reference of baseImages(source, { args, target: build.target })) {
    if (isOurs(attempt)(reference)) continue // the build says why not
    const isHere = (await inspectImage(dockerOf(attempt).engine, reference)) !== undefined
    if (isHere ? !isGuarded.has(withTag(reference)) : wasBuilt) continue
    await requireBase(attempt, build.dockerfile, reference, isHere)
  }
}

/** Once for all services of the deployment. */
function checkBases(attempt: Attempt): Promise<void> {
  const docker = dockerOf(attempt)
  const { services } = dockerSectionOf(attempt)
  docker.bases ??= Promise.all(services.map((service) => checkBasesOf(attempt, service))).then(
    () => undefined,
  )
  return docker.bases
}

async function build(attempt: Attempt, service: DockerService, tag: string): Promise<string> {
  const { engine, dataRoot } = dockerOf(attempt)
  const { environmentId } = attempt.assignment
  const values = readyBuildOf(attempt, service.name)
  const settings = service.build
  if (!settings) throw new Error(`service ${service.name} is not built`)
  const context = findContext(attempt, settings)
  const fault = findDockerfileFault(readDockerfile(context), isOurs(attempt))
  if (fault) throw new StepFailure(FailureCode.BUILD_FAILED, `${settings.dockerfile}: ${fault}`)
  await checkBases(attempt)
  const { kind } = attempt.spec
  const follow = follower(attempt)
  const timeoutMs =
    readServerSettings(attempt.settings).buildTimeoutMs ?? SERVER_SETTINGS.buildTimeoutMs
  return withSlot(attempt, 'build', service.name, timeoutMs, async (signal) => {
    try {
      const { imageId } = await buildImage(engine, {
        ...context,
        target: settings.target,
        args: values.args,
        grants: {
          secrets: values.secrets,
          sshKey: values.sshKey,
          registries: registriesOf(attempt),
        },
        cacheKey: values.cacheKey,
        isFork: isUntrusted(attempt),
        tag,
        // no label may differ between deployments: the same build must produce the same image
        labels: labelsOf(attempt.settings, { environmentId, service: service.name }),
        noCache: kind.case === 'deploy' && kind.value.noCache,
        context: shareContext(attempt, service.name, settings.context),
        bounds: boundsOf(attempt),
        caches: cachesOf(attempt),
        dataRoot,
        signal,
        onStep: follow.onStep,
        onText: follow.onText,
      })
      return imageId
    } catch (error) {
      if (signal.aborted) throw error
      throw explainBuild(attempt, error)
    }
  })
}

export async function buildService(attempt: Attempt, name: string): Promise<void> {
  const docker = dockerOf(attempt)
  const { environmentId, taskId } = attempt.assignment
  const service = dockerServiceOf(attempt, name)
  const shown = shownImage(attempt.settings, environmentId, name, taskId)
  const tag = hideImage(shown)
  const facts = { commit: need(attempt, 'commit').sha, build: readyBuildOf(attempt, name).mark }
  const kept = await findKept(attempt, service)
  attempt.ledger.objects.put(rowOf(attempt, 'image', tag, name, facts))
  if (kept) {
    await tagImage(docker.engine, kept.name, tag)
    attempt.output.say(`Image of deployment ${kept.taskId}: same commit, nothing to build.`)
  }
  const reference = kept ? tag : await build(attempt, service, tag)
  const image = await ready(attempt, reference, { reference: shown, digest: '' })
  attempt.ledger.objects.put(rowOf(attempt, 'image', tag, name, { ...facts, imageId: image.id }))
  docker.images.set(name, { ...image, digest: image.id })
  attempt.output.say(`Image ${shown} is ${image.id}.`)
}

async function pull(
  attempt: Attempt,
  name: string,
  reference: string,
): Promise<{ id: string; digest: string }> {
  const { engine } = dockerOf(attempt)
  const registries = registriesOf(attempt)
  const onText = (text: string): void => attempt.output.say(text)
  try {
    const found = await withSlot(attempt, 'pull', name, DOCKER_STEPS.pullMs, (signal) =>
      pullImage(engine, reference, { registries, signal, onText }),
    )
    return { id: found.imageId, digest: found.digest }
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    attempt.interruption.throwIfFired()
    if (error.kind === 'unavailable' || error.kind === 'disk_full') throw error
    const mayReuse =
      registries.has(registryOf(reference)) || !privatelyPulled(attempt).has(withTag(reference))
    const here = mayReuse && isAway(error.message) ? await findPulled(engine, reference) : undefined
    if (!here) {
      const message = `\`${reference}\`: ${error.message}.`.replace(/\.\.$/, '.')
      const advice = registryAdvice(
        error.message,
        caseOf(registries, reference, isUntrusted(attempt)),
      )
      throw new StepFailure(FailureCode.IMAGE_PULL_FAILED, `${message}${advice}`)
    }
    const message = `${reference} could not be pulled (${error.message}); the image that is on this server is used.`
    attempt.output.say(`Warning: ${message}`)
    attempt.report.warning('pull_skipped', message, `pull:${name}`)
    return { id: here.id, digest: '' }
  }
}

export async function pullService(attempt: Attempt, name: string): Promise<void> {
  const docker = dockerOf(attempt)
  const reference = dockerServiceOf(attempt, name).image
  if (!reference) throw new Error(`service ${name} is not pulled`)
  if (isOurs(attempt)(reference)) {
    throw new StepFailure(FailureCode.IMAGE_PULL_FAILED, `\`${reference}\` ${NOT_SHARED}`)
  }
  const { environmentId } = attempt.assignment
  const brought = attempt.ledger.objects
    .list({ kind: 'pulled' })
    .filter((row) => row.name === reference)
  const known = brought.find((row) => row.environmentId === environmentId)
  // the agent must not remove an image that it did not pull; one that several environments use goes with the last of
  // them
  const isForeign = brought.length === 0 && (await findPulled(docker.engine, reference))
  const isPrivate = registriesOf(attempt).has(registryOf(reference))
  if (!known && !isForeign)
    attempt.ledger.objects.put(rowOf(attempt, 'pulled', reference, name, { isPrivate }))
  else if (known && isPrivate)
    attempt.ledger.objects.put({ ...known, facts: { ...known.facts, isPrivate } })
  const pulled = await pull(attempt, name, reference)
  const image = await ready(attempt, pulled.id, { reference, digest: pulled.digest || pulled.id })
  docker.images.set(name, image)
  attempt.output.say(`${reference} is ${image.digest}.`)
}
