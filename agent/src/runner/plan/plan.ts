// What a deployment, a removal, an action, a restart or a backup will do, as data: ordered phases of steps, each with
// what it may have created. PURE. The runner performs and reports a plan. Step ids are stable names by which users,
// diagnostics and the control plane find a step.
import type { Action, DockerSection, ManualSection, Step } from '@berth/shared/service-file'

/** What a step may leave behind; undone in reverse order when the deployment fails, is canceled or times out. */
export type Made =
  | { kind: 'release' }
  | { kind: 'variables' }
  /** Fixed ports that the running version does not hold. */
  | { kind: 'ports' }
  | { kind: 'current' }
  | { kind: 'process'; service: string }
  /** Targets of the environment's hostnames; what they show while no version answers. */
  | { kind: 'routes' | 'pages' }
  /** Hostnames whose routes were removed from a version that still runs. */
  | { kind: 'unrouted' }
  | { kind: 'static'; service: string }
  /** docker: what this attempt created or paused, found by its ledger rows. */
  | { kind: 'images' | 'containers' }
  /** What a backup or a restore paused, unpacked or replaced, found by its ledger row. */
  | { kind: 'data' }

/** What a step of the docker recipe does; `service` names its service. */
export type DockerVerb =
  | 'admit'
  | 'claim-hosts'
  | 'variables'
  | 'build'
  | 'pull'
  | 'reset'
  | 'dependency'
  | 'release'
  | 'network'
  | 'start'
  | 'health'
  | 'switch'
  | 'verify'
  | 'drain'
  | 'stop-old'
  | 'collect'

export type BackupVerb = 'prepare' | 'archive' | 'command' | 'store' | 'finish' | 'prune'
export type RestoreVerb = 'prepare' | 'stage' | 'replace'

export type LifecycleVerb = 'restart' | 'stop' | 'start'

export type PlatformWork =
  | 'admit'
  | 'account'
  | 'fetch'
  | 'unpack'
  | 'read-config'
  | 'claim-hosts'
  | 'ports'
  | 'variables'
  | 'written-files'
  | 'share'
  | 'tools'
  | 'activate'
  | 'switch'
  | 'drain'
  | 'stop-old'
  | 'collect'
  | 'reset'
  | 'unroute'
  | 'stop'
  | 'remove'
  | 'action'
  | 'artifacts'

export type Work =
  | { kind: PlatformWork }
  | { kind: 'command'; step: Step }
  /** A step of `manual.destroy`, run in the release and with the values of the last successful deployment. */
  | { kind: 'destroy-command'; step: Step }
  | { kind: 'start' | 'health' | 'static' | 'verify'; service: string }
  | { kind: 'docker'; does: DockerVerb; service: string }
  /** Of a service of the running version; nothing is deployed. */
  | { kind: 'lifecycle'; does: LifecycleVerb; service: string }
  /** Of the data of the running version; `service` is the one whose command runs. */
  | { kind: 'backup'; does: BackupVerb; service: string }
  | { kind: 'restore'; does: RestoreVerb }

export interface PlannedStep {
  id: string
  title: string
  work: Work
  undo: Made[]
}

type PhaseName =
  | 'checkout'
  | 'configure'
  | 'build'
  | 'release'
  | 'run'
  | 'start'
  | 'route'
  | 'verify'
  | 'cleanup'

export interface Phase {
  name: PhaseName
  title: string
  steps: PlannedStep[]
}

export interface Plan {
  kind: 'deploy' | 'destroy' | 'action' | 'lifecycle' | 'backup' | 'restore'
  phases: Phase[]
}

/** What the ledger keeps of the running version of an environment (as JSON); `format` identifies the recipe. */
export type LastPlan = ManualPlan | DockerPlan

interface CommonPlan {
  taskId: number
  commit: string
  actions: Action[]
}

export interface KeptRelease {
  taskId: number
  commit: string
  /** When its deploy steps ended, as epoch milliseconds; absent: written before it was kept. */
  builtAt?: number
}

export interface ManualPlan extends CommonPlan {
  format: 1
  section: ManualSection
  /** The deployment in whose release it runs, after a rollback; absent: its own. */
  release?: number
  /** Folders of its tools, before the others in PATH; the account can write there, so root never uses them. */
  toolPaths?: string[]
  /** Releases of successful deployments, oldest first; some may be removed by now. */
  releases?: KeptRelease[]
  /** The port of each service. */
  ports: Record<string, number>
  /** As sent to the edge; absent: written before manual services had routes. */
  routes?: ManualRoute[]
  /** Names of the variables whose values are masked; absent: written before they were kept. */
  secretKeys?: string[]
  /** Names that the `env` of a step may not override. */
  strongKeys?: string[]
  /** Limits of each of its commands and of SSH users; absent: written before they were kept. */
  bounds?: { memoryBytes: number; cpus: number; pids: number }
}

export interface DockerPlan extends CommonPlan {
  format: 2
  section: DockerSection
  /** Replicas of one service follow each other. */
  services: RunningContainer[]
  /** As sent to the edge; a recovery that finds the table half-switched sends them again. */
  routes: ContainerRoute[]
  /** Names of the variables whose values are masked. */
  secretKeys?: string[]
}

/** A container of the running version. */
export interface RunningContainer {
  service: string
  /** The deployment that started it; an unrouted, unchanged service is older than its version. */
  taskId: number
  containerId: string
  container: string
  imageId: string
  /** As the file names it; for a build, the tag. */
  image: string
  digest: string
  spec: string
  /** From 1; absent: written before services had replicas. */
  replica?: number
}

interface ServiceRoute {
  service: string
  host: string
  path: string
  auth: boolean
}

export interface ContainerRoute extends ServiceRoute {
  target: { kind: 'container'; id: string; port: number; others?: string[] }
}

export interface ManualRoute extends ServiceRoute {
  target:
    | { kind: 'loopback'; port: number }
    /** `uid`: the account that must own the socket; undefined without accounts. */
    | { kind: 'socket'; path: string; uid?: number }
    /** A copy of the folder that the environment cannot write. */
    | { kind: 'static'; root: string }
}

export const isDockerPlan = (plan: LastPlan | null | undefined): plan is DockerPlan =>
  plan?.format === 2

/** Names the folder of its release. */
export const releaseIdOf = ({ release, taskId }: ManualPlan): number => release ?? taskId

export const isManualPlan = (plan: LastPlan | null | undefined): plan is ManualPlan =>
  plan?.format === 1

export interface PlacedStep extends PlannedStep {
  phase: PhaseName
}

/** The index is the step's number on the wire. */
export const flattenPlan = (plan: Plan): PlacedStep[] =>
  plan.phases.flatMap((phase) => phase.steps.map((step) => ({ ...step, phase: phase.name })))

/**
 * From here on a cancel waits: until the end of `verify`, so that no half-switched state exists, or until the end of a
 * removal, which is irreversible once it has begun.
 */
export const isShielded = (kind: Plan['kind'], phase: PhaseName): boolean =>
  kind === 'destroy' ? phase === 'cleanup' : phase === 'route' || phase === 'verify' // an action has no such phase

/**
 * The new version serves, so a failure in this phase is a warning. A removal has no such point; it completes or fails.
 */
export const isAfterSuccess = (kind: Plan['kind'], phase: PhaseName): boolean =>
  kind === 'deploy' && phase === 'cleanup'
