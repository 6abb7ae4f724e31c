// Actions: the list from the last successful deployment of an environment, and starting one. The environment is locked
// first, so that the decision about its lock, protection and removal stays true until the commit.
import { AppError, SERVICE_FILE, type Trigger } from '@berth/shared'
import type { ActionStart } from '@berth/shared/api'
import type { Schedule } from '@berth/shared/service-file'
import type { Action as WireAction } from '@berth/shared/wire'
import { durationMs } from '@bufbuild/protobuf/wkt'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import {
  type ActionDecision,
  decideAction,
  type SyncedAction,
} from '../../domain/deployments/action.ts'
import { countQueuedActions, findActions } from '../../store/deployments/actions.ts'
import { findOpenTask } from '../../store/deployments/tasks.ts'
import { type Environment, lockEnvironment } from '../../store/environments/environments.ts'
import { listUserNames } from '../../store/people/people.ts'
import { findProject } from '../../store/projects/projects.ts'
import { findServerAgent } from '../../store/servers/agents.ts'
import { findServer } from '../../store/servers/servers.ts'
import { asReader, loadEnvironment } from '../core/access.ts'
import { byCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change } from '../core/transaction.ts'
import { assertDeployable, inProgress, serverNotReady, toOpenTask } from './deployments.ts'
import { queueTask } from './queue.ts'
import { type ScheduleView, viewSchedules } from './schedules.ts'
import { getTask, type TaskView } from './tasks.ts'

/** An agent's report, cut to the stored fields and lengths. */
export const toSyncedAction = (action: WireAction): SyncedAction => ({
  name: action.name,
  title: action.title || action.name,
  description: action.description,
  service: action.service,
  confirm: action.confirm,
  timeoutMs: action.timeout ? durationMs(action.timeout) : 0,
  artifactPaths: action.artifactPaths,
  disabledReason: action.disabledReason,
})

/** The schedules of a report by action, with texts no longer than a file may have. */
export const schedulesOf = (actions: readonly WireAction[]): Map<string, Schedule> =>
  new Map(
    actions.flatMap(({ name, schedule }) => {
      if (!schedule) return []
      const cron = schedule.cron.slice(0, SERVICE_FILE.cronCharacters)
      const timezone = schedule.timezone.slice(0, SERVICE_FILE.timezoneCharacters)
      return [[name, { cron, timezone }] as const]
    }),
  )

export async function listActions(
  ctx: Context,
  caller: Caller,
  environmentId: number,
): Promise<{
  actions: SyncedAction[]
  syncedAt: number
  schedules: ReadonlyMap<string, ScheduleView>
}> {
  await loadEnvironment(ctx.db, caller, environmentId, 'read')
  const found = await findActions(ctx.db, environmentId)
  return { ...found, schedules: await viewSchedules(ctx, environmentId, found.actions) }
}

export async function startAction(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  name: string,
  asked: ActionStart,
  trigger: Trigger,
): Promise<TaskView> {
  await loadEnvironment(ctx.db, caller, environmentId, 'deploy')
  const id = await change(ctx, (c) =>
    queueAction(ctx, c, caller, environmentId, name, asked, trigger),
  )
  return getTask(ctx, asReader(caller), id)
}

async function queueAction(
  ctx: Context,
  c: Change,
  caller: Caller,
  environmentId: number,
  name: string,
  asked: ActionStart,
  trigger: Trigger,
): Promise<number> {
  const environment = await lockEnvironment(c.db, environmentId)
  const project = environment && (await findProject(c.db, environment.projectId))
  const server = environment && (await findServer(c.db, environment.serverId))
  if (!environment || !project || !server) throw new AppError('not_found', 'It was just removed.')
  const { actions } = await findActions(c.db, environmentId)
  const open = await findOpenTask(c.db, environmentId)
  const owners = await listUserNames(c.db, [environment.ownerId])
  const decision = decideAction(caller, {
    environment: {
      protected: environment.protected,
      ownerId: environment.ownerId,
      removing: environment.removingAt !== null,
      isDeployed: environment.deployedFence > 0,
    },
    ownerName: owners.get(environment.ownerId) ?? 'another user',
    projectDeleting: project.status === 'deleting',
    serverJoined: (await findServerAgent(c.db, server.id)) !== undefined,
    openTask: open && toOpenTask(open),
    queued: await countQueuedActions(c.db, environmentId),
    actions,
    name,
    confirmed: asked.confirm === true,
  })
  if (decision.kind === 'in_progress') throw inProgress(ctx, environment.identifier, decision.task)
  if (decision.kind === 'server_not_ready') throw serverNotReady(server)
  if (decision.kind !== 'start') {
    throw refusal(decision, environment, { project, name, actions })
  }
  return queueTask(c, environment, project, {
    type: 'action',
    action: name,
    by: byCaller(caller),
    trigger,
    message: asked.message ?? null,
  })
}

type Refused = Exclude<ActionDecision, { kind: 'start' | 'in_progress' | 'server_not_ready' }>

function refusal(
  decision: Refused,
  environment: Environment,
  about: { project: { name: string }; name: string; actions: readonly SyncedAction[] },
): AppError {
  const { identifier } = environment
  const { name } = about
  switch (decision.kind) {
    case 'protected':
    case 'removing':
    case 'project_deleting':
      return assertDeployable(decision, environment, about.project)
    case 'not_deployed':
      return new AppError(
        'not_deployed',
        `${identifier} was never deployed successfully: its actions come with the first deployment.`,
      )
    case 'unknown':
      return new AppError('not_found', unknownAction(identifier, name, about.actions))
    case 'disabled':
      return new AppError('action_disabled', decision.reason, { action: name })
    case 'unconfirmed':
      return new AppError(
        'confirmation_required',
        `${name} asks first: ${decision.question} Start it with {"confirm": true}.`,
        { confirm: decision.question },
      )
    case 'too_many':
      return new AppError(
        'too_many_tasks',
        `${decision.limit} actions of ${identifier} wait already. Wait for one of them or cancel it.`,
        { limit: decision.limit },
      )
  }
}

function unknownAction(identifier: string, name: string, actions: readonly SyncedAction[]): string {
  const known = actions.map((action) => action.name).join(', ')
  return known === ''
    ? `${identifier} has no actions. They are declared under 'actions' in .service.yml and come with a deployment.`
    : `${identifier} has no action '${name}'. It has: ${known}.`
}
