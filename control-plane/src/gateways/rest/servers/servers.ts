// Servers, their join tokens and their agents.
import {
  IdParams,
  JoinToken,
  JoinTokenRequest,
  OnePage,
  Server,
  ServerCreate,
  ServerDeleteQuery,
  ServerPatch,
  ServerShareCreate,
  ServerShareParams,
  ServerUsageHistory,
  ServerUsageQuery,
} from '@berth/shared/api'
import { z } from 'zod'
import { getServerFacts } from '../../../app/servers/facts.ts'
import {
  createServer,
  getServer,
  listVisibleServers,
  makeServerJoinToken,
} from '../../../app/servers/servers.ts'
import {
  changeServer,
  deleteJoinToken,
  deleteServer,
  revokeAgent,
} from '../../../app/servers/settings.ts'
import { shareServer, unshareServer } from '../../../app/servers/sharing.ts'
import type { Context } from '../../../context.ts'
import { serializeServer, time } from '../../serializers/fields.ts'
import { serializeFacts } from '../../serializers/usage.ts'
import { type Api, callerOf } from '../http/api.ts'

export function serverRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/servers',
    {
      config: { needs: 'read' },
      schema: { querystring: OnePage, response: { 200: z.array(Server) } },
    },
    async (request) => (await listVisibleServers(ctx, callerOf(request))).map(serializeServer),
  )
  api.get(
    '/api/servers/:id',
    { config: { needs: 'read' }, schema: { params: IdParams, response: { 200: Server } } },
    async (request) => serializeServer(await getServer(ctx, callerOf(request), request.params.id)),
  )
  api.get(
    '/api/servers/:id/usage',
    {
      config: { needs: 'read' },
      schema: {
        params: IdParams,
        querystring: ServerUsageQuery,
        response: { 200: ServerUsageHistory },
      },
    },
    async (request) => {
      const span = request.query.span ?? 'day'
      return serializeFacts(
        await getServerFacts(ctx, callerOf(request), request.params.id, span),
        span,
      )
    },
  )
  api.post(
    '/api/servers',
    {
      config: {
        needs: 'server:write',
        errors: ['name_taken', 'organization_required', 'validation_failed'],
      },
      schema: { body: ServerCreate, response: { 201: Server } },
    },
    async (request, reply) => {
      const view = await createServer(ctx, callerOf(request), request.body)
      return reply
        .code(201)
        .header('location', `/api/servers/${view.server.id}`)
        .send(serializeServer(view))
    },
  )
  api.patch(
    '/api/servers/:id',
    {
      config: { needs: 'server:write', errors: ['name_taken', 'validation_failed'] },
      schema: { params: IdParams, body: ServerPatch, response: { 200: Server } },
    },
    async (request) =>
      serializeServer(await changeServer(ctx, callerOf(request), request.params.id, request.body)),
  )
  api.delete(
    '/api/servers/:id',
    {
      config: { needs: 'server:write', errors: ['server_in_use', 'confirmation_required'] },
      schema: {
        params: IdParams,
        querystring: ServerDeleteQuery,
        response: { 204: z.null() },
      },
    },
    async (request, reply) => {
      await deleteServer(ctx, callerOf(request), request.params.id, request.query)
      return reply.code(204).send(null)
    },
  )
  sharingRoutes(api, ctx)
  agentRoutes(api, ctx)
}

function sharingRoutes(api: Api, ctx: Context): void {
  api.post(
    '/api/servers/:id/shares',
    {
      config: { needs: 'server:write', errors: ['validation_failed'] },
      schema: {
        summary: 'Let another organization place environments on it',
        params: IdParams,
        body: ServerShareCreate,
        response: { 200: Server },
      },
    },
    async (request) =>
      serializeServer(await shareServer(ctx, callerOf(request), request.params.id, request.body)),
  )
  api.delete(
    '/api/servers/:id/shares/:organization_id',
    {
      config: { needs: 'server:write', errors: ['server_in_use'] },
      schema: {
        summary: 'End the sharing with an organization',
        params: ServerShareParams,
        response: { 200: Server },
      },
    },
    async (request) => {
      const { id, organization_id: holder } = request.params
      return serializeServer(await unshareServer(ctx, callerOf(request), id, holder))
    },
  )
}

function agentRoutes(api: Api, ctx: Context): void {
  api.post(
    '/api/servers/:id/join_token',
    {
      config: { needs: 'server:write', showsSecret: true, errors: ['server_already_joined'] },
      schema: {
        params: IdParams,
        body: JoinTokenRequest.nullish(),
        response: { 201: JoinToken },
      },
    },
    async (request, reply) => {
      const rejoin = request.body?.rejoin ?? false
      const made = await makeServerJoinToken(ctx, callerOf(request), request.params.id, rejoin)
      return reply
        .code(201)
        .header('cache-control', 'no-store')
        .send({ token: made.token, expires_at: time(made.expiresAt), command: made.command })
    },
  )
  api.delete(
    '/api/servers/:id/join_token',
    {
      config: { needs: 'server:write' },
      schema: { params: IdParams, response: { 204: z.null() } },
    },
    async (request, reply) => {
      await deleteJoinToken(ctx, callerOf(request), request.params.id)
      return reply.code(204).send(null)
    },
  )
  api.post(
    '/api/servers/:id/revoke_agent',
    {
      config: { needs: 'server:write' },
      schema: { params: IdParams, response: { 202: Server } },
    },
    async (request, reply) => {
      const view = await revokeAgent(ctx, callerOf(request), request.params.id)
      return reply.code(202).send(serializeServer(view))
    },
  )
}
