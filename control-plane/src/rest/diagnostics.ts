// Why the most recent failed deployment of an environment failed.
import { Diagnostics, DiagnosticsQuery, IdParams } from '@berth/shared/rest'
import { diagnoseEnvironment } from '../app/diagnostics.ts'
import type { Context } from '../context.ts'
import { type Api, callerOf } from './http.ts'
import { presentDiagnostics } from './present-diagnostics.ts'

export function diagnosticsRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/environments/:id/diagnostics',
    {
      config: { needs: 'read' },
      schema: { params: IdParams, querystring: DiagnosticsQuery, response: { 200: Diagnostics } },
    },
    async (request) => {
      const { params, query } = request
      return presentDiagnostics(
        ctx,
        await diagnoseEnvironment(ctx, callerOf(request), params.id, query),
      )
    },
  )
}
