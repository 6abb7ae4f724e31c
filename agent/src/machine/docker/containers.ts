// Creates, inspects and ends the containers of environments, from plain data and with the same limits for all. A
// container shares nothing with the host but single read-only files and named volumes; no port is published.
import { readFileSync } from 'node:fs'
import type { Readable } from 'node:stream'
import type { ContainerInspectInfo, HostConfig, MountSettings } from 'dockerode'
import { CONTAINERS, ENGINE } from '../../limits/docker.ts'
import { type Engine, getContainer } from './engine.ts'
import { EngineError, orMissing } from './engine-error.ts'
import { LABELS, type OwnerSettings, ownedFilter } from './names.ts'

/** What recipes decide about a container; this file decides the rest. */
export interface ContainerSpec {
  name: string
  /** Reference or id. */
  image: string
  /** Null for the image's own. */
  entrypoint: string[] | null
  command: string[] | null
  /** Visible through inspect, so it holds no secret value where the image has a shell. */
  env: string[]
  labels: Record<string, string>
  /** Name of the environment's network. */
  network: string
  aliases: string[]
  mounts: {
    /** Single files of the host, read-only. */
    file: { source: string; target: string }[]
    volumes: { name: string; path: string; readOnly: boolean }[]
  }
  memoryBytes: number
  cpus: number
  pids: number
  init: true
  stopTimeoutMs: number
  restart: RestartPolicy
  /** For code of a fork: no capabilities, read-only root. */
  untrusted: boolean
  /** Absent for the image's own. */
  user?: string
  workingDir?: string
  /** Null or absent for the image's own. */
  stopSignal?: string | null
  tmpfs?: { path: string; bytes: number | null }[]
  /** Null or absent for the engine's default. */
  shmBytes?: number | null
}

export type RestartPolicy = 'no' | 'unless-stopped'

/** What images need that start as root and switch to another user. */
const CAPABILITIES = [
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'SETGID',
  'SETUID',
  'SETPCAP',
  'NET_BIND_SERVICE',
  'KILL',
]

const binds = ({ mounts }: ContainerSpec): MountSettings[] => [
  ...mounts.file.map(({ source, target }) => ({
    Type: 'bind' as const,
    Source: source,
    Target: target,
    ReadOnly: true,
  })),
  ...mounts.volumes.map(({ name, path, readOnly }) => ({
    Type: 'volume' as const,
    Source: name,
    Target: path,
    ReadOnly: readOnly,
  })),
]

/** An engine that may not raise limits (one inside a container) starts no container that asks for more than its own. */
export function openFiles(limits = readFileSync('/proc/self/limits', 'utf8')): number {
  const hard = /^Max open files +\S+ +(\d+)/m.exec(limits)?.[1]
  return Math.min(CONTAINERS.files, hard === undefined ? CONTAINERS.files : Number(hard))
}

const tmpfsOptions = (bytes: number): string => `rw,nosuid,nodev,mode=1777,size=${bytes}`

const toHostConfig = (spec: ContainerSpec): HostConfig => ({
  Memory: spec.memoryBytes,
  MemorySwap: spec.memoryBytes, // equal to Memory: no swap
  NanoCpus: Math.round(spec.cpus * 1e9),
  PidsLimit: spec.pids,
  Init: spec.init,
  SecurityOpt: ['no-new-privileges'],
  CapDrop: ['ALL'],
  CapAdd: spec.untrusted ? [] : CAPABILITIES,
  ...(spec.untrusted ? { ReadonlyRootfs: true } : {}),
  Tmpfs: Object.fromEntries([
    ...(spec.untrusted ? [['/tmp', tmpfsOptions(CONTAINERS.temporaryBytes)]] : []),
    ...(spec.tmpfs ?? []).map(({ path, bytes }) => [
      path,
      tmpfsOptions(bytes ?? CONTAINERS.temporaryBytes),
    ]),
  ]),
  ...(spec.shmBytes ? { ShmSize: spec.shmBytes } : {}),
  Ulimits: [{ Name: 'nofile', Soft: openFiles(), Hard: openFiles() }],
  OomScoreAdj: CONTAINERS.oomScore,
  LogConfig: {
    Type: 'local',
    Config: { 'max-size': CONTAINERS.logSize, 'max-file': CONTAINERS.logFiles },
  },
  RestartPolicy: { Name: spec.restart },
  PublishAllPorts: false,
  Privileged: false,
  NetworkMode: spec.network,
  Mounts: binds(spec),
})

