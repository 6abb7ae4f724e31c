// deploy_environment. Only the task's final status is success; started, queued, running, timed out and lost are
// reported as such. A failed deployment includes its diagnostics. The end of a call, for any reason, never cancels the
// deployment.
import { randomUUID } from 'node:crypto'
import { Environment, Task, Variable } from '@berth/shared/api'
import type { Api } from '../client/api.ts'
import { ApiFailure } from '../client/problem.ts'
import { type Target, targetName } from '../client/resolve.ts'
import { pollInterval, type WaitWatcher, waitForTask } from '../client/wait.ts'
import { MCP } from '../limits/client.ts'
import { cancelReason } from '../progress/verdict.ts'
import { CliError, EXIT } from '../terminal/exit.ts'
import { formatDuration, shortCommit } from '../terminal/format.ts'
import { type Answer, cut, oneLine, untrusted, untrustedOrNull } from './answer.ts'
import type { Call, Tool } from './call.ts'
import {
  boundDiagnostics,
  cleanFailure,
  diagnosticsText,
  markDiagnostics,
  markFailure,
  phaseOf,
  readDiagnostics,
} from './diagnostics.ts'
import { hashPlan, type Planned, refuseOutdated } from './plan.ts'
import { explain } from './refusal.ts'
import {
  DeployInput,
  type DeployPlan,
  DeployResult,
  type DiagnosticsOut,
  type TaskOut,
} from './schemas.ts'
import { refusedBecause } from './variables.ts'

interface Input {
  commit_sha?: string | undefined
  wait: boolean
  timeout_seconds: number
  dry_run: boolean
  plan_hash?: string | undefined
}

const clean = (text: string): string => oneLine(text, MCP.sentenceChars)
const subjectOf = (message: string | null): string | null =>
  message === null ? null : cut(oneLine(message.split('\n')[0] ?? ''), 100)

export const presentTask = (task: Task): TaskOut => ({
  id: task.id,
  status: task.status,
  trigger: task.trigger,
  branch: untrusted(oneLine(task.branch)),
  commit_sha: task.commit_sha,
  commit_message: untrustedOrNull(subjectOf(task.commit_message)),
  started_at: task.started_at,
  finished_at: task.finished_at,
  duration_ms: task.duration_ms,
  waiting_for: task.waiting_for === null ? null : clean(task.waiting_for.message),
  cancel_reason: task.cancel_reason,
  superseded_by: task.superseded_by,
  failure: task.failure && markFailure(cleanFailure(task.failure)),
  warnings: task.warnings.slice(0, MCP.hints).map(({ message }) => untrusted(clean(message))),
  phases: (task.phases ?? []).map(({ title, status, duration_ms }) => ({
    name: oneLine(title),
    status,
    duration_ms,
  })),
  url: task.url,
})

export function planDeployment(
  target: Target,
  variables: readonly Variable[],
  commit: string | undefined,
): Planned<DeployPlan> {
  const { environment } = target
  const changed = variables.filter((one) => one.changed_since_deployment)
  const request = environment.pull_request
  const plan: DeployPlan = {
    action: 'deploy_environment',
    target: oneLine(targetName(target)),
    environment_id: environment.id,
    branch: untrusted(oneLine(environment.branch)),
    commit_sha: commit ?? request?.head_sha ?? null,
    previous_commit_sha: environment.commit_sha,
    variable_keys_changed: changed.map(({ key }) => key),
    services: environment.services.map(({ name }) => oneLine(name)),
    server: oneLine(environment.server.name),
    protected: environment.protected,
    refused_because: refusedBecause(target, 'deploy'),
  }
  return {
    plan,
    parts: {
      target: [plan.action, plan.environment_id],
      commit: [plan.branch, plan.commit_sha],
      'what runs now': [plan.previous_commit_sha, plan.services],
      variables: variables.map(({ key, updated_at }) => [key, updated_at]),
      server: environment.server.id,
      'what is allowed': [plan.protected, plan.refused_because],
    },
  }
}

