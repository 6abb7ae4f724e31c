// The specification of a container as data for the engine, and the text whose fingerprint shows whether a service
// changed. PURE. Values of variables travel in mounted files. The container's configuration, which everyone with access
// to the engine can read, holds only PORT (and more only for an image without a shell).
import type { DockerService } from '@berth/shared/service-file'
import type { Limits } from '../plan/ceilings.ts'
import { LAUNCH, type Values } from '../plan/variable-files.ts'

/** Paths inside the container where files are mounted. */
const INSIDE = {
  launch: LAUNCH,
  shell: '/run/berth/variables.sh',
  env: '/run/berth/variables.env',
} as const

/** Mounted into every container; gives a process its variables without writing them to the configuration. */
export const LAUNCH_PROGRAM = `# Written by Berth, do not edit. Becomes the program that follows, with the variables of the environment.
set -a
. ${INSIDE.shell}
set +a
exec "$@"
`

export interface ImageFacts {
  id: string
  entrypoint: readonly string[]
  cmd: readonly string[]
  /** The user of the image's own configuration; empty: root. */
  user: string
}

/** Files of this machine that are mounted into the container. */
export interface VariableFiles {
  launch: string
  shell: string
  env: string
}

export interface ContainerFacts {
  name: string
  image: ImageFacts
  labels: Record<string, string>
  network: string
  /** Names of the engine's volumes, by their name in the file. */
  volumeNames: ReadonlyMap<string, string>
  files: VariableFiles
  limits: Limits
  isUntrusted: boolean
  /** Undefined: the image has a shell. Otherwise the values that the configuration must hold. */
  plainValues?: Values
}

export interface ContainerSpec {
  name: string
  image: string
  entrypoint: string[] | null
  command: string[] | null
  env: string[]
  labels: Record<string, string>
  network: string
  aliases: string[]
  mounts: {
    file: { source: string; target: string }[]
    volumes: { name: string; path: string; readOnly: boolean }[]
  }
  memoryBytes: number
  cpus: number
  pids: number
  init: true
  stopTimeoutMs: number
  restart: 'no' | 'unless-stopped'
  untrusted: boolean
  /** Absent: the image's own. */
  user?: string
  /** Null: the image's own. */
  stopSignal: string | null
  tmpfs: { path: string; bytes: number | null }[]
  /** Null: the engine's default. */
  shmBytes: number | null
}

/** For a fork's image, only a numeric user is certain not to be root. */
const untrustedUser = (user: string): string =>
  /^[1-9][0-9]*(?::[0-9]+)?$/.test(user) ? user : '65534:65534'

/**
 * A string runs in a shell, a list is executed directly; the image's entrypoint stays in front of both. The image's
 * command belongs to the image's entrypoint, so another entrypoint does not get it.
 */
export function programOf(service: DockerService, image: ImageFacts): string[] {
  const { command, entrypoint } = service
  const own = typeof command === 'string' ? ['/bin/sh', '-c', command] : command
  if (entrypoint && entrypoint.length > 0) return [...entrypoint, ...(own ?? [])]
  return [...(entrypoint ?? image.entrypoint), ...(own ?? image.cmd)]
}

/** Like an action: only the command, without the image's entrypoint. */
const releaseProgram = (command: string): string[] => ['/bin/sh', '-eu', '-c', command]

const plainEnv = (service: DockerService, values: Values | undefined): string[] => {
  const port: [string, string][] = service.port === null ? [] : [['PORT', String(service.port)]]
  return [...new Map([...port, ...(values ?? [])])].map(([key, value]) => `${key}=${value}`)
}

function userOf(
  { user }: DockerService,
  { isUntrusted, image }: ContainerFacts,
): Pick<ContainerSpec, 'user'> {
  if (isUntrusted) return { user: untrustedUser(user ?? image.user) }
  return user === null ? {} : { user }
}

function specOf(
  service: DockerService,
  facts: ContainerFacts,
  program: string[],
  aliases: string[],
): ContainerSpec {
  const isPlain = facts.plainValues !== undefined
  const { files } = facts
  return {
    name: facts.name,
    image: facts.image.id,
    entrypoint: isPlain ? program : ['/bin/sh', INSIDE.launch],
    command: isPlain ? [] : program,
    env: plainEnv(service, facts.plainValues),
    labels: facts.labels,
    network: facts.network,
    aliases,
    mounts: {
      file: [
        { source: files.launch, target: INSIDE.launch },
        { source: files.shell, target: INSIDE.shell },
        { source: files.env, target: INSIDE.env },
      ],
      volumes: service.volumes.map(({ name, path, readOnly }) => ({
        name: facts.volumeNames.get(name) ?? name,
        path,
        readOnly,
      })),
    },
    ...facts.limits,
    init: true,
    stopTimeoutMs: service.stopTimeoutMs,
    // a broken version must not crash-loop, so restarts begin after verification
    restart: 'no',
    untrusted: facts.isUntrusted,
    ...userOf(service, facts),
    stopSignal: service.stopSignal,
    tmpfs: service.tmpfs,
    shmBytes: service.shmBytes,
  }
}

export const serviceContainer = (service: DockerService, facts: ContainerFacts): ContainerSpec =>
  specOf(service, facts, programOf(service, facts.image), [service.name])

/** Runs beside the running version; other containers cannot reach it by name. */
export const releaseContainer = (service: DockerService, facts: ContainerFacts): ContainerSpec =>
  specOf(service, facts, releaseProgram(service.release ?? ''), [])

/** Holds values, so only its keyed fingerprint is kept. */
export function specText(
  service: DockerService,
  facts: { imageId: string; values: Values; limits: Limits; isUntrusted: boolean },
): string {
  const { command, entrypoint, user, port, volumes, stopTimeoutMs, stopSignal } = service
  const { tmpfs, shmBytes } = service
  return JSON.stringify({
    image: facts.imageId,
    command,
    port,
    volumes,
    stopTimeoutMs,
    limits: facts.limits,
    untrusted: facts.isUntrusted,
    values: [...facts.values],
    // absent keys leave the fingerprint of earlier agents as it was, so that an upgrade restarts no database
    entrypoint: entrypoint ?? undefined,
    user: user ?? undefined,
    stopSignal: stopSignal ?? undefined,
    tmpfs: tmpfs.length > 0 ? tmpfs : undefined,
    shmBytes: shmBytes ?? undefined,
  })
}

interface BuildInput {
  args: Readonly<Record<string, string>>
  secrets: ReadonlyMap<string, string>
  /** The public part of the key that the build may sign with; empty: none. */
  key: string
}

/** What an image is built from; together with the commit it decides whether a kept image can be reused. */
export function buildText({ name, build }: DockerService, values: BuildInput): string {
  const { secrets: _names, ssh: _ssh, ...settings } = build ?? {}
  const hidden = values.secrets.size > 0 || values.key !== ''
  return JSON.stringify({
    name,
    ...settings,
    args: values.args,
    ...(hidden && { secrets: [...values.secrets], key: values.key }),
  })
}

export const shortId = (imageId: string): string => imageId.replace(/^sha256:/, '').slice(0, 7)