/** Returns the id. Throws a 'conflict' when the name is taken. */
export async function createContainer(engine: Engine, spec: ContainerSpec): Promise<string> {
  const docker = await engine.docker()
  const { id } = await docker.createContainer({
    name: spec.name,
    Image: spec.image,
    ...(spec.entrypoint ? { Entrypoint: spec.entrypoint } : {}),
    ...(spec.command ? { Cmd: spec.command } : {}),
    ...(spec.user ? { User: spec.user } : {}),
    ...(spec.workingDir ? { WorkingDir: spec.workingDir } : {}),
    Env: spec.env,
    Labels: spec.labels,
    Tty: false,
    OpenStdin: false,
    ...(spec.stopSignal ? { StopSignal: spec.stopSignal } : {}),
    StopTimeout: Math.ceil(spec.stopTimeoutMs / 1_000),
    HostConfig: toHostConfig(spec),
    NetworkingConfig: { EndpointsConfig: { [spec.network]: { Aliases: spec.aliases } } },
  })
  return id
}

export async function startContainer(engine: Engine, id: string): Promise<void> {
  await (await getContainer(engine, id)).start()
}

/** SIGTERM, then SIGKILL after `timeoutMs`. Succeeds when the container is stopped already, or missing. */
export async function stopContainer(engine: Engine, id: string, timeoutMs: number): Promise<void> {
  const seconds = Math.ceil(timeoutMs / 1_000)
  const container = await getContainer(engine, id, { timeoutMs: seconds * 1_000 + ENGINE.stopMs })
  await orMissing(container.stop({ t: seconds }))
}

/** The engine itself stops and starts it, so it comes back even if this process ends meanwhile. */
export async function restartContainer(
  engine: Engine,
  id: string,
  timeoutMs: number,
): Promise<void> {
  const seconds = Math.ceil(timeoutMs / 1_000)
  const container = await getContainer(engine, id, { timeoutMs: seconds * 1_000 + ENGINE.stopMs })
  await container.restart({ t: seconds })
}

export async function killContainer(engine: Engine, id: string, signal = 'SIGKILL'): Promise<void> {
  try {
    await orMissing((await getContainer(engine, id)).kill({ signal }))
  } catch (error) {
    if (!(error instanceof EngineError && error.kind === 'conflict')) throw error // not running
  }
}

/** No process of it runs until it is resumed. False: it does not run. */
export async function pauseContainer(engine: Engine, id: string): Promise<boolean> {
  try {
    await (await getContainer(engine, id)).pause()
    return true
  } catch (error) {
    const isGone = error instanceof EngineError && ['conflict', 'not_found'].includes(error.kind)
    if (isGone) return false
    throw error
  }
}

/** Idempotent. */
export async function resumeContainer(engine: Engine, id: string): Promise<void> {
  try {
    await orMissing((await getContainer(engine, id)).unpause())
  } catch (error) {
    if (!/is not paused/.test((error as Error).message)) throw error
  }
}

/** Removes its anonymous volumes too. Kills a running container. */
export async function removeContainer(engine: Engine, id: string): Promise<void> {
  try {
    await orMissing((await getContainer(engine, id)).remove({ force: true, v: true }))
  } catch (error) {
    if (!/removal of container .* is already in progress/.test((error as Error).message))
      throw error
  }
}

export async function setRestartPolicy(
  engine: Engine,
  id: string,
  policy: RestartPolicy,
): Promise<void> {
  await (await getContainer(engine, id)).update({ RestartPolicy: { Name: policy } })
}

export type ContainerState = 'created' | 'running' | 'restarting' | 'exited' | 'dead'

