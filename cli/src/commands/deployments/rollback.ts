// berth rollback: deploys the commit of an earlier successful deployment again. The API needs nothing of its own for
// it: the deployment carries that commit, and its message says that it is a rollback.
import { Task } from '@berth/shared/api'
import type { Api } from '../../client/api.ts'
import { findTarget, type Target } from '../../client/resolve.ts'
import { type Context, compose, flagOn, flagText, type Invocation } from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT, type ExitCode } from '../../terminal/exit.ts'
import { shortCommit } from '../../terminal/format.ts'
import { finishStart, flagsOf, parseWait, startTask, type WaitChoice } from './deploy.ts'
import { parseTaskId } from './tasks.ts'

interface RollbackOptions {
  /** Undefined: the newest successful deployment of another commit. */
  task: number | undefined
  message: string | undefined
  wait: WaitChoice | null
}

function parseRollback(invocation: Invocation): RollbackOptions {
  const { args, flags } = invocation
  return {
    task: args[0] === undefined ? undefined : parseTaskId(invocation).id,
    message: flagText(flags, 'message'),
    wait: parseWait(invocation, flagOn(flags, 'wait')),
  }
}

/** A successful deployment: its commit was checked out, so it is known. */
interface Earlier {
  id: number
  commit: string
}

async function findGiven(api: Api, target: Target, id: number): Promise<Earlier> {
  const { value: task } = await api.get(`/api/tasks/${id}`, Task)
  const list = `berth tasks ${flagsOf(target)} --status succeeded lists the possible ones`
  const refuse = (why: string) => new CliError(EXIT.refused, `task ${id} ${why}`, list)
  if (task.environment_id !== target.environment.id) {
    throw refuse(`is not a task of ${target.environment.identifier}`)
  }
  if (task.type !== 'deploy') throw refuse(`is not a deployment (${task.type})`)
  if (task.status !== 'succeeded' || task.commit_sha === null) {
    throw refuse(`did not succeed (${task.status}): there is nothing to go back to`)
  }
  return { id, commit: task.commit_sha }
}

async function findPrevious(api: Api, target: Target): Promise<Earlier> {
  const { environment } = target
  const query = { status: 'succeeded', type: 'deploy', per_page: 100 }
  const path = `/api/environments/${environment.id}/tasks`
  const { items } = await api.list(path, Task, { query, limit: CLIENT.listRows })
  for (const { id, commit_sha: commit } of items) {
    if (commit !== null && commit !== environment.commit_sha) return { id, commit }
  }
  const runs = environment.commit_sha
  const why =
    runs === null
      ? `${environment.identifier} was never deployed`
      : `no earlier deployment of ${environment.identifier} has another commit than ${shortCommit(runs)}`
  const hint = `deploy a commit with  berth deploy ${flagsOf(target)} --commit SHA`
  throw new CliError(EXIT.refused, `${why}; there is nothing to go back to`, hint)
}

async function performRollback(options: RollbackOptions, context: Context): Promise<ExitCode> {
  const api = await context.connect()
  const target = await findTarget(api, context, 'change')
  const earlier =
    options.task === undefined
      ? await findPrevious(api, target)
      : await findGiven(api, target, options.task)
  const message = options.message ?? `Rollback to deployment ${earlier.id}`
  const body = { commit_sha: earlier.commit, reuse_release: true as const, message }
  const words = { noun: 'a rollback', verb: 'roll it back' }
  const started = await startTask(api, target, body, context.io.now(), words)
  await context.screen.note(
    `Rolling back to ${shortCommit(earlier.commit)} of deployment ${earlier.id}. ` +
      `${target.environment.identifier} stays there until the next push or deployment of its branch.`,
  )
  return finishStart(context, api, target, started, options.wait)
}

export const rollback = compose(parseRollback, performRollback)
