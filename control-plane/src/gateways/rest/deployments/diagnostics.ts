// Explains why the most recent failed deployment of an environment failed.
import { Diagnostics, DiagnosticsQuery, IdParams } from '@berth/shared/api'
import { diagnoseEnvironment } from '../../../app/deployments/diagnostics.ts'
import type { Context } from '../../../context.ts'
import { serializeDiagnostics } from '../../serializers/diagnostics.ts'
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
}
