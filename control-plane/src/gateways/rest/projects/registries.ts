// Credentials of image registries, of an organization and of a project: the same three requests.
import { IdParams, Registry, RegistryParams, RegistryPut } from '@berth/shared/api'
import { z } from 'zod'
import {
  listRegistryViews,
  putRegistry,
  type RegistryScope,
  removeRegistry,
} from '../../../app/projects/registries.ts'
import type { Context } from '../../../context.ts'
import { serializeRegistry } from '../../serializers/registry.ts'
import { type Api, callerOf } from '../http/api.ts'

export function registryRoutes(api: Api, ctx: Context): void {
  routesOf(api, ctx, '/api/organizations/:id/registries', (organization) => ({ organization }))
  routesOf(api, ctx, '/api/projects/:id/registries', (project) => ({ project }))
}

function routesOf(
  api: Api,
  ctx: Context,
  path: '/api/organizations/:id/registries' | '/api/projects/:id/registries',
  scopeOf: (id: number) => RegistryScope,
): void {
  api.get(
    path,
    {
      config: { needs: 'read' },
      schema: {
        summary: 'Registries with stored credentials, without the passwords',
        params: IdParams,
        response: { 200: z.array(Registry) },
      },
    },
    async (request) => {
      const scope = scopeOf(request.params.id)
      return (await listRegistryViews(ctx, callerOf(request), scope)).map(serializeRegistry)
    },
  )
  api.put(
    `${path}/:host`,
    {
      config: { needs: 'project:write', errors: ['validation_failed'] },
      schema: {
        summary: 'Store or replace the credentials of a registry',
        params: RegistryParams,
        body: RegistryPut,
        response: { 200: Registry },
      },
    },
    async (request) => {
      const { id, host } = request.params
      const given = { ...request.body, host }
      return serializeRegistry(await putRegistry(ctx, callerOf(request), scopeOf(id), given))
    },
  )
  api.delete(
    `${path}/:host`,
    {
      config: { needs: 'project:write' },
      schema: {
        summary: 'Remove the credentials of a registry',
        params: RegistryParams,
        response: { 204: z.null() },
      },
    },
    async (request, reply) => {
      const { id, host } = request.params
      await removeRegistry(ctx, callerOf(request), scopeOf(id), host)
      return reply.code(204).send(null)
    },
  )
}
