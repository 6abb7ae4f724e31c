// The repository of a project: check it, catch up on missed events, and manage the token of its forge.
import {
  HostToken,
  HostTokenPut,
  IdParams,
  ReconcileStarted,
  RepositoryCheck,
} from '@berth/shared/api'
import { z } from 'zod'
import { removeForgeToken, setForgeToken } from '../../../app/forges/forge-tokens.ts'
import { askForReconcile } from '../../../app/forges/reconcile-rounds.ts'
import { checkRepository } from '../../../app/forges/repository.ts'
import type { Context } from '../../../context.ts'
import { time } from '../../serializers/fields.ts'
import { serializeForgeToken, serializeRepositoryCheck } from '../../serializers/repository.ts'
import { type Api, callerOf } from '../http/api.ts'

export function repositoryRoutes(api: Api, ctx: Context): void {
  api.post(
    '/api/projects/:id/repository_check',
    {
      config: { needs: 'project:write', errors: ['rate_limited'] },
      schema: { params: IdParams, response: { 200: RepositoryCheck } },
    },
    async (request) => {
      await ctx.quotas.narrow.repositoryChecks.take(`user ${callerOf(request).userId}`)
      return serializeRepositoryCheck(
        await checkRepository(ctx, callerOf(request), request.params.id),
      )
    },
  )
  api.post(
    '/api/projects/:id/reconcile',
    {
      config: { needs: 'deploy', errors: ['rate_limited', 'project_deleting'] },
      schema: { params: IdParams, response: { 202: ReconcileStarted } },
    },
    async (request, reply) => {
      const startedAt = await askForReconcile(ctx, callerOf(request), request.params.id)
      return reply.code(202).send({ started_at: time(startedAt) })
    },
  )
  api.put(
    '/api/projects/:id/host_token',
    {
      config: { needs: 'project:write', errors: ['validation_failed'] },
      schema: { params: IdParams, body: HostTokenPut, response: { 200: HostToken } },
    },
    async (request) =>
      serializeForgeToken(
        await setForgeToken(ctx, callerOf(request), request.params.id, request.body.token),
      ),
  )
  api.delete(
    '/api/projects/:id/host_token',
    {
      config: { needs: 'project:write', errors: [] },
      schema: { params: IdParams, response: { 204: z.null() } },
    },
    async (request, reply) => {
      await removeForgeToken(ctx, callerOf(request), request.params.id)
      return reply.code(204).send(null)
    },
  )
}
