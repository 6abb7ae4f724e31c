// Lists the actions of an environment and their scheduled runs, and starts one.
import { Action, ActionParams, ActionStart, IdParams, ScheduledRun, Task } from '@berth/shared/api'
import { z } from 'zod'
import { listActions, startAction } from '../../../app/deployments/actions.ts'
import { listScheduledRuns } from '../../../app/deployments/schedules.ts'
import type { Context } from '../../../context.ts'
import { serializeAction, serializeRun } from '../../serializers/action.ts'
import { type Api, callerOf } from '../http/api.ts'
import { triggerOf } from '../http/triggers.ts'
import { serializeWholeTask } from './environment-tasks.ts'

export function actionRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/environments/:id/actions',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'What the last successful deployment offers',
        params: IdParams,
        response: { 200: z.array(Action) },
      },
    },
    async (request) => {
      const listed = await listActions(ctx, callerOf(request), request.params.id)
      return listed.actions.map((action) =>
        serializeAction(action, listed.syncedAt, listed.schedules.get(action.name)),
      )
    },
  )
  api.get(
    '/api/environments/:id/actions/:name/runs',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'What became of the scheduled runs of an action, newest first',
        params: ActionParams,
        response: { 200: z.array(ScheduledRun) },
      },
    },
    async (request) => {
      const { id, name } = request.params
      const runs = await listScheduledRuns(ctx, callerOf(request), id, name)
      return runs.map(serializeRun)
    },
  )
  api.post(
    '/api/environments/:id/actions/:name/tasks',
    {
      config: {
        needs: 'deploy',
        policy: 'deploy',
        errors: [
          'environment_protected',
          'deployment_in_progress',
          'action_disabled',
          'confirmation_required',
          'too_many_tasks',
          'not_deployed',
          'environment_removing',
          'project_deleting',
          'server_not_ready',
          'validation_failed',
        ],
      },
      schema: {
        summary: 'Start an action',
        params: ActionParams,
        body: ActionStart.nullish(),
        response: { 201: Task },
      },
    },
    async (request, reply) => {
      const { id, name } = request.params
      const asked = request.body ?? {}
      const caller = callerOf(request)
      const view = await startAction(ctx, caller, id, name, asked, triggerOf(request))
      return reply
        .code(201)
        .header('location', `/api/tasks/${view.task.id}`)
        .send(await serializeWholeTask(ctx, view))
    },
  )
}
