// Deployments of an environment and of a project: history, and the Deploy button.
import { TASK_TYPES } from '@berth/shared'
import { IdParams, Task, TaskCreate, TaskQuery } from '@berth/shared/api'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { requestDeployment } from '../../../app/deployments/deployments.ts'
import { readFailureLines, readStepLines } from '../../../app/deployments/logs.ts'
import {
  listEnvironmentTasks,
  listProjectTasks,
  type TaskView,
} from '../../../app/deployments/tasks.ts'
import type { Context } from '../../../context.ts'
import type { TaskFilter } from '../../../store/deployments/task-history.ts'
import { serializeTask, serializeTasks } from '../../serializers/fields.ts'
import { type Api, callerOf } from '../http/api.ts'
import { ById, linkPages, makeCursor, pageSize, readCursor } from '../http/paging.ts'
import { triggerOf } from '../http/triggers.ts'

export const serializeWholeTask = async (ctx: Context, view: TaskView) =>
  serializeTask(ctx, view, { lines: await readStepLines(ctx, view) })

export function environmentTaskRoutes(api: Api, ctx: Context): void {
  taskHistory(api, ctx)
  api.post(
    '/api/environments/:id/tasks',
    {
      config: {
        needs: 'deploy',
        policy: 'deploy',
        errors: [
          'environment_protected',
          'deployment_in_progress',
          'approval_required',
          'environment_removing',
          'project_deleting',
          'server_not_ready',
          'validation_failed',
        ],
      },
      schema: { params: IdParams, body: TaskCreate.nullish(), response: { 201: Task } },
    },
    async (request, reply) => {
      const asked = request.body ?? {}
      const caller = callerOf(request)
      const { id } = request.params
      const view = await requestDeployment(ctx, caller, id, asked, triggerOf(request))
      return reply
        .code(201)
        .header('location', `/api/tasks/${view.task.id}`)
        .send(await serializeWholeTask(ctx, view))
    },
  )
}

/** Builds the filter; reading one task more than the page shows whether there is another page. */
function filterOf(query: TaskQuery): TaskFilter {
  return {
    status: query.status === undefined ? undefined : [query.status].flat(),
    types: query.type === 'all' ? [...TASK_TYPES] : [query.type ?? 'deploy'],
    trigger: query.trigger,
    since: query.since === undefined ? undefined : Date.parse(query.since),
    until: query.until === undefined ? undefined : Date.parse(query.until),
    beforeId: readCursor(query.cursor, ById)?.i,
    limit: pageSize(query) + 1,
  }
}

async function sendPage(
  ctx: Context,
  request: FastifyRequest<{ Querystring: TaskQuery }>,
  reply: FastifyReply,
  views: TaskView[],
): Promise<Task[]> {
  const limit = pageSize(request.query)
  const page = views.slice(0, limit)
  const last = page.at(-1)?.task
  const more = views.length > limit && last
  linkPages(ctx, request, reply, more ? makeCursor({ i: last.id }) : undefined)
  const withSteps = request.query.include === 'phases'
  return withSteps
    ? Promise.all(page.map((view) => serializeWholeTask(ctx, view)))
    : serializeTasks(ctx, page, await readFailureLines(ctx, page))
}

function taskHistory(api: Api, ctx: Context): void {
  const config = { needs: 'read' } as const
  const response = { 200: z.array(Task) }
  const schema = { params: IdParams, querystring: TaskQuery, response }
  const history = [
    ['/api/environments/:id/tasks', listEnvironmentTasks],
    ['/api/projects/:id/tasks', listProjectTasks],
  ] as const
  for (const [path, list] of history) {
    api.get(path, { config, schema }, async (request, reply) => {
      const withSteps = request.query.include === 'phases'
      const filter = filterOf(request.query)
      const views = await list(ctx, callerOf(request), request.params.id, filter, withSteps)
      return sendPage(ctx, request, reply, views)
    })
  }
}
