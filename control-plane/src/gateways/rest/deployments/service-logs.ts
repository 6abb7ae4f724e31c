// The output of an environment's services, as JSON lines, for clients that cannot reach the server by SSH. Read on the
// server by its agent and passed on; nothing is stored here.
import { IdParams, ServiceLogQuery, ServiceLogRecord } from '@berth/shared/api'
import {
  type ServiceLogRecord as Row,
  recordServiceLogsRead,
  watchServiceLogs,
} from '../../../app/deployments/service-logs.ts'
import type { Context } from '../../../context.ts'
import type { Admission } from '../../../notifications/admission.ts'
import { type Api, callerOf } from '../http/api.ts'
import { admissionOf, admitFollower, sendStream } from '../http/streams.ts'

export function serviceLogRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/environments/:id/service_logs',
    {
      config: {
        needs: 'read',
        errors: ['agent_outdated', 'server_offline', 'server_timeout', 'transfers_busy'],
      },
      schema: {
        summary: 'What the services of an environment wrote, through the agent of its server',
        params: IdParams,
        querystring: ServiceLogQuery,
        response: { 200: { content: { 'application/x-ndjson': { schema: ServiceLogRecord } } } },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const { id } = request.params
      const { service = [], tail, since, until } = request.query
      const services = Array.isArray(service) ? service : [service]
      const follow = request.query.follow === 'true'
      const signal = admitFollower(reply, caller.userId)
      const batches = watchServiceLogs(ctx, caller, id, {
        services,
        tail: tail ?? (since === undefined ? undefined : null),
        since: since === undefined ? undefined : new Date(since),
        until: until === undefined ? undefined : new Date(until),
        follow,
        signal,
      })
      // the first batch before the answer, so that an offline server is a refusal and no empty log
      const first = await batches.next()
      const { organizationId } = await recordServiceLogsRead(ctx, caller, id, { services, follow })
      reply.header('x-content-type-options', 'nosniff').type('application/x-ndjson')
      const admission = admissionOf(ctx, request)
      return sendStream(reply, toLines(batches, first, { admission, organizationId }))
    },
  )
}

/** An empty line keeps the connection alive. A refusal breaks the stream off, which differs from its normal end. */
async function* toLines(
  batches: AsyncGenerator<Row[]>,
  first: IteratorResult<Row[]>,
  { admission, organizationId }: { admission: Admission; organizationId: number },
): AsyncGenerator<string> {
  try {
    for (let step = first; !step.done; step = await batches.next()) {
      await admission.require(organizationId, false)
      yield `${step.value.map((record) => JSON.stringify(record)).join('\n')}\n`
    }
  } finally {
    await batches.return(undefined)
  }
}
