// Explains why the most recent failed deployment of an environment failed, and what became of any one task.
import { Diagnostics, DiagnosticsQuery, IdParams, TaskDiagnostics } from '@berth/shared/api'
import { diagnoseEnvironment, diagnoseTask } from '../../../app/deployments/diagnostics.ts'
import type { Context } from '../../../context.ts'
import { serializeDiagnostics, serializeTaskDiagnostics } from '../../serializers/diagnostics.ts'
import { type Api, callerOf } from '../http/api.ts'

export function diagnosticsRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/environments/:id/diagnostics',
    {
      config: { needs: 'read' },
      schema: { params: IdParams, querystring: DiagnosticsQuery, response: { 200: Diagnostics } },
    },
    async (request) => {
      const { params, query } = request
      return serializeDiagnostics(
        ctx,
        await diagnoseEnvironment(ctx, callerOf(request), params.id, query),
      )
    },
  )
  api.get(
    '/api/tasks/:id/diagnostics',
    {
      config: { needs: 'read' },
      schema: {
        summary: 'What became of a task of any type and state, with the end of its output',
        params: IdParams,
        querystring: DiagnosticsQuery,
        response: { 200: TaskDiagnostics },
      },
    },
    async (request) => {
      const { params, query } = request
      return serializeTaskDiagnostics(
        ctx,
        await diagnoseTask(ctx, callerOf(request), params.id, query),
      )
    },
  )
}
