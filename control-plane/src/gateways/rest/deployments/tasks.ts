// Shows and cancels one task. Its log is in logs.ts.
import { IdParams, Task } from '@berth/shared/api'
import { readStepLines } from '../../../app/deployments/logs.ts'
import { cancelTask, getTask } from '../../../app/deployments/tasks.ts'
import type { Context } from '../../../context.ts'
import { serializeTask } from '../../serializers/fields.ts'
import { type Api, callerOf } from '../http/api.ts'

export function taskRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/tasks/:id',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'One task with its phases and steps',
        params: IdParams,
        response: { 200: Task },
      },
    },
    async (request) => {
      const view = await getTask(ctx, callerOf(request), request.params.id)
      return serializeTask(ctx, view, { lines: await readStepLines(ctx, view) })
    },
  )
  api.post(
    '/api/tasks/:id/cancel',
    {
      config: { needs: 'deploy', errors: ['environment_protected', 'task_finished'] },
      schema: { summary: 'Cancel a task', params: IdParams, response: { 202: Task } },
    },
    async (request, reply) => {
      const view = await cancelTask(ctx, callerOf(request), request.params.id)
      const lines = await readStepLines(ctx, view)
      return reply.code(202).send(serializeTask(ctx, view, { lines }))
    },
  )
}
