// Connections to forges: of an organization, their repositories, and the connection of a project.
import {
  ForgeConnection,
  ForgeConnectionPatch,
  ForgeConnectionPost,
  ForgeDisconnected,
  ForgeRepository,
  ForgeRepositoryQuery,
  IdParams,
  ProjectForge,
  ProjectForgePut,
} from '@berth/shared/api'
import { z } from 'zod'
import {
  changeForgeConnection,
  createForgeConnection,
  listForgeConnections,
  removeForgeConnection,
} from '../../../app/forges/connections/connections.ts'
import {
  checkProjectForge,
  connectProject,
  disconnectProject,
  getProjectForge,
} from '../../../app/forges/connections/project-forge.ts'
import { listForgeRepositories } from '../../../app/forges/connections/repositories.ts'
import type { Context } from '../../../context.ts'
import {
  serializeDisconnected,
  serializeForgeConnection,
  serializeForgeRepository,
  serializeProjectForge,
} from '../../serializers/forge.ts'
import { type Api, callerOf } from '../http/api.ts'
import { linkPages, makeCursor, pageSize, readCursor } from '../http/paging.ts'

/** Where the next page of a forge's own list starts. */
const ByForge = z.strictObject({ f: z.string().max(200) })

export function forgeRoutes(api: Api, ctx: Context): void {
  organizationRoutes(api, ctx)
  connectionRoutes(api, ctx)
  projectRoutes(api, ctx)
}

function organizationRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/organizations/:id/forges',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'Connections to forges of an organization, without their tokens',
        params: IdParams,
        response: { 200: z.array(ForgeConnection) },
      },
    },
    async (request) => {
      const views = await listForgeConnections(ctx, callerOf(request), request.params.id)
      return views.map(serializeForgeConnection)
    },
  )
  api.post(
    '/api/organizations/:id/forges',
    {
      config: { needs: 'project:write', errors: ['forge_unreachable', 'rate_limited'] },
      schema: {
        summary: 'Connect a forge with a token, which is checked there first',
        params: IdParams,
        body: ForgeConnectionPost,
        response: { 201: ForgeConnection },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const made = await createForgeConnection(ctx, caller, request.params.id, request.body)
      return reply.code(201).send(serializeForgeConnection(made))
    },
  )
}

function connectionRoutes(api: Api, ctx: Context): void {
  api.patch(
    '/api/forges/:id',
    {
      config: { needs: 'project:write', errors: ['forge_unreachable', 'rate_limited'] },
      schema: {
        summary: 'Give a connection another token or API address',
        params: IdParams,
        body: ForgeConnectionPatch,
        response: { 200: ForgeConnection },
      },
    },
    async (request) => {
      const caller = callerOf(request)
      return serializeForgeConnection(
        await changeForgeConnection(ctx, caller, request.params.id, request.body),
      )
    },
  )
  api.delete(
    '/api/forges/:id',
    {
      config: { needs: 'project:write', errors: ['forge_in_use'] },
      schema: {
        summary: 'Remove a connection that no project uses',
        params: IdParams,
        response: { 204: z.null() },
      },
    },
    async (request, reply) => {
      await removeForgeConnection(ctx, callerOf(request), request.params.id)
      return reply.code(204).send(null)
    },
  )
  api.get(
    '/api/forges/:id/repositories',
    {
      config: {
        needs: 'project:write',
        errors: ['forge_unreachable', 'validation_failed', 'rate_limited'],
      },
      schema: {
        summary: 'Repositories that a connection opens',
        params: IdParams,
        querystring: ForgeRepositoryQuery,
        response: { 200: z.array(ForgeRepository) },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const { query, params } = request
      const from = readCursor(query.cursor, ByForge)?.f ?? null
      const asked = { search: query.search ?? '', size: pageSize(query), from }
      const { repositories, next } = await listForgeRepositories(ctx, caller, params.id, asked)
      linkPages(ctx, request, reply, next === null ? undefined : makeCursor({ f: next }))
      return repositories.map(serializeForgeRepository)
    },
  )
}

function projectRoutes(api: Api, ctx: Context): void {
  const path = '/api/projects/:id/forge'
  api.get(
    path,
    {
      config: { needs: 'read' },
      schema: {
        summary: 'The connection of a project to its forge, and what the last check found',
        params: IdParams,
        response: { 200: ProjectForge },
      },
    },
    async (request) =>
      serializeProjectForge(await getProjectForge(ctx, callerOf(request), request.params.id)),
  )
  api.put(
    path,
    {
      config: {
        needs: 'project:write',
        errors: ['forge_unreachable', 'project_deleting', 'rate_limited'],
      },
      schema: {
        summary:
          'Connect a project: add its deploy key and webhook at the forge and test a delivery',
        params: IdParams,
        body: ProjectForgePut,
        response: { 200: ProjectForge },
      },
    },
    async (request) => {
      const caller = callerOf(request)
      return serializeProjectForge(
        await connectProject(ctx, caller, request.params.id, request.body),
      )
    },
  )
  api.post(
    `${path}/check`,
    {
      config: { needs: 'project:write', errors: ['rate_limited'] },
      schema: {
        summary: 'Look again whether token, deploy key, webhook and deliveries work',
        params: IdParams,
        response: { 200: ProjectForge },
      },
    },
    async (request) => {
      const caller = callerOf(request)
      return serializeProjectForge(await checkProjectForge(ctx, caller, request.params.id))
    },
  )
  api.delete(
    path,
    {
      config: { needs: 'project:write' },
      schema: {
        summary: 'Disconnect a project: remove its deploy key and webhook at the forge',
        params: IdParams,
        response: { 200: ForgeDisconnected },
      },
    },
    async (request) =>
      serializeDisconnected(await disconnectProject(ctx, callerOf(request), request.params.id)),
  )
}
