// A user deletes an environment: refused while a deployment is queued or running. A protected environment needs its
// owner's explicit confirmation; a server that will never return can be given up.
import { AppError, type Trigger } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { findOpenTask, listUnfinishedTasks } from '../../store/deployments/tasks.ts'
import { lockEnvironment } from '../../store/environments/environments.ts'
import { asReader, loadEnvironment, requirePermission, requireUnprotected } from '../core/access.ts'
import { auditCaller, byCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change } from '../core/transaction.ts'
import { inProgress, toOpenTask } from '../deployments/deployments.ts'
import { stopTask } from '../deployments/stopping.ts'
import { getTask, type TaskView } from '../deployments/tasks.ts'
import { beginRemoval, finishRemoval } from './removal.ts'

interface AskedRemoval {
  confirm?: string | undefined
  /** Skips the repository's own destroy steps. */
  force: boolean
  /** Does not wait for its server. */
  forget: boolean
  trigger: Trigger
}

export async function deleteEnvironment(
  ctx: Context,
  caller: Caller,
  id: number,
  asked: AskedRemoval,
): Promise<TaskView> {
  const { organizationId } = await loadEnvironment(ctx.db, caller, id, 'environment:write')
  if (asked.forget) requirePermission(caller, organizationId, 'server:write')
  const taskId = await change(ctx, (c) => remove(ctx, c, caller, id, asked))
  return getTask(ctx, asReader(caller), taskId)
}

async function remove(
  ctx: Context,
  c: Change,
  caller: Caller,
  id: number,
  asked: AskedRemoval,
): Promise<number> {
  const environment = await lockEnvironment(c.db, id)
  if (!environment) throw new AppError('not_found', 'It was just removed.')
  await requireUnprotected(c.db, caller, environment)
  const { identifier, organizationId } = environment
  const open = await findOpenTask(c.db, id)
  const going = open?.type === 'destroy' ? open : undefined
  if (environment.removingAt !== null && !asked.forget) {
    throw new AppError('environment_removing', `${identifier} is being removed already.`)
  }
  if (open && !going) throw inProgress(ctx, identifier, toOpenTask(open))
  const { confirm } = asked
  if (confirm === undefined ? environment.protected : confirm !== identifier) {
    const why = confirm === undefined ? `${identifier} is protected.` : 'Nothing was removed.'
    throw new AppError(
      'confirmation_required',
      `${why} Confirm the removal with the environment's identifier: ${identifier}.`,
      { confirm: identifier },
    )
  }
  const subject: [string, number] = ['environment', id]
  const details = { identifier, force: asked.force, forget: asked.forget }
  await auditCaller(c, caller, organizationId, 'environment.delete', subject, details)
  const taskId =
    going?.id ??
    (await beginRemoval(ctx, c, environment, byCaller(caller), {
      trigger: asked.trigger,
      skipSteps: asked.force,
    }))
  if (asked.forget) await forget(ctx, c, id, caller.name)
  return taskId
}

/** If its server ever returns, it stops what still runs there; the removal does not wait for that. */
async function forget(ctx: Context, c: Change, environmentId: number, by: string): Promise<void> {
  for (const task of await listUnfinishedTasks(c.db, environmentId)) {
    await stopTask(c, task.id, { reason: 'environment_removed', by })
  }
  await finishRemoval(ctx, c, environmentId, { forget: true })
}
