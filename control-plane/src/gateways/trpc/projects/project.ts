// Projects: list, read, create, change, delete, and live events. project-keys.ts holds keys and secrets; its procedures
// are spread in here.
import { REST } from '@berth/shared'
import { Id, ProjectCreate, ProjectPatch } from '@berth/shared/api'
import { z } from 'zod'
import { asReader, loadProject } from '../../../app/core/access.ts'
import { regenerateWebhookSecret } from '../../../app/forges/webhook-secrets.ts'
import { keepMadeSecret } from '../../../app/people/one-time-secrets.ts'
import { getOverview } from '../../../app/projects/overview.ts'
import { createProject } from '../../../app/projects/projects.ts'
import { deleteProject } from '../../../app/projects/removal.ts'
import { changeProject } from '../../../app/projects/settings.ts'
import { getProject, listVisibleProjects } from '../../../app/projects/views.ts'
import type { Context } from '../../../context.ts'
import type { Caller } from '../../../domain/core/access.ts'
import { serializeOverview } from '../../serializers/dashboard.ts'
import { serializeProject } from '../../serializers/fields.ts'
import { serializeProjectDetail, serializeWebhookSecret } from '../../serializers/project.ts'
import { call, router, watch } from '../base.ts'
import { counted, Resume, watchEvents } from '../events.ts'
import { projectKeyProcedures } from './project-keys.ts'

const Page = z.strictObject({
  after: z.strictObject({ name: z.string().max(64), id: Id }).optional(),
  limit: z.int().min(1).max(REST.perPageMax).optional(),
})

/** Protected environments are confirmed one by one. */
const Deletion = z.strictObject({
  project_id: Id,
  /** The project's name. */
  confirm: z.string().max(64).optional(),
  confirm_protected: z
    .array(z.union([Id, z.string().max(64)]))
    .max(500)
    .optional(),
})

const keepWebhookSecret = (
  ctx: Context,
  caller: Caller,
  project: { id: number; organization_id: number; name: string; webhook: { url: string } },
  secret: string,
): Promise<string | null> =>
  keepMadeSecret(ctx, caller, {
    organizationId: project.organization_id,
    title: `Webhook secret of ${project.name}`,
    hint: 'Enter both at the forge. You can regenerate the secret later.',
    back: `/projects/${project.id}/webhooks`,
    values: [
      { label: 'Webhook address', text: project.webhook.url },
      { label: 'Webhook secret', text: secret },
    ],
  })

export const projectRouter = router({
  list: call.input(Page.optional()).query(async ({ ctx: { ctx, caller }, input }) => {
    const limit = input?.limit ?? REST.perPageMax
    const page = { limit: limit + 1, ...(input?.after ? { after: input.after } : {}) }
    const views = await listVisibleProjects(ctx, caller, page)
    const last = views.length > limit ? views[limit - 1]?.project : undefined
    return {
      projects: views.slice(0, limit).map(serializeProject),
      next: last ? { name: last.name, id: last.id } : null,
    }
  }),
  /** Across projects: the newest deployments, and what waits for a person. */
  overview: call.query(async ({ ctx: { ctx, caller } }) =>
    serializeOverview(await getOverview(ctx, caller)),
  ),
  get: call
    .input(z.strictObject({ project_id: Id }))
    .query(async ({ ctx: { ctx, caller }, input }) =>
      serializeProjectDetail(ctx, await getProject(ctx, caller, input.project_id)),
    ),
  /** The webhook secret is in the answer, and at its address until it is confirmed. */
  create: call.input(ProjectCreate).mutation(async ({ ctx: { ctx, caller }, input }) => {
    const { view, webhookSecret } = await createProject(ctx, caller, input)
    const made = serializeProjectDetail(ctx, view)
    const secret_id = await keepWebhookSecret(ctx, caller, made, webhookSecret)
    return { ...made, webhook_secret: webhookSecret, secret_id }
  }),
  /** The old secret stays accepted for a while. */
  regenerateSecret: call
    .input(z.strictObject({ project_id: Id }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const made = await regenerateWebhookSecret(ctx, caller, input.project_id)
      const view = await getProject(ctx, asReader(caller), input.project_id)
      const project = serializeProjectDetail(ctx, view)
      const secret_id = await keepWebhookSecret(ctx, caller, project, made.secret)
      return { ...serializeWebhookSecret(made), secret_id }
    }),
  update: call
    .input(z.strictObject({ project_id: Id, ...ProjectPatch.shape }))
    .mutation(async ({ ctx: { ctx, caller }, input }) => {
      const { project_id: id, ...asked } = input
      return serializeProjectDetail(ctx, await changeProject(ctx, caller, id, asked))
    }),
  delete: call.input(Deletion).mutation(async ({ ctx: { ctx, caller }, input }) => {
    const { project_id: id, confirm, confirm_protected: confirmProtected = [] } = input
    const asked = { confirm, confirmProtected: confirmProtected.map(String) }
    const view = await deleteProject(ctx, caller, id, asked)
    return serializeProjectDetail(ctx, view)
  }),
  ...projectKeyProcedures,
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
