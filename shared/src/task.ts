// Names of tasks, attempts, phases and steps that the control plane, the agent and the client share. The state machines
// are control-plane/src/domain/deployments/task.ts and attempt.ts; nothing here decides.
import { AttemptState, FailureCode } from './wire/gen/berth/agent/v1/agent_pb.ts'

/** Tasks that change what runs of the last successful deployment, without a deployment. */
export const LIFECYCLE_VERBS = ['restart', 'stop', 'start'] as const
export type LifecycleVerb = (typeof LIFECYCLE_VERBS)[number]

/** Tasks that copy the data of the last successful deployment, or replace it. */
const DATA_TASKS = ['backup', 'restore'] as const

export const TASK_TYPES = [
  'deploy',
  'destroy',
  'action',
  ...LIFECYCLE_VERBS,
  ...DATA_TASKS,
] as const
export type TaskType = (typeof TASK_TYPES)[number]

/** Actions, lifecycle tasks and backups run beside a queue of deployments; they do not lock the environment. */
export const locksEnvironment = (type: TaskType): type is 'deploy' | 'destroy' =>
  type === 'deploy' || type === 'destroy'

export const isLifecycle = (type: TaskType): type is LifecycleVerb =>
  (LIFECYCLE_VERBS as readonly TaskType[]).includes(type)

export const TASK_STATUSES = ['queued', 'running', 'succeeded', 'failed', 'canceled'] as const
export type TaskStatus = (typeof TASK_STATUSES)[number]

export const TRIGGERS = [
  'dashboard',
  'api',
  'cli',
  'mcp',
  'webhook',
  'schedule',
  'reconcile',
  'system',
] as const
export type Trigger = (typeof TRIGGERS)[number]

export const STEP_STATUSES = [
  'pending',
  'running',
  'succeeded',
  'failed',
  'skipped',
  'canceled',
] as const
export type StepStatus = (typeof STEP_STATUSES)[number]

export const RECIPES = ['docker', 'manual'] as const
export type Recipe = (typeof RECIPES)[number]

export const isFinished = (status: TaskStatus): boolean =>
  status === 'succeeded' || status === 'failed' || status === 'canceled'

/** >= 100 is terminal and final; the number never decreases. */
export const isTerminal = (state: number): boolean => state >= AttemptState.SUCCEEDED

const failureWords = new Map<number, string>(
  Object.entries(FailureCode).map(([name, code]) => [code, name.toLowerCase()]),
)

/** REST's word for a failure: the enum's name in lower case; numbers unknown to this build are "internal". */
export const failureWord = (code: number): string => failureWords.get(code) ?? 'internal'

/** Ends every switch on a union: the compiler proves that it is unreachable. */
export function never(value: never): never {
  throw new Error(`unexpected value: ${String(value)}`)
}
