// Projects: the list, one, and what happens in it.
import { REST } from '@berth/shared'
import { Id } from '@berth/shared/rest'
import { z } from 'zod'
import { loadProject } from '../app/access.ts'
import { getProject, listVisibleProjects } from '../app/project-views.ts'
import { presentProject } from '../rest/present.ts'
import { presentProjectDetail } from '../rest/present-project.ts'
import { call, router, watch } from './base.ts'
import { counted, Resume, watchEvents } from './messages.ts'

const Page = z.strictObject({
  after: z.strictObject({ name: z.string().max(64), id: Id }).optional(),
  limit: z.int().min(1).max(REST.perPageMax).optional(),
})

export const projectRouter = router({
  list: call.input(Page.optional()).query(async ({ ctx: { ctx, caller }, input }) => {
    const limit = input?.limit ?? REST.perPageMax
    const page = { limit: limit + 1, ...(input?.after ? { after: input.after } : {}) }
    const views = await listVisibleProjects(ctx, caller, page)
    const last = views.length > limit ? views[limit - 1]?.project : undefined
    return {
      projects: views.slice(0, limit).map(presentProject),
      next: last ? { name: last.name, id: last.id } : null,
    }
  }),
  get: call
    .input(z.strictObject({ project_id: Id }))
    .query(async ({ ctx: { ctx, caller }, input }) =>
      presentProjectDetail(ctx, await getProject(ctx, caller, input.project_id)),
    ),
  events: watch
    .input(z.strictObject({ project_id: Id, ...Resume }))
    .subscription(async ({ ctx, input, signal = new AbortController().signal }) => {
      const { project_id: projectId, lastEventId } = input
      await ctx.admission.check()
      const project = await loadProject(ctx.ctx.db, ctx.admission.caller, projectId, 'read')
      const filter = { organizationId: project.organizationId, projectId }
      return counted(ctx.socket, watchEvents(ctx, filter, lastEventId, signal))
    }),
})