function planText(plan: DeployPlan): string {
  const commit = plan.commit_sha === null ? 'its head' : shortCommit(plan.commit_sha)
  const keys = plan.variable_keys_changed
  return [
    `Plan for ${plan.target}; nothing was started:`,
    `- deploy ${plan.branch} at ${commit} on ${plan.server}`,
    plan.previous_commit_sha === null
      ? '- nothing is deployed there now'
      : `- in place of ${shortCommit(plan.previous_commit_sha)}`,
    ...(keys.length === 0
      ? []
      : [`- variables changed since the last deployment: ${keys.join(', ')}`]),
    ...(plan.services.length === 0 ? [] : [`- services now: ${plan.services.join(', ')}`]),
    ...(plan.refused_because === null ? [] : [`It would be refused: ${plan.refused_because}.`]),
  ].join('\n')
}

async function startTask(call: Call, target: Target, commit: string | undefined): Promise<Task> {
  const path = `/api/environments/${target.environment.id}/tasks`
  const { value: task } = await call.api.post(path, Task, {
    body: commit === undefined ? {} : { commit_sha: commit },
    idempotencyKey: randomUUID(),
    madeAt: '/api/tasks',
    expect: 201,
  })
  if (task.environment_id === target.environment.id) return task
  throw new ApiFailure('nonsense', EXIT.error, `task ${task.id} is one of another environment`)
}

/** Finished phases, plus a half for the running one; never decreases. */
export function progressOf(task: Task): { done: number; total: number; message: string } {
  const phases = task.phases ?? []
  const open = ['pending', 'running']
  const done = phases.filter(({ status }) => !open.includes(status)).length
  const running = phases.find(({ status }) => status === 'running')
  const message = running
    ? oneLine(running.title)
    : task.waiting_for
      ? clean(task.waiting_for.message)
      : task.status
  return { done: done + (running ? 0.5 : 0), total: phases.length, message }
}

function createWatcher(call: Call, seen: (task: Task) => void): WaitWatcher {
  let last = -1
  return {
    async update(task) {
      seen(task)
      const { done, total, message } = progressOf(task)
      if (done <= last) return
      last = done
      await call.report({ progress: done, message, ...(total > 0 ? { total } : {}) })
    },
    lost: () => {},
    found: () => {},
  }
}

/** "Not finished: Build, 0:41." */
function runningText(task: Task, target: Target, now: number): string {
  const phase = task.phases?.find(({ status }) => status === 'running')
  const since = Date.parse(phase?.started_at ?? task.started_at ?? task.created_at)
  const seconds = Math.max(0, Math.floor((now - since) / 1_000))
  const clock = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
  const where = phaseOf(task) ?? task.status
  const waiting = task.waiting_for ? ` ${clean(task.waiting_for.message)}` : ''
  return (
    `Task ${task.id} of ${oneLine(targetName(target))} was started. Not finished: ${where}, ${clock}.${waiting} ` +
    `It continues. Ask get_deploy_diagnostics later (latest_task).\n${task.url}`
  )
}

const running = (task: Task, target: Target, now: number): Answer => ({
  text: runningText(task, target, now),
  structured: { outcome: 'running', task: presentTask(task) },
})

/** For the addresses only. */
async function readEnvironment(api: Api, id: number): Promise<Environment | undefined> {
  try {
    const options = { retries: 1, timeoutMs: MCP.logMs }
    return (await api.get(`/api/environments/${id}`, Environment, options)).value
  } catch (error) {
    if (error instanceof CliError && error.exitCode === EXIT.interrupted) throw error
    return undefined
  }
}

async function succeeded(call: Call, task: Task, target: Target): Promise<Answer> {
  const environment = await readEnvironment(call.api, task.environment_id)
  const addresses = (environment?.services ?? [])
    .filter(({ url }) => url !== null)
    .map(({ name, url }) => `- ${oneLine(name)}: ${url}`)
  const subject = subjectOf(task.commit_message)
  const commit = `${shortCommit(task.commit_sha)}${subject === null ? '' : ` ${untrusted(subject)}`}`
  const took = task.duration_ms === null ? '' : ` in ${formatDuration(task.duration_ms)}`
  const text = [
    `Deployed ${commit} to ${oneLine(targetName(target))}${took} (task ${task.id}).`,
    ...(addresses.length > 0 ? addresses : environment?.url ? [`- ${environment.url}`] : []),
    ...task.warnings
      .slice(0, MCP.hints)
      .map(({ message }) => `Warning: ${untrusted(clean(message))}`),
  ].join('\n')
  return { text, structured: { outcome: 'succeeded', task: presentTask(task) } }
}

