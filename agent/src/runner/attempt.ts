// What the steps of one attempt work with. The context is fixed from the start. A step stores what it finds out as a
// result, and later steps read it with `need`; a step that runs before its facts exist is a defect.
import type { ServiceFile } from '@berth/shared/service-file'
import type { Assignment, TaskSecrets, TaskSpec } from '@berth/shared/wire'
import type { Ledger } from '../journal/ledger.ts'
import type { DiskSpaceMeter } from '../machine/disk-space.ts'
import type { EnvironmentPaths } from '../machine/files.ts'
import type { CommitFacts, TreeFacts } from '../machine/git/git.ts'
import type { Cgroup } from '../machine/process/cgroups.ts'
import type { Pty } from '../machine/process/commands.ts'
import type { Account } from '../machine/process/confinement.ts'
import type { AgentSettings } from '../settings.ts'
import type { Interruption } from './interruption.ts'
import type { Output } from './output.ts'
import type { Parts } from './parts.ts'
import type { Limits } from './plan/ceilings.ts'
import type { LastPlan, Plan } from './plan/plan.ts'
import type { ResolvedVariables } from './plan/variables.ts'
import type { Reporter } from './report.ts'

interface AttemptLimits {
  killGraceMs: number
  cleanupMs: number
}

/** What the steps have found out so far. */
interface Results {
  /** Null: the agent runs without root, as the developer's own user. */
  account?: Account | null
  /** The account git runs as, with both recipes; null: same as above. */
  gitAccount?: Account | null
  /** The group through which the proxy reaches sockets and static files; null: the proxy needs none. */
  webGroup?: number | null
  commit?: CommitFacts
  /** Undefined also when the commit holds more names than allowed. */
  tree?: TreeFacts | undefined
  /** The bytes of .service.yml; empty when it is missing or not a regular file. */
  source?: Buffer
  file?: ServiceFile
  /** What each service may use. */
  limits?: Map<string, Limits>
  last?: LastPlan | null
  /** The port of the version being deployed, by service. */
  ports?: Map<string, number>
  variables?: ResolvedVariables
  /** Of services that do not get all custom variables. */
  serviceVariables?: Map<string, ResolvedVariables>
  /** The target of `current` before this deployment moved it; empty: none. */
  previousRelease?: string
  /** Counts the disk space this deployment uses, from `admit` on. */
  disk?: DiskSpaceMeter
  /** The cgroup of this attempt's commands; created with the first one. */
  cgroup?: Cgroup | undefined
  /** The deployment whose kept release this one uses; absent: it has its own. */
  reused?: number
  /** Folders of the tools that the file asks for. */
  toolPaths?: string[]
  /** When the last deploy step ended (wall clock, because it is compared with times of files). */
  builtAt?: number
  /** The deployment whose processes the steps look at; absent: this one. */
  processesOf?: number
  /** When `verify` began and every process was up (monotonic clock). */
  verifySince?: number
  /** Grows once: from the checkout alone to everything that .service.yml asks for. */
  plan: Plan
}

export interface Attempt {
  readonly settings: AgentSettings
  readonly assignment: Assignment
  readonly spec: TaskSpec
  readonly secrets: TaskSecrets
  readonly limits: AttemptLimits
  readonly paths: EnvironmentPaths
  /** releases/<task>, or the kept one that it uses. */
  readonly releaseDir: string
  /** variables/<task>.sh; the dotenv twin ends in .env. */
  readonly variablesFile: string
  readonly scratch: string
  readonly output: Output
  readonly report: Reporter
  readonly ledger: Ledger
  readonly interruption: Interruption
  readonly pty: Pty | undefined
  /** Processes that finished commands left running and that may continue, as `pid:ticks`. */
  readonly spared: Set<string>
  /** When the old process of a service that cannot run twice was stopped (monotonic clock). */
  readonly awaySince: Map<string, number>
  readonly parts: Parts
  readonly results: Results
}

export function need<K extends keyof Results>(attempt: Attempt, key: K): NonNullable<Results[K]> {
  const value = attempt.results[key]
  if (value === undefined || value === null) throw new Error(`${key} is not known yet`)
  return value as NonNullable<Results[K]>
}

export const accountOf = (attempt: Attempt): Account | undefined =>
  attempt.results.account ?? undefined

/**
 * The account name (also used where there are no accounts): it distinguishes this agent's environments on the machine.
 */
export const environmentName = (attempt: Attempt): string =>
  `${attempt.settings.accountPrefix}${attempt.assignment.environmentId}`

export const hasMarkerOf = (attempt: Attempt): string =>
  `BERTH_ATTEMPT_ID=${attempt.assignment.attemptId}`
