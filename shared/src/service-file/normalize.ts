// Turns the written file into the one that programs use: defaults filled in, units resolved, short forms expanded.
// Total on every value that passed the checks; decides and refuses nothing.
import { STEPS } from '../limits/agent.ts'
import { SERVICE_FILE } from '../limits/limits.ts'
import { type Range, withoutControls } from './problem.ts'
import { defaultService, isRouted } from './routes.ts'
import type { WrittenFile } from './schema.ts'
import type {
  Action,
  DockerService,
  Health,
  ManualService,
  ManualTarget,
  Process,
  Schedule,
  ServiceFile,
  SharedPath,
  Step,
  Variables,
} from './service-file.ts'
import { durationMs, sizeBytes } from './vocabulary.ts'

type WrittenDocker = NonNullable<WrittenFile['docker']>['services'][string]
type WrittenManualFile = NonNullable<WrittenFile['manual']>
type WrittenManual = NonNullable<WrittenManualFile['services']>[string]
type WrittenStep = WrittenManualFile['deploy'][number]
type WrittenAction = NonNullable<WrittenFile['actions']>[string]
type WrittenEnv = WrittenFile extends { manual?: infer M }
  ? NonNullable<M> extends { env?: infer E }
    ? E
    : never
  : never

/** `place(section, service)`: where a problem with the address of a service is shown. */
type PlaceOf = (section: 'docker' | 'manual', service: string) => Range

/** `release` is a line of the Procfile. */
export function normalize(
  file: WrittenFile,
  place: PlaceOf,
  release: string | null = null,
): ServiceFile {
  const services = Object.entries(file.docker?.services ?? {}).map(([name, service]) =>
    dockerService(name, service, place('docker', name)),
  )
  const actionService = onlyOrDefault(services)
  return {
    docker: file.docker ? { services, volumes: file.docker.volumes ?? [] } : null,
    manual: file.manual ? manualSection(file.manual, place, release) : null,
    actions: Object.entries(file.actions ?? {}).map(([name, action]) =>
      actionOf(name, action, actionService),
    ),
  }
}

function manualSection(
  { deploy, destroy, services, procfile, tools, shared, env }: WrittenManualFile,
  place: PlaceOf,
  release: string | null,
): NonNullable<ServiceFile['manual']> {
  return {
    deploy: deploy.map(stepOf),
    destroy: (destroy ?? []).map(stepOf),
    services: Object.entries(services ?? {}).map(([name, service]) =>
      manualService(name, service, place('manual', name)),
    ),
    procfile: procfile ?? null,
    tools: variables(tools),
    release,
    shared: (shared ?? []).map(sharedPathOf),
    env: variables(env),
  }
}

/** A path without an extension is a folder; `.env` has none, but names a file. */
function sharedPathOf(written: string): SharedPath {
  const path = written.replace(/\/$/, '')
  const isFolder = written.endsWith('/') || !path.slice(path.lastIndexOf('/') + 1).includes('.')
  return { path, isFolder }
}

function onlyOrDefault(services: readonly DockerService[]): string | null {
  const routed = services.map((service) => ({ ...service, isRouted: isRouted(service) }))
  const [only] = services.length === 1 ? services : []
  return defaultService(routed) ?? only?.name ?? null
}

function dockerService(name: string, written: WrittenDocker, at: Range): DockerService {
  return {
    ...routing(name, written, at),
    health: healthOf(written.health, written.port !== undefined, 'stays-up'),
    asksImage: namesNoCheck(written.health),
    build: buildOf(written.build),
    image: written.image ?? null,
    command: written.command ?? null,
    entrypoint: written.entrypoint ?? null,
    user: written.user ?? null,
    port: written.port ?? null,
    env: variables(written.env),
    variables: written.variables ?? null,
    release: written.release ?? null,
    backup: written.backup
      ? {
          command: written.backup.command,
          restore: written.backup.restore,
          timeoutMs: msOf(written.backup.timeout) ?? null,
        }
      : null,
    dependsOn: written.depends_on ?? [],
    volumes: (written.volumes ?? []).map((volume) => {
      const [from = '', path = '', mode] = volume.split(':')
      return { name: from, path, readOnly: mode === 'ro' }
    }),
    memoryBytes: written.memory === undefined ? null : sizeBytes(written.memory),
    cpus: written.cpus ?? null,
    stopTimeoutMs: msOf(written.stop_timeout) ?? STEPS.stopTimeoutMs,
    stopSignal: written.stop_signal ?? null,
    tmpfs: (written.tmpfs ?? []).map((mount) => {
      const [path = '', bytes] = mount.split(':')
      return { path, bytes: bytes === undefined ? null : sizeBytes(bytes) }
    }),
    shmBytes: written.shm_size === undefined ? null : sizeBytes(written.shm_size),
    replicas: written.replicas ?? 1,
    ...upkeep(written),
  }
}

function manualService(name: string, written: WrittenManual, at: Range): ManualService {
  const target = targetOf(written)
  const asked = target !== null && target.kind !== 'root'
  return {
    ...routing(name, written, at),
    health: healthOf(written.health, asked, target === null ? 'stays-up' : 'none'),
    target,
    run: written.run === undefined ? null : processOf(written.run, written),
  }
}

const upkeep = ({ restart, drain }: WrittenDocker | WrittenManual) => ({
  restartsUnhealthy: restart === 'unhealthy',
  drainMs: msOf(drain) ?? STEPS.drainMs,
})

