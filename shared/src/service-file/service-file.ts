// The valid file, as the recipes, the client and the dashboard use it: durations in milliseconds, sizes in bytes,
// defaults filled in, everything in file order. Plain data, so that it can cross a thread and be stored as JSON. "No
// value" is null.
import type { Range } from './problem.ts'

export interface ServiceFile {
  docker: DockerSection | null
  manual: ManualSection | null
  actions: Action[]
}

export interface DockerSection {
  services: DockerService[]
  volumes: string[]
}

export interface ManualSection {
  deploy: Step[]
  destroy: Step[]
  services: ManualService[]
  /** Versions by tool; absent: written before it existed. */
  tools?: Readonly<Record<string, string>>
  /** Its lines are among the services; absent: written before it existed. */
  procfile?: string | null
  /** Its line `release`, which runs after the deploy steps. */
  release?: string | null
  /** Absent: written before it existed. */
  shared?: SharedPath[]
  env: Variables
}

/** Relative to the checkout and to the persistent folder, without '.', '..' and a '/' at its end. */
export interface SharedPath {
  path: string
  /** What it is if neither the repository nor the server has it. */
  isFolder: boolean
}

/** No prototype; names match `VARIABLE_KEY`, values are as written. */
export type Variables = Readonly<Record<string, string>>

/** What both kinds of services have. */
interface Routing {
  name: string
  /** As written, variables not yet substituted. */
  domain: string | null
  path: string | null
  /** `default: true` as written; `routes()` chooses the default service. */
  isDefault: boolean
  auth: boolean
  /** False: it has a port, but no address. */
  isPublic: boolean
  health: Health
  /** Where a problem with its address is shown. */
  at: Range
}

export interface DockerService extends Routing {
  build: Build | null
  image: string | null
  /** A text runs through `/bin/sh -c`, a list is executed directly. */
  command: string | string[] | null
  /** Null: the image's; empty: none. */
  entrypoint: string[] | null
  user: string | null
  port: number | null
  env: Variables
  /** Custom variables that it gets; null: all. */
  variables: string[] | null
  release: string | null
  /** Makes and reads the backup of its data; null: its volumes are archived. Absent in plans of earlier versions. */
  backup?: { command: string; restore: string; timeoutMs: number | null } | null
  dependsOn: string[]
  volumes: { name: string; path: string; readOnly: boolean }[]
  memoryBytes: number | null
  cpus: number | null
  stopTimeoutMs: number
  stopSignal: string | null
  tmpfs: { path: string; bytes: number | null }[]
  shmBytes: number | null
  /** The file names no check, so a HEALTHCHECK of the image decides. */
  asksImage: boolean
  replicas: number
  /** Also started again when its check fails. */
  restartsUnhealthy: boolean
  /** For the open requests of this version once another one serves. */
  drainMs: number
}

interface Build {
  context: string
  dockerfile: string
  target: string | null
  /** As written: `references.ts` finds what stands for another value. */
  args: Variables
  /** Custom variables for `RUN --mount=type=secret`. */
  secrets: string[]
  /** `RUN --mount=type=ssh` may sign with the project's deploy key. */
  ssh: boolean
}

export interface ManualService extends Routing {
  /** Null if it is not routed; it then has `run`. */
  target: ManualTarget | null
  run: Process | null
}

export type ManualTarget =
  | { kind: 'port'; port: number }
  | { kind: 'auto' }
  | { kind: 'socket'; path: string }
  | { kind: 'root'; path: string }

/** A process that Berth keeps running. */
export interface Process {
  command: string
  dir: string | null
  env: Variables
  /** Custom variables that it gets; null: all. Absent: written before it existed. */
  variables?: string[] | null
  memoryBytes: number | null
  cpus: number | null
  stopTimeoutMs: number
  restartsUnhealthy: boolean
  drainMs: number
}

export interface Step {
  title: string
  run: string
  dir: string | null
  env: Variables
  /** Null: the rest of the task's time. */
  timeoutMs: number | null
  allowFailure: boolean
}

export interface CheckTiming {
  intervalMs: number
  timeoutMs: number
  startPeriodMs: number
  retries: number
}

interface Port {
  /** Null: the service's own port or socket. */
  port: number | null
}

export type Health =
  /** `status` null: 200 to 399. */
  | ({ kind: 'http'; path: string; status: number | null } & Port & CheckTiming)
  | ({ kind: 'connect' } & Port & CheckTiming)
  /** A text runs through `/bin/sh -c`, a list is executed directly. */
  | ({ kind: 'command'; command: string | string[] } & CheckTiming)
  /** No port to check, so it must stay up for a while. */
  | { kind: 'stays-up' }
  | { kind: 'none' }

export interface Action {
  name: string
  title: string
  description: string
  run: string
  /** docker: the service whose container runs it; null in a file without a docker section. */
  service: string | null
  dir: string | null
  timeoutMs: number
  /** The question to ask first. */
  confirm: string | null
  /** Null: only users start it. */
  schedule: Schedule | null
  artifacts: { paths: string[]; retentionMs: number } | null
  /** If set, the action is shown but cannot be started. */
  disabledReason: string | null
}

/** Five cron fields, and the IANA name of the zone whose clock they mean. */
export interface Schedule {
  cron: string
  timezone: string
}
