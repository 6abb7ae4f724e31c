// What a deployment or a removal will do, as data: phases of steps in their order, each with what it may have made. PURE. The
// runner performs a plan and reports it; nothing here knows how. Step ids are stable names: people, diagnostics and
// the control plane find a step by them.
import type { Action, ManualSection, Step } from '@berth/shared/service-file'

/** What a step may have left behind; undone backwards when the deployment fails, is canceled or runs out of time. */
export type Made =
  | { kind: 'release' }
  | { kind: 'variables' }
  | { kind: 'current' }
  | { kind: 'process'; service: string }

export type PlatformWork =
  | 'admit'
  | 'account'
  | 'fetch'
  | 'unpack'
  | 'read-config'
  | 'ports'
  | 'variables'
  | 'activate'
  | 'stop-old'
  | 'collect'
  | 'reset'
  | 'stop'
  | 'remove'

export type Work =
  | { kind: PlatformWork }
  | { kind: 'command'; step: Step }
  /** Of `manual.destroy`: in the release and with the values of the last successful deployment. */
  | { kind: 'destroy-command'; step: Step }
  | { kind: 'start' | 'health' | 'verify'; service: string }

export interface PlannedStep {
  id: string
  title: string
  work: Work
  undo: Made[]
}

export type PhaseName = 'checkout' | 'configure' | 'run' | 'start' | 'route' | 'verify' | 'cleanup'

export interface Phase {
  name: PhaseName
  title: string
  steps: PlannedStep[]
}

export interface Plan {
  kind: 'deploy' | 'destroy'
  phases: Phase[]
}

/** What is remembered of the running version of an environment (ledger, as JSON). */
export interface LastPlan {
  format: 1
  taskId: number
  commit: string
  section: ManualSection
  actions: Action[]
  /** Where each service answers. */
  ports: Record<string, number>
  /** Names of the variables whose values are masked; absent: written before they were kept. */
  secretKeys?: string[]
  /** Names that the `env` of a step may not replace. */
  strongKeys?: string[]
}

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
  kind === 'destroy' ? phase === 'cleanup' : phase === 'route' || phase === 'verify'

/** The new version serves; what fails in it is a warning. A removal has no such point: it is done or it failed. */
export const isAfterSuccess = (kind: Plan['kind'], phase: PhaseName): boolean =>
  kind === 'deploy' && phase === 'cleanup'
