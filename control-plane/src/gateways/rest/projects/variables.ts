// Custom variables of a project's levels, and who changed them. Bodies of these routes are never logged, cached or
// stored.
import {
  IdParams,
  ProjectHistoryQuery,
  ProjectVariable,
  ProjectVariablesPatch,
  ProjectVariablesPatched,
  ProjectVariablesQuery,
  VariableChange,
} from '@berth/shared/api'
import { z } from 'zod'
import { listProjectHistory } from '../../../app/environments/variable-history.ts'
import {
  changeProjectVariables,
  listProjectVariableViews,
} from '../../../app/projects/variables.ts'
import type { Context } from '../../../context.ts'
import { serializeProjectVariable, serializeVariableChange } from '../../serializers/variable.ts'
import { type Api, callerOf } from '../http/api.ts'
import { askedPage, linkNext } from '../http/id-pages.ts'

export function projectVariableRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/projects/:id/variables',
    {
      config: { needs: 'read' },
      schema: {
        summary: "Keys of a project's levels, and where nearer ones shadow them",
        params: IdParams,
        querystring: ProjectVariablesQuery,
        response: { 200: z.array(ProjectVariable) },
      },
    },
    async (request) => {
      const { level } = request.query
      const views = await listProjectVariableViews(ctx, callerOf(request), request.params.id, level)
      return views.map(serializeProjectVariable)
    },
  )
  api.patch(
    '/api/projects/:id/variables',
    {
      config: {
        needs: 'project:write',
        policy: 'variables',
        errors: ['environment_protected', 'project_deleting', 'validation_failed'],
      },
      schema: {
        summary: "Set, generate or unset variables of a project's level, all or none",
        params: IdParams,
        body: ProjectVariablesPatch,
        response: { 200: ProjectVariablesPatched },
      },
    },
    async (request, reply) => {
      reply.header('cache-control', 'no-store')
      return changeProjectVariables(ctx, callerOf(request), request.params.id, request.body)
    },
  )
  api.get(
    '/api/projects/:id/variables/history',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'Who changed which variables of a project and its environments, newest first',
        params: IdParams,
        querystring: ProjectHistoryQuery,
        response: { 200: z.array(VariableChange) },
      },
    },
    async (request, reply) => {
      const { id } = request.params
      const { key, level } = request.query
      const asked = { key, ...askedPage(request.query) }
      const { changes, next } = await listProjectHistory(ctx, callerOf(request), id, level, asked)
      linkNext(ctx, request, reply, next)
      return changes.map(serializeVariableChange)
    },
  )
}
