// Streams what the services of an environment write while a page shows it. Nothing is stored, so nothing resumes by
// number: after a reconnect the client gets `begun`, which clears the view, and the last lines again.
import { LOG_SENDING } from '@berth/shared'
import { Id } from '@berth/shared/api'
import { z } from 'zod'
import { loadEnvironment } from '../../../app/core/access.ts'
import { type ServiceLogRecord, watchServiceLogs } from '../../../app/deployments/service-logs.ts'
import type { Context } from '../../../context.ts'
import type { Admission } from '../../../notifications/admission.ts'
import { type SocketContext, watch } from '../base.ts'
import { counted } from '../events.ts'

const Asked = z.strictObject({
  environment_id: Id,
  /** Absent: all of them. */
  services: z.array(z.string().min(1).max(64)).max(50).optional(),
  /** Last lines of each. */
  tail: z.int().min(1).max(LOG_SENDING.lines).optional(),
  since: z.iso.datetime({ offset: true }).optional(),
})

type ServiceLogMessage = { kind: 'begun' } | { kind: 'logs'; records: ServiceLogRecord[] }

interface Watcher {
  ctx: Context
  admission: Admission
  socket: SocketContext
}

async function* stream(
  { ctx, admission, socket }: Watcher,
  organizationId: number,
  asked: z.infer<typeof Asked>,
  signal: AbortSignal,
): AsyncGenerator<ServiceLogMessage, void> {
  const { environment_id: id, services, tail, since } = asked
  const from = since === undefined ? undefined : new Date(since)
  const request = { services, tail, since: from, signal }
  yield { kind: 'begun' }
  for await (const records of watchServiceLogs(ctx, admission.caller, id, request)) {
    await admission.require(organizationId, false)
    if (records.length > 0) yield { kind: 'logs', records }
    await socket.drained(signal)
  }
}

export const serviceLogs = watch
  .input(Asked)
  .subscription(async ({ ctx, input, signal = new AbortController().signal }) => {
    await ctx.admission.check()
    const { caller } = ctx.admission
    const { organizationId } = await loadEnvironment(
      ctx.ctx.db,
      caller,
      input.environment_id,
      'read',
    )
    return counted(ctx.socket, stream(ctx, organizationId, input, signal))
  })
