// Restarts, stops or starts an environment or one service of it, without a deployment.
import { LIFECYCLE_VERBS, type LifecycleVerb } from '@berth/shared'
import { IdParams, LifecycleRequest, Task } from '@berth/shared/api'
import { requestLifecycle } from '../../../app/deployments/lifecycle.ts'
import type { Context } from '../../../context.ts'
import { type Api, callerOf } from '../http/api.ts'
import { triggerOf } from '../http/triggers.ts'
import { serializeWholeTask } from './environment-tasks.ts'

const SUMMARIES: Record<LifecycleVerb, string> = {
  restart: 'Restart what is deployed, or one service of it',
  stop: 'Stop what is deployed, or one service of it, until it is started or deployed',
  start: 'Start what was stopped',
}

export function lifecycleRoutes(api: Api, ctx: Context): void {
  for (const verb of LIFECYCLE_VERBS) {
    api.post(
      `/api/environments/:id/${verb}`,
      {
        config: {
          needs: 'deploy',
          policy: 'deploy',
          errors: [
            'environment_protected',
            'deployment_in_progress',
            'too_many_tasks',
            'not_deployed',
            'environment_removing',
            'project_deleting',
            'server_not_ready',
            'validation_failed',
          ],
        },
        schema: {
          summary: SUMMARIES[verb],
          params: IdParams,
          body: LifecycleRequest.nullish(),
          response: { 201: Task },
        },
      },
      async (request, reply) => {
        const asked = request.body ?? {}
        const { id } = request.params
        const caller = callerOf(request)
        const view = await requestLifecycle(ctx, caller, id, verb, asked, triggerOf(request))
        return reply
          .code(201)
          .header('location', `/api/tasks/${view.task.id}`)
          .send(await serializeWholeTask(ctx, view))
      },
    )
  }
}
