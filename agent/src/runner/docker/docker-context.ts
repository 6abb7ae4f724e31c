// What the steps of a docker deployment share beyond the attempt and its routes: the engine, and what earlier steps
// created. The first step that needs it opens it; opening has no effect.
import { registryHost } from '@berth/shared'
import type { DockerSection, DockerService } from '@berth/shared/service-file'
import type { SigningKey } from '../../machine/docker/build/ssh-agent.ts'
import { type Engine, openEngine } from '../../machine/docker/engine.ts'
import type { ImageHealthcheck } from '../../machine/docker/images.ts'
import { labelsOf } from '../../machine/docker/names.ts'
import type { RegistryCredentials } from '../../machine/docker/registries.ts'
import { type Attempt, need } from '../attempt.ts'
import { PartKey } from '../parts.ts'
import type { Limits } from '../plan/ceilings.ts'
import { type DockerPlan, isDockerPlan } from '../plan/plan.ts'
import type { Values } from '../plan/variable-files.ts'
import type { ImageFacts } from './container-spec.ts'

export interface ReadyImage extends ImageFacts {
  /** As the file names it; for a build, its tag. */
  reference: string
  /** `postgres@sha256:…`; for a build, the image's own id. */
  digest: string
  healthcheck: ImageHealthcheck | undefined
}

/** What a build gets besides the files of the commit. */
export interface ReadyBuild {
  args: Record<string, string>
  secrets: Map<string, string>
  sshKey: SigningKey | undefined
  /** Identifies the values without revealing them; undefined: no secret and no key. */
  cacheKey: string | undefined
  /** Identifies everything that the image is built from, except its commit. */
  mark: string
}

export interface Placed {
  id: string
  name: string
  /** The task that created it; an unchanged service keeps its container. */
  taskId: number
  imageId: string
  spec: string
  isKept: boolean
  address: string
  /** From 1. */
  replica: number
}

interface DockerContext {
  readonly engine: Engine
  /** Where the engine stores its data; undefined until the engine was asked. */
  dataRoot: string | undefined
  /** Wall clock, because it is compared with the engine's times. */
  readonly beganAt: number
  /** All variables of a service, by service. */
  readonly values: Map<string, Values>
  /** By service that is built. */
  readonly builds: Map<string, ReadyBuild>
  /** The check of all base images, which the first build begins. */
  bases: Promise<void> | undefined
  limits: Map<string, Limits>
  readonly images: Map<string, ReadyImage>
  /** The containers of each service, in the order of their replicas. */
  readonly containers: Map<string, Placed[]>
  /** Starts that began before their step; each step awaits its own. */
  readonly ahead: Map<string, Promise<Placed[]>>
  /** Services whose own check failed. */
  readonly unhealthy: Set<string>
  /** Services without an address whose first start outlives this failed attempt. */
  readonly left: Set<string>
  /** The attempt failed or was stopped, so nothing else is started. */
  isOver: boolean
}

const DOCKER = new PartKey<DockerContext>('docker')

export function dockerOf(attempt: Attempt): DockerContext {
  return attempt.parts.open(DOCKER, () => ({
    engine: openEngine(attempt.settings),
    dataRoot: undefined,
    beganAt: Date.now(),
    values: new Map(),
    builds: new Map(),
    bases: undefined,
    limits: new Map(),
    images: new Map(),
    containers: new Map(),
    ahead: new Map(),
    unhealthy: new Set(),
    left: new Set(),
    isOver: false,
  }))
}

export function dockerSectionOf(attempt: Attempt): DockerSection {
  const { docker } = need(attempt, 'file')
  if (!docker) throw new Error('the file has no docker section')
  return docker
}

export function dockerServiceOf(attempt: Attempt, name: string): DockerService {
  const found = dockerSectionOf(attempt).services.find((service) => service.name === name)
  if (!found) throw new Error(`no service ${name} in the file`)
  return found
}

export const lastDocker = (attempt: Attempt): DockerPlan | undefined =>
  isDockerPlan(attempt.results.last) ? attempt.results.last : undefined

export const isUntrusted = (attempt: Attempt): boolean =>
  attempt.spec.environment?.untrusted ?? false

/** Credentials of registries, by host. An environment of a fork has none. */
export function registriesOf(attempt: Attempt): RegistryCredentials {
  if (isUntrusted(attempt)) return new Map()
  return new Map(
    attempt.secrets.registries.map(({ host, username, password }) => [
      registryHost(host),
      { username, password: Buffer.from(password).toString('utf8') },
    ]),
  )
}

/** Labels of everything that this attempt creates in the engine. */
export function labels(
  attempt: Attempt,
  facts: { service?: string; spec?: string; replica?: number | undefined } = {},
): Record<string, string> {
  const { environmentId, taskId, fence, attemptId } = attempt.assignment
  const commit = attempt.results.commit?.sha
  return labelsOf(attempt.settings, { environmentId, taskId, fence, attemptId, commit, ...facts })
}
