// Lines of services and requests of an environment as JSON lines: a page before or after a position, or the last lines and
// then live. Read on the server by its agent and passed on; nothing is stored here.
import { AppError, RUNTIME_LOGS } from '@berth/shared'
import { IdParams, RuntimeLogQuery, RuntimeLogRecord } from '@berth/shared/api'
import {
  followLog,
  type LogPlace,
  type LogSelection,
  type RuntimeRecord,
  readLogPage,
} from '../../../app/deployments/runtime-logs.ts'
import { recordServiceLogsRead } from '../../../app/deployments/service-logs.ts'
import type { Context } from '../../../context.ts'
import type { Admission } from '../../../notifications/admission.ts'
import { type Api, callerOf } from '../http/api.ts'
import { admissionOf, admitFollower, sendStream } from '../http/streams.ts'

const list = <T>(value: T | T[] | undefined): T[] =>
  value === undefined ? [] : Array.isArray(value) ? value : [value]

const toSelection = (query: RuntimeLogQuery): LogSelection => ({
  log: query.log ?? 'services',
  services: list(query.service),
  levels: list(query.level),
  statuses: list(query.status),
  search: query.q ?? '',
  since: query.since === undefined ? undefined : new Date(query.since),
  until: query.until === undefined ? undefined : new Date(query.until),
})

function refuseContradictions({ before, after, follow }: RuntimeLogQuery): void {
  if (before === undefined || (after === undefined && follow !== 'true')) return
  const message = 'Ask either for lines before a position, or for lines after one.'
  throw new AppError('invalid_parameter', message)
}

export function runtimeLogRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/environments/:id/log_lines',
    {
      config: {
        needs: 'read',
        errors: [
          'agent_outdated',
          'invalid_cursor',
          'request_log_unavailable',
          'server_offline',
          'server_timeout',
          'transfers_busy',
        ],
      },
      schema: {
        summary: 'Lines of the services or of the request log of an environment, by pages and live',
        params: IdParams,
        querystring: RuntimeLogQuery,
        response: { 200: { content: { 'application/x-ndjson': { schema: RuntimeLogRecord } } } },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const { id } = request.params
      const { query } = request
      refuseContradictions(query)
      const { before, after, limit = RUNTIME_LOGS.defaultLines } = query
      const follow = query.follow === 'true'
      const selection = toSelection(query)
      const signal = admitFollower(reply, caller.userId)
      // before the answer, so that an offline server is a refusal and no empty log
      const asked = { ...(before ? { before } : {}), ...(after === undefined ? {} : { after }) }
      const page = await readLogPage(ctx, caller, id, selection, { ...asked, limit, signal })
      const { log, services } = selection
      const read = { log, services, follow }
      const { organizationId } = await recordServiceLogsRead(ctx, caller, id, read)
      reply.header('x-content-type-options', 'nosniff').type('application/x-ndjson')
      const admission = admissionOf(ctx, request)
      const live = follow
        ? followLog(ctx, caller, id, selection, { after: page.newer, signal })
        : undefined
      return sendStream(reply, toLines(page, live, { admission, organizationId }))
    },
  )
}

const toPage = ({ older, newer, isLast, searchedTo }: LogPlace): string =>
  JSON.stringify({ kind: 'page', older, newer, is_last: isLast, searched_to: searchedTo })

const join = (records: readonly RuntimeRecord[]): string =>
  records.map((record) => `${JSON.stringify(record)}\n`).join('')

/** An empty line keeps the connection alive. A refusal breaks the stream off, which differs from its normal end. */
async function* toLines(
  page: LogPlace & { records: RuntimeRecord[] },
  live: ReturnType<typeof followLog> | undefined,
  { admission, organizationId }: { admission: Admission; organizationId: number },
): AsyncGenerator<string> {
  yield `${join(page.records)}${toPage(page)}\n`
  if (!live) return
  for await (const { records, cursor } of live) {
    await admission.require(organizationId, false)
    const place = { older: page.older, newer: cursor, isLast: false, searchedTo: null }
    yield records.length === 0 ? '\n' : `${join(records)}${toPage(place)}\n`
  }
}