const routing = (name: string, written: WrittenDocker | WrittenManual, at: Range) => ({
  name,
  domain: written.domain ?? null,
  path: written.path ?? null,
  isDefault: written.default ?? false,
  auth: written.auth ?? true,
  isPublic: written.public ?? true,
  at,
})

function targetOf({ port, socket, root }: WrittenManual): ManualTarget | null {
  if (port === 'auto') return { kind: 'auto' }
  if (port !== undefined) return { kind: 'port', port }
  if (socket !== undefined) return { kind: 'socket', path: socket }
  return root === undefined ? null : { kind: 'root', path: root }
}

const processOf = (command: string, written: WrittenManual): Process => ({
  command,
  dir: written.dir ?? null,
  env: variables(written.env),
  variables: written.variables ?? null,
  memoryBytes: written.memory === undefined ? null : sizeBytes(written.memory),
  cpus: written.cpus ?? null,
  stopTimeoutMs: msOf(written.stop_timeout) ?? STEPS.stopTimeoutMs,
  ...upkeep(written),
})

function buildOf(written: WrittenDocker['build']): DockerService['build'] {
  if (written === undefined) return null
  const {
    context = '.',
    dockerfile = 'Dockerfile',
    target,
    args,
    secrets = [],
    ssh,
  } = typeof written === 'string' ? { context: written } : written
  return {
    context,
    dockerfile,
    target: target ?? null,
    args: variables(args),
    secrets,
    ssh: ssh !== undefined,
  }
}

const namesNoCheck = (written: WrittenDocker['health']): boolean =>
  written === undefined ||
  (typeof written === 'object' &&
    written.path === undefined &&
    written.command === undefined &&
    written.port === undefined)

/** `canAsk`: it has a port or a socket. */
function healthOf(
  written: WrittenDocker['health'],
  canAsk: boolean,
  otherwise: 'stays-up' | 'none',
): Health {
  if (written === false) return { kind: 'none' }
  const asked: Exclude<typeof written, string> =
    typeof written === 'string' ? { path: written } : (written ?? {})
  const { path, command, port, status, interval, timeout, start_period, retries } = asked
  const timing = {
    intervalMs: msOf(interval) ?? STEPS.healthIntervalMs,
    timeoutMs: msOf(timeout) ?? STEPS.healthTimeoutMs,
    startPeriodMs: msOf(start_period) ?? STEPS.healthStartMs,
    retries: retries ?? STEPS.healthRetries,
  }
  if (command !== undefined) return { kind: 'command', command, ...timing }
  if (!canAsk && port === undefined) return { kind: otherwise }
  const own = { port: port ?? null, ...timing }
  if (path === undefined) return { kind: 'connect', ...own }
  return { kind: 'http', path, status: status ?? null, ...own }
}

function stepOf(written: WrittenStep): Step {
  const { run, name, dir, env, timeout, allow_failure } =
    typeof written === 'string' ? { run: written } : written
  return {
    title: name ?? titleOf(run),
    run,
    dir: dir ?? null,
    env: variables(env),
    timeoutMs: msOf(timeout) ?? null,
    allowFailure: allow_failure ?? false,
  }
}

/** The first non-empty line, truncated. */
function titleOf(command: string): string {
  const line = command.trimStart().split('\n', 1)[0]?.trimEnd() ?? ''
  const max = SERVICE_FILE.titleCharacters
  const cut = line.length > max ? `${line.slice(0, max - 1)}…` : line
  return withoutControls(cut.toWellFormed())
}

function actionOf(name: string, written: WrittenAction, defaultName: string | null): Action {
  const { title = name, confirm, artifacts } = written
  return {
    name,
    title,
    description: written.description ?? '',
    run: written.run,
    service: defaultName === null ? null : (written.service ?? defaultName),
    dir: written.dir ?? null,
    timeoutMs: msOf(written.timeout) ?? SERVICE_FILE.actionTimeoutMs,
    schedule: scheduleOf(written.schedule),
    confirm: confirm === true ? `Start "${title}"?` : confirm || null,
    artifacts: artifacts
      ? {
          paths: artifacts.paths,
          retentionMs: msOf(artifacts.retention) ?? SERVICE_FILE.retentionMs,
        }
      : null,
    disabledReason:
      written.result === undefined ? null : disabledReason(name, artifacts !== undefined),
  }
}

function scheduleOf(written: WrittenAction['schedule']): Schedule | null {
  if (written === undefined) return null
  if (typeof written === 'string') return { cron: written, timezone: 'UTC' }
  return { cron: written.cron, timezone: written.timezone ?? 'UTC' }
}

const disabledReason = (name: string, hasArtifacts: boolean): string =>
  hasArtifacts
    ? `${name} still has 'result: file'; remove 'result' to enable it and deploy.`
    : `${name} uses 'result: file', which was replaced by artifacts.paths in v1.13.0. ` +
      'Declare the files there and deploy.'

const msOf = (written: string | undefined): number | undefined =>
  written === undefined ? undefined : durationMs(written)

/** The checks have made every value a text. */
function variables(written: WrittenEnv | undefined): Variables {
  const result = Object.create(null) as Record<string, string>
  for (const [key, value] of Object.entries(written ?? {})) result[key] = String(value)
  return result
}
