// A project's webhook secret, deploy key, Basic Auth and limit of environments.
import {
  BasicAuth,
  DeployKey,
  EnvironmentLimit,
  EnvironmentLimitPut,
  ForgeHostKey,
  ForgeHostKeyPost,
  IdParams,
  ProjectBasicAuth,
  WebhookSecret,
} from '@berth/shared/api'
import { z } from 'zod'
import { getForgeHostKey, trustForgeHostKey } from '../../../app/forges/forge-host-keys.ts'
import { endPreviousSecret, regenerateWebhookSecret } from '../../../app/forges/webhook-secrets.ts'
import { setProjectAuth } from '../../../app/projects/basic-auth.ts'
import { getDeployKey, replaceDeployKey } from '../../../app/projects/deploy-keys.ts'
import { setEnvironmentLimit } from '../../../app/projects/settings.ts'
import type { Context } from '../../../context.ts'
import { serializeBasicAuth } from '../../serializers/environment.ts'
import {
  serializeDeployKey,
  serializeForgeHostKey,
  serializeWebhookSecret,
} from '../../serializers/project.ts'
import { type Api, callerOf } from '../http/api.ts'

export function projectKeyRoutes(api: Api, ctx: Context): void {
  api.post(
    '/api/projects/:id/webhook_secret',
    {
      config: { needs: 'read', showsSecret: true },
      schema: { params: IdParams, response: { 201: WebhookSecret } },
    },
    async (request, reply) => {
      const made = await regenerateWebhookSecret(ctx, callerOf(request), request.params.id)
      return reply.code(201).header('cache-control', 'no-store').send(serializeWebhookSecret(made))
    },
  )
  api.delete(
    '/api/projects/:id/webhook_secret/previous',
    {
      config: { needs: 'read' },
      schema: { params: IdParams, response: { 204: z.null() } },
    },
    async (request, reply) => {
      await endPreviousSecret(ctx, callerOf(request), request.params.id)
      return reply.code(204).send(null)
    },
  )
  api.get(
    '/api/projects/:id/deploy_key',
    { config: { needs: 'read' }, schema: { params: IdParams, response: { 200: DeployKey } } },
    async (request) =>
      serializeDeployKey(await getDeployKey(ctx, callerOf(request), request.params.id)),
  )
  api.post(
    '/api/projects/:id/deploy_key',
    {
      config: { needs: 'project:write' },
      schema: { params: IdParams, response: { 201: DeployKey } },
    },
    async (request, reply) => {
      const key = await replaceDeployKey(ctx, callerOf(request), request.params.id)
      return reply.code(201).send(serializeDeployKey(key))
    },
  )
  api.get(
    '/api/projects/:id/host_key',
    {
      config: { needs: 'read', errors: ['rate_limited'] },
      schema: { params: IdParams, response: { 200: ForgeHostKey } },
    },
    async (request) =>
      serializeForgeHostKey(await getForgeHostKey(ctx, callerOf(request), request.params.id)),
  )
  api.post(
    '/api/projects/:id/host_key',
    {
      config: {
        needs: 'read',
        errors: ['validation_failed', 'rate_limited', 'host_key_not_offered', 'forge_unreachable'],
      },
      schema: { params: IdParams, body: ForgeHostKeyPost, response: { 200: ForgeHostKey } },
    },
    async (request) => {
      const caller = callerOf(request)
      const { params, body } = request
      return serializeForgeHostKey(
        await trustForgeHostKey(ctx, caller, params.id, body.fingerprint),
      )
    },
  )
  api.put(
    '/api/projects/:id/basic_auth',
    {
      config: { needs: 'project:write', errors: ['validation_failed'] },
      schema: { params: IdParams, body: ProjectBasicAuth, response: { 200: BasicAuth } },
    },
    async (request) =>
      serializeBasicAuth(
        await setProjectAuth(ctx, callerOf(request), request.params.id, request.body),
      ),
  )
  api.put(
    '/api/projects/:id/environment_limit',
    {
      config: { needs: 'platform_admin', errors: ['platform_admin_only', 'validation_failed'] },
      schema: { params: IdParams, body: EnvironmentLimitPut, response: { 200: EnvironmentLimit } },
    },
    async (request) => {
      const { params, body } = request
      return setEnvironmentLimit(ctx, callerOf(request), params.id, body.limit)
    },
  )
}
