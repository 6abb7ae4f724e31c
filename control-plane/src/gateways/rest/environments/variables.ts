// Custom variables of an environment. Bodies of this route are never logged, cached or stored.
import { IdParams, Variable, VariablesPatch, VariablesPatched } from '@berth/shared/api'
import { z } from 'zod'
import { changeVariables, listEnvironmentVariables } from '../../../app/environments/variables.ts'
import type { Context } from '../../../context.ts'
import { serializeVariable } from '../../serializers/environment.ts'
import { type Api, callerOf } from '../http/api.ts'

export function variableRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/environments/:id/variables',
    {
      config: { needs: 'read' },
      schema: { params: IdParams, response: { 200: z.array(Variable) } },
    },
    async (request) => {
      const views = await listEnvironmentVariables(ctx, callerOf(request), request.params.id)
      return views.map(serializeVariable)
    },
  )
  api.patch(
    '/api/environments/:id/variables',
    {
      config: {
        needs: 'variables:write',
        policy: 'variables',
        errors: ['environment_protected', 'environment_removing', 'validation_failed'],
      },
      schema: { params: IdParams, body: VariablesPatch, response: { 200: VariablesPatched } },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store')
      return changeVariables(ctx, callerOf(request), request.params.id, request.body)
    },
  )
}