export interface Observed {
  id: string
  name: string
  madeAt: Date
  state: ContainerState
  /** Of the last exit; 0 before the first. */
  exitCode: number
  outOfMemory: boolean
  restarts: number
  /** Undefined when it never started. */
  startedAt: string | undefined
  /** Of the last exit; undefined while it runs, or when it never did. */
  endedAt: string | undefined
  imageId: string
  /** On its environment's network; undefined while it does not run. */
  address: string | undefined
  labels: Record<string, string>
  pid: number | undefined
  isPaused: boolean
  /** The engine's own checks by the image's HEALTHCHECK; undefined: the image has none. */
  health: string | undefined
}

const STATES: Record<string, ContainerState> = {
  created: 'created',
  running: 'running',
  paused: 'running',
  restarting: 'restarting',
  removing: 'dead',
  exited: 'exited',
  dead: 'dead',
}

function toObserved(raw: ContainerInspectInfo): Observed {
  const addresses = Object.values(raw.NetworkSettings.Networks ?? {}).map((n) => n.IPAddress)
  return {
    id: raw.Id,
    name: raw.Name.replace(/^\//, ''),
    madeAt: new Date(raw.Created),
    state: STATES[raw.State.Status] ?? 'dead',
    exitCode: raw.State.ExitCode,
    outOfMemory: raw.State.OOMKilled,
    restarts: raw.RestartCount,
    startedAt: raw.State.StartedAt.startsWith('0001-') ? undefined : raw.State.StartedAt,
    endedAt:
      raw.State.Status === 'exited' && !raw.State.FinishedAt.startsWith('0001-')
        ? raw.State.FinishedAt
        : undefined,
    imageId: raw.Image,
    address: addresses.find((address) => address !== ''),
    labels: raw.Config.Labels ?? {},
    pid: raw.State.Pid || undefined,
    isPaused: raw.State.Paused,
    health: raw.State.Health?.Status,
  }
}

/** By id or name; undefined when there is none. */
export async function inspectContainer(engine: Engine, id: string): Promise<Observed | undefined> {
  const raw = await orMissing((await getContainer(engine, id)).inspect())
  return raw && toObserved(raw)
}

/** The first replica that runs. */
export async function findRunning<T extends { containerId: string }>(
  engine: Engine,
  replicas: T[],
): Promise<T | undefined> {
  for (const replica of replicas) {
    if ((await inspectContainer(engine, replica.containerId))?.state === 'running') return replica
  }
  return undefined
}

/** By a name that we would have given it. Ignores a container of that name that another program made. */
export async function inspectOwned(
  engine: Engine,
  settings: OwnerSettings,
  name: string,
): Promise<Observed | undefined> {
  const seen = await inspectContainer(engine, name)
  return seen?.labels[LABELS.agent] === settings.owner ? seen : undefined
}

/** Resolves at its exit, also when it exited before the call. */
export async function waitContainer(
  engine: Engine,
  id: string,
  signal?: AbortSignal,
): Promise<{ exitCode: number; outOfMemory: boolean }> {
  const container = await getContainer(engine, id, { isLong: true, signal })
  const { StatusCode } = await container.wait({ condition: 'not-running' })
  const seen = await inspectContainer(engine, id)
  return { exitCode: StatusCode, outOfMemory: seen?.outOfMemory ?? false }
}

/** Whether its image has /bin/sh; works on a created container, running or not. */
export async function hasShell(engine: Engine, id: string): Promise<boolean> {
  const container = await getContainer(engine, id)
  const answer: Readable | undefined = await orMissing(container.infoArchive({ path: '/bin/sh' }))
  return answer?.resume() !== undefined
}

export interface OwnedContainer {
  id: string
  name: string
  madeAt: Date
  state: ContainerState
  imageId: string
  labels: Record<string, string>
}

/** Running or not. */
export async function listOwnedContainers(
  engine: Engine,
  settings: OwnerSettings,
  environmentId?: number,
): Promise<OwnedContainer[]> {
  const docker = await engine.docker()
  const filters = ownedFilter(settings, environmentId)
  const found = await docker.listContainers({ all: true, filters })
  return found.map((raw) => ({
    id: raw.Id,
    name: raw.Names[0]?.replace(/^\//, '') ?? '',
    madeAt: new Date(raw.Created * 1_000),
    state: STATES[raw.State] ?? 'dead',
    imageId: raw.ImageID,
    labels: raw.Labels,
  }))
}
