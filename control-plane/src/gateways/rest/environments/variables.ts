// Custom variables of an environment, and who changed them. Bodies of these routes are never logged, cached or stored.
import {
  IdParams,
  Variable,
  VariableChange,
  VariableHistoryQuery,
  VariablesPatch,
  VariablesPatched,
  VariablesQuery,
} from '@berth/shared/api'
import { z } from 'zod'
import { listEnvironmentHistory } from '../../../app/environments/variable-history.ts'
import { changeVariables, listEnvironmentVariables } from '../../../app/environments/variables.ts'
import type { Context } from '../../../context.ts'
import { serializeVariable } from '../../serializers/environment.ts'
import { serializeVariableChange } from '../../serializers/variable.ts'
import { type Api, callerOf } from '../http/api.ts'
import { askedPage, linkNext } from '../http/id-pages.ts'

export function variableRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/environments/:id/variables',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'Keys that an environment gets, and the level that each comes from',
        params: IdParams,
        querystring: VariablesQuery,
        response: { 200: z.array(Variable) },
      },
    },
    async (request) => {
      const { level } = request.query
      const views = await listEnvironmentVariables(ctx, callerOf(request), request.params.id, level)
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
      schema: {
        summary: 'Set, generate or unset variables of an environment, all or none',
        params: IdParams,
        body: VariablesPatch,
        response: { 200: VariablesPatched },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store')
      return changeVariables(ctx, callerOf(request), request.params.id, request.body)
    },
  )
  api.get(
    '/api/environments/:id/variables/history',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'Who changed which variables that reach an environment, newest first',
        params: IdParams,
        querystring: VariableHistoryQuery,
        response: { 200: z.array(VariableChange) },
      },
    },
    async (request, reply) => {
      const { id } = request.params
      const { key } = request.query
      const asked = { key, ...askedPage(request.query) }
      const { changes, next } = await listEnvironmentHistory(ctx, callerOf(request), id, asked)
      linkNext(ctx, request, reply, next)
      return changes.map(serializeVariableChange)
    },
  )
}
