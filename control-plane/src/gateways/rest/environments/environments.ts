// Environments of a project: list, create, read, change, reset, remove, Basic Auth.
import {
  BasicAuth,
  Environment,
  EnvironmentBasicAuth,
  EnvironmentCreate,
  EnvironmentCreated,
  EnvironmentDeleteQuery,
  EnvironmentMetrics,
  EnvironmentMetricsQuery,
  EnvironmentPatch,
  EnvironmentWatch,
  IdParams,
  OnePage,
  ResetRequest,
  Task,
} from '@berth/shared/api'
import { z } from 'zod'
import { resetEnvironment } from '../../../app/deployments/deployments.ts'
import { createEnvironment } from '../../../app/environments/environments.ts'
import { getEnvironmentMetrics } from '../../../app/environments/metrics.ts'
import { deleteEnvironment } from '../../../app/environments/removal-request.ts'
import { changeEnvironment } from '../../../app/environments/settings.ts'
import { getEnvironment, listProjectEnvironments } from '../../../app/environments/views.ts'
import { watchEnvironment } from '../../../app/environments/watching.ts'
import { setEnvironmentAuth } from '../../../app/projects/basic-auth.ts'
import type { Context } from '../../../context.ts'
import { serializeBasicAuth, serializeEnvironment } from '../../serializers/environment.ts'
import { serializeMetrics } from '../../serializers/metrics.ts'
import { serializeWholeTask } from '../deployments/environment-tasks.ts'
import { type Api, callerOf } from '../http/api.ts'
import { triggerOf } from '../http/triggers.ts'

const ListQuery = OnePage.extend({
  type: z.enum(['pull_request', 'manual']).optional(),
  branch: z.string().max(255).optional(),
  identifier: z.string().max(64).optional(),
})

export function environmentRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/projects/:id/environments',
    {
      config: { needs: 'read' },
      schema: { params: IdParams, querystring: ListQuery, response: { 200: z.array(Environment) } },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const list = await listProjectEnvironments(ctx, caller, request.params.id, request.query)
      reply.header('berth-environment-count', list.used)
      reply.header('berth-environment-limit', list.limit)
      return list.environments.map(serializeEnvironment)
    },
  )
  api.post(
    '/api/projects/:id/environments',
    {
      config: {
        needs: 'environment:write',
        errors: [
          'environment_limit_reached',
          'identifier_taken',
          'domain_in_use',
          'project_deleting',
          'project_not_ready',
          'server_not_ready',
          'validation_failed',
        ],
      },
      schema: { params: IdParams, body: EnvironmentCreate, response: { 201: EnvironmentCreated } },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const { body, params } = request
      const made = await createEnvironment(ctx, caller, params.id, body, triggerOf(request))
      return reply
        .code(201)
        .header('location', `/api/environments/${made.view.environment.id}`)
        .send({
          ...serializeEnvironment(made.view),
          task: made.task && (await serializeWholeTask(ctx, made.task)),
        })
    },
  )
  api.get(
    '/api/environments/:id',
    { config: { needs: 'read' }, schema: { params: IdParams, response: { 200: Environment } } },
    async (request) =>
      serializeEnvironment(await getEnvironment(ctx, callerOf(request), request.params.id)),
  )
  api.get(
    '/api/environments/:id/metrics',
    {
      config: { needs: 'read' },
      schema: {
        params: IdParams,
        querystring: EnvironmentMetricsQuery,
        response: { 200: EnvironmentMetrics },
      },
    },
    async (request) => {
      const { params, query } = request
      return serializeMetrics(
        await getEnvironmentMetrics(ctx, callerOf(request), params.id, query.range),
      )
    },
  )
  changeRoutes(api, ctx)
}

function changeRoutes(api: Api, ctx: Context): void {
  api.patch(
    '/api/environments/:id',
    {
      config: {
        needs: 'environment:write',
        errors: [
          'environment_protected',
          'protection_active',
          'deployment_in_progress',
          'domain_in_use',
          'environment_removing',
          'validation_failed',
        ],
      },
      schema: { params: IdParams, body: EnvironmentPatch, response: { 200: Environment } },
    },
    async (request) =>
      serializeEnvironment(
        await changeEnvironment(ctx, callerOf(request), request.params.id, request.body),
      ),
  )
  api.delete(
    '/api/environments/:id',
    {
      config: {
        needs: 'environment:write',
        errors: [
          'environment_protected',
          'deployment_in_progress',
          'confirmation_required',
          'environment_removing',
        ],
      },
      schema: { params: IdParams, querystring: EnvironmentDeleteQuery, response: { 202: Task } },
    },
    async (request, reply) => {
      const { confirm, force, forget } = request.query
      const view = await deleteEnvironment(ctx, callerOf(request), request.params.id, {
        confirm,
        force: force === 'true',
        forget: forget === 'true',
        trigger: triggerOf(request),
      })
      return reply
        .code(202)
        .header('location', `/api/tasks/${view.task.id}`)
        .send(await serializeWholeTask(ctx, view))
    },
  )
  api.post(
    '/api/environments/:id/reset',
    {
      config: {
        needs: 'environment:write',
        policy: 'deploy',
        errors: [
          'environment_protected',
          'protection_active',
          'deployment_in_progress',
          'confirmation_required',
          'environment_removing',
          'project_deleting',
          'approval_required',
          'server_not_ready',
        ],
      },
      schema: { params: IdParams, body: ResetRequest.nullish(), response: { 201: Task } },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const asked = request.body ?? {}
      const view = await resetEnvironment(ctx, caller, request.params.id, asked, triggerOf(request))
      return reply
        .code(201)
        .header('location', `/api/tasks/${view.task.id}`)
        .send(await serializeWholeTask(ctx, view))
    },
  )
  api.put(
    '/api/environments/:id/basic_auth',
    {
      config: {
        needs: 'environment:write',
        errors: ['environment_protected', 'environment_removing', 'validation_failed'],
      },
      schema: { params: IdParams, body: EnvironmentBasicAuth, response: { 200: BasicAuth } },
    },
    async (request) =>
      serializeBasicAuth(
        await setEnvironmentAuth(ctx, callerOf(request), request.params.id, request.body),
      ),
  )
  api.put(
    '/api/environments/:id/watch',
    {
      config: { needs: 'read', errors: ['environment_removing', 'validation_failed'] },
      schema: { params: IdParams, body: EnvironmentWatch, response: { 200: EnvironmentWatch } },
    },
    (request) => watchEnvironment(ctx, callerOf(request), request.params.id, request.body),
  )
}
