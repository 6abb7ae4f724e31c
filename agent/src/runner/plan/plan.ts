// What a deployment, a removal or an action will do, as data: phases of steps in their order, each with what it may have made. PURE. The
// runner performs a plan and reports it; nothing here knows how. Step ids are stable names: people, diagnostics and
// the control plane find a step by them.
import type { Action, DockerSection, ManualSection, Step } from '@berth/shared/service-file'

/** What a step may have left behind; undone backwards when the deployment fails, is canceled or runs out of time. */
export type Made =
  | { kind: 'release' }
  | { kind: 'variables' }
  /** Fixed ports that the running version does not have. */
  | { kind: 'ports' }
  | { kind: 'current' }
  | { kind: 'process'; service: string }
  /** Where the hosts of the environment lead; what they show while no version answers. */
  | { kind: 'routes' | 'pages' }
  /** Hosts that were led away from a version that is still up. */
  | { kind: 'unrouted' }
  | { kind: 'static'; service: string }
  /** docker: what this attempt made or paused, found by its rows in the ledger. */
  | { kind: 'images' | 'containers' }

/** What a step of the docker recipe does; `service` says for which one. */
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

export type PlatformWork =
  | 'admit'
  | 'account'
  | 'fetch'
  | 'unpack'
  | 'read-config'
  | 'claim-hosts'
  | 'ports'
  | 'variables'
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
  /** Of `manual.destroy`: in the release and with the values of the last successful deployment. */
  | { kind: 'destroy-command'; step: Step }
  | { kind: 'start' | 'health' | 'static' | 'verify'; service: string }
  | { kind: 'docker'; does: DockerVerb; service: string }

export interface PlannedStep {
  id: string
  title: string
  work: Work
  undo: Made[]
}

export type PhaseName =
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
  kind: 'deploy' | 'destroy' | 'action'
  phases: Phase[]
}

/** What is remembered of the running version of an environment (ledger, as JSON); `format` says of which recipe. */
export type LastPlan = ManualPlan | DockerPlan

interface CommonPlan {
  taskId: number
  commit: string
  actions: Action[]
}

export interface ManualPlan extends CommonPlan {
  format: 1
  section: ManualSection
  /** Where each service answers. */
  ports: Record<string, number>
  /** As they were given to the edge; absent: written before manual services were routed. */
  routes?: ManualRoute[]
  /** Names of the variables whose values are masked; absent: written before they were kept. */
  secretKeys?: string[]
  /** Names that the `env` of a step may not replace. */
  strongKeys?: string[]
  /** Of each of its commands, of people who connect too; absent: written before they were kept. */
  bounds?: { memoryBytes: number; cpus: number; pids: number }
}

export interface DockerPlan extends CommonPlan {
  format: 2
  section: DockerSection
  services: RunningContainer[]
  /** As they were given to the edge: whoever finds the table half-switched gives them again. */
  routes: ContainerRoute[]
  /** Names of the variables whose values are masked. */
  secretKeys?: string[]
}

/** A container of the running version. */
export interface RunningContainer {
  service: string
  /** Of the deployment that started it; an unrouted service that did not change is older than its version. */
  taskId: number
  containerId: string
  container: string
  imageId: string
  /** As the file names it; of a build the tag. */
  image: string
  digest: string
  spec: string
}

interface ServiceRoute {
  service: string
  host: string
  path: string
  auth: boolean
}

export interface ContainerRoute extends ServiceRoute {
  target: { kind: 'container'; id: string; port: number }
}

export interface ManualRoute extends ServiceRoute {
  target:
    | { kind: 'loopback'; port: number }
    /** `uid`: of the account whose socket it must be; undefined without accounts. */
    | { kind: 'socket'; path: string; uid?: number }
    /** A copy of the folder, which the environment cannot write. */
    | { kind: 'static'; root: string }
}

export const isDockerPlan = (plan: LastPlan | null | undefined): plan is DockerPlan =>
  plan?.format === 2

export const isManualPlan = (plan: LastPlan | null | undefined): plan is ManualPlan =>
  plan?.format === 1

export interface PlacedStep extends PlannedStep {
  phase: PhaseName
}

/** Index = the step's number on the wire. */
export const flattenPlan = (plan: Plan): PlacedStep[] =>
  plan.phases.flatMap((phase) => phase.steps.map((step) => ({ ...step, phase: phase.name })))

/**
 * From here on a cancel waits: for the end of `verify`, so that no half-switched state exists; for the end of a
 * removal, which nobody can take back once it has begun.
 */
export const isShielded = (kind: Plan['kind'], phase: PhaseName): boolean =>
  kind === 'destroy' ? phase === 'cleanup' : phase === 'route' || phase === 'verify' // no phase of an action

/** The new version serves; what fails in it is a warning. A removal has no such point: it is done or it failed. */
export const isAfterSuccess = (kind: Plan['kind'], phase: PhaseName): boolean =>
  kind === 'deploy' && phase === 'cleanup'
