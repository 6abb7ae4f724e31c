// Environments of a project, the Deploy button, and what happens to one.
import { Id, TaskCreate } from '@berth/shared/rest'
import { z } from 'zod'
import { loadEnvironment } from '../app/access.ts'
import { requestDeployment } from '../app/deployments.ts'
import { getEnvironment, listProjectEnvironments } from '../app/environment-views.ts'
import { readStepLines } from '../app/logs.ts'
import { presentTask } from '../rest/present.ts'
import { presentEnvironment } from '../rest/present-environment.ts'
import { call, router, watch } from './base.ts'
import { counted, Resume, watchEvents } from './messages.ts'

export const environmentRouter = router({
  list: call
    .input(z.strictObject({ project_id: Id }))
    .query(async ({ ctx: { ctx, caller }, input }) => {
      const list = await listProjectEnvironments(ctx, caller, input.project_id, {})
      const { used, limit } = list
      return { environments: list.environments.map(presentEnvironment), used, limit }
    }),
  get: call
    .input(z.strictObject({ environment_id: Id }))
    .query(async ({ ctx: { ctx, caller }, input }) =>
      presentEnvironment(await getEnvironment(ctx, caller, input.environment_id)),
    ),
  deploy: call
    .meta({ policy: 'deploy' })
    .input(z.strictObject({ environment_id: Id, ...TaskCreate.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { environment_id: id, ...asked } = input
      const view = await requestDeployment(ctx, caller, id, asked, 'dashboard')
      return presentTask(ctx, view, { lines: await readStepLines(ctx, view) })
    }),
  events: watch
    .input(z.strictObject({ environment_id: Id, ...Resume }))
    .subscription(async ({ ctx, input, signal = new AbortController().signal }) => {
      const { environment_id: id, lastEventId } = input
      await ctx.admission.check()
      const environment = await loadEnvironment(ctx.ctx.db, ctx.admission.caller, id, 'read')
      const filter = { organizationId: environment.organizationId, environmentId: id }
      return counted(ctx.socket, watchEvents(ctx, filter, lastEventId, signal))
    }),
})