/** The end of a log arrives after the verdict, so wait for it briefly. */
async function drainLog(call: Call, task: Task): Promise<void> {
  const { api, io } = call
  const endsAt = io.now() + MCP.logMs
  let isComplete = task.log_complete
  while (!isComplete && io.now() < endsAt) {
    await io.sleep(pollInterval(io))
    isComplete = (await api.get(`/api/tasks/${task.id}`, Task, { retries: 0 })).value.log_complete
  }
}

/** Undefined: they could not be read; the task's own failure is reported instead. */
async function diagnosticsOf(call: Call, task: Task): Promise<DiagnosticsOut | undefined> {
  try {
    await drainLog(call, task)
    const found = await readDiagnostics(call.api, task.environment_id, MCP.lines)
    return found.task?.id === task.id ? boundDiagnostics(found, MCP.lines) : undefined
  } catch (error) {
    if (error instanceof CliError && error.exitCode === EXIT.interrupted) throw error
    return undefined
  }
}

async function failed(call: Call, task: Task, target: Target): Promise<Answer> {
  const diagnostics = await diagnosticsOf(call, task)
  const place = task.failure?.step_title ?? task.failure?.step ?? task.failure?.phase
  const where = place ? ` in ${oneLine(place)}` : ''
  const text = diagnostics
    ? diagnosticsText(diagnostics, target, task.commit_message, '')
    : `# Deployment ${task.id} of ${oneLine(targetName(target))} failed${where}\n` +
      `${task.failure ? untrusted(clean(task.failure.message)) : 'It failed.'}\nFull log: ${task.url}`
  return {
    text,
    structured: {
      outcome: 'failed',
      task: presentTask(task),
      ...(diagnostics ? { diagnostics: markDiagnostics(diagnostics) } : {}),
    },
    isError: true,
  }
}

function canceled(task: Task, target: Target): Answer {
  const name = oneLine(targetName(target))
  const text = `Deployment ${task.id} of ${name} was canceled: ${cancelReason(task)}.\n${task.url}`
  return { text, structured: { outcome: 'canceled', task: presentTask(task) }, isError: true }
}

async function waitFor(
  call: Call,
  started: Task,
  target: Target,
  timeoutMs: number,
): Promise<Answer> {
  let latest = started
  const watcher = createWatcher(call, (task) => {
    latest = task
  })
  try {
    const options = { what: 'deployment' as const, resume: 'get_deploy_diagnostics', timeoutMs }
    const { task } = await waitForTask(call.api, started.id, call.io, options, watcher)
    if (task.status === 'succeeded') return await succeeded(call, task, target)
    return task.status === 'failed' ? await failed(call, task, target) : canceled(task, target)
  } catch (error) {
    if (error instanceof CliError && error.exitCode === EXIT.timeout) {
      return running(latest, target, call.io.now())
    }
    return explain(error, { undertaking: 'read', target, taskId: started.id })
  }
}

async function deploy(input: Input, call: Call): Promise<Answer> {
  const { api, io } = call
  const target = await call.find('change')
  if (input.dry_run || input.plan_hash !== undefined) {
    const path = `/api/environments/${target.environment.id}/variables`
    const { items } = await api.list(path, Variable)
    const planned = planDeployment(target, items, input.commit_sha)
    if (input.dry_run) {
      const { plan } = planned
      const plan_hash = hashPlan(planned.parts)
      return {
        text: planText(plan),
        structured: { outcome: 'planned', task: null, plan, plan_hash },
      }
    }
    const outdated = refuseOutdated(input.plan_hash ?? '', planned)
    if (outdated) return outdated
  }
  const task = await startTask(call, target, input.commit_sha)
  if (!input.wait) return running(task, target, io.now())
  const left = call.startedAt + input.timeout_seconds * 1_000 - io.now()
  return waitFor(call, task, target, Math.max(1, left))
}

export const deployEnvironment: Tool<typeof DeployInput> = {
  name: 'deploy_environment',
  title: 'Deploy an environment',
  description:
    'Starts the same deployment as the Deploy button and waits for its result. Only outcome "succeeded" means deployed; ' +
    '"running" means not finished: ask get_deploy_diagnostics later. A failure carries its diagnostics.',
  undertaking: 'start',
  hints: {
    readOnlyHint: false,
    destructiveHint: true,
    idempotentHint: false,
    openWorldHint: true,
  },
  input: DeployInput,
  output: DeployResult,
  run: deploy,
}
