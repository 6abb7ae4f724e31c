// Projects: list, read, create, change, delete. Their keys, secrets and limit are in project-keys.ts.
import {
  IdParams,
  Paging,
  Project,
  ProjectCreate,
  ProjectCreated,
  ProjectDeleteQuery,
  ProjectDetail,
  ProjectPatch,
} from '@berth/shared/api'
import { z } from 'zod'
import { createProject } from '../../../app/projects/projects.ts'
import { deleteProject } from '../../../app/projects/removal.ts'
import { changeProject } from '../../../app/projects/settings.ts'
import { getProject, listVisibleProjects } from '../../../app/projects/views.ts'
import type { Context } from '../../../context.ts'
import { serializeProject } from '../../serializers/fields.ts'
import { serializeProjectDetail } from '../../serializers/project.ts'
import { type Api, callerOf } from '../http/api.ts'
import { ByName, linkPages, makeCursor, pageSize, readCursor } from '../http/paging.ts'

const ListQuery = Paging.extend({ name: z.string().max(64).optional() })

export function projectRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/projects',
    {
      config: { needs: 'read' },
      schema: { querystring: ListQuery, response: { 200: z.array(Project) } },
    },
    async (request, reply) => {
      const limit = pageSize(request.query)
      const cursor = readCursor(request.query.cursor, ByName)
      const views = await listVisibleProjects(ctx, callerOf(request), {
        name: request.query.name,
        ...(cursor ? { after: { name: cursor.n, id: cursor.i } } : {}),
        limit: limit + 1,
      })
      const page = views.slice(0, limit)
      const last = page.at(-1)?.project
      const more = views.length > limit && last
      linkPages(ctx, request, reply, more ? makeCursor({ n: last.name, i: last.id }) : undefined)
      return page.map(serializeProject)
    },
  )
  api.get(
    '/api/projects/:id',
    { config: { needs: 'read' }, schema: { params: IdParams, response: { 200: ProjectDetail } } },
    async (request) =>
      serializeProjectDetail(ctx, await getProject(ctx, callerOf(request), request.params.id)),
  )
  api.post(
    '/api/projects',
    {
      config: {
        needs: 'project:write',
        showsSecret: true,
        errors: ['name_taken', 'domain_in_use', 'organization_required', 'validation_failed'],
      },
      schema: { body: ProjectCreate, response: { 201: ProjectCreated } },
    },
    async (request, reply) => {
      const { view, webhookSecret } = await createProject(ctx, callerOf(request), request.body)
      return reply
        .code(201)
        .header('location', `/api/projects/${view.project.id}`)
        .header('cache-control', 'no-store')
        .send({ ...serializeProjectDetail(ctx, view), webhook_secret: webhookSecret })
    },
  )
  api.patch(
    '/api/projects/:id',
    {
      config: {
        needs: 'project:write',
        errors: [
          'name_taken',
          'domain_in_use',
          'server_in_use',
          'project_deleting',
          'validation_failed',
        ],
      },
      schema: { params: IdParams, body: ProjectPatch, response: { 200: ProjectDetail } },
    },
    async (request) =>
      serializeProjectDetail(
        ctx,
        await changeProject(ctx, callerOf(request), request.params.id, request.body),
      ),
  )
  api.delete(
    '/api/projects/:id',
    {
      config: {
        needs: 'project:write',
        errors: ['confirmation_required', 'project_deleting'],
      },
      schema: {
        params: IdParams,
        querystring: ProjectDeleteQuery,
        response: { 202: ProjectDetail },
      },
    },
    async (request, reply) => {
      const { confirm, confirm_protected: guarded } = request.query
      const view = await deleteProject(ctx, callerOf(request), request.params.id, {
        confirm,
        confirmProtected: (guarded ?? '').split(',').filter(Boolean),
      })
      return reply.code(202).send(serializeProjectDetail(ctx, view))
    },
  )
}
