// The output of an environment's services, read on its server on request and passed on without storing it. A caller who
// may read the environment may read it. The stream ends with its reader; an offline, silent or busy server is a
// refusal, and a broken stream is an error, never an end.
import { LOG_SENDING, SERVICE_LOGS } from '@berth/shared'
import { type ContainerLogBatch, LogSource, OpenContainerLogsSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { loadEnvironment } from '../core/access.ts'
import { auditCaller, type Subject } from '../core/audit.ts'
import { change } from '../core/transaction.ts'
import { receiveLogFrames } from './agent-logs.ts'

/** One line, or the days of the range that are no longer stored. */
export type ServiceLogRecord =
  | { t: string; s: 'out' | 'err'; service: string; task: number; text: string }
  | { kind: 'gone'; service: string; days: string }

interface WatchRequest {
  /** Undefined or empty means all of them. */
  services?: string[] | undefined
  /** Last lines of each service; undefined means as many as a page shows, null all of the time span. */
  tail?: number | null | undefined
  since?: Date | undefined
  until?: Date | undefined
  /** False returns the present lines, then ends. */
  follow?: boolean | undefined
  signal: AbortSignal
}

/** Yields records in order of time as they arrive; none from time to time, which shows that the stream lives. */
export async function* watchServiceLogs(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  request: WatchRequest,
): AsyncGenerator<ServiceLogRecord[], void, undefined> {
  const { serverId } = await loadEnvironment(ctx.db, caller, environmentId, 'read')
  const { signal, follow = true, tail = LOG_SENDING.lines, services = [], since, until } = request
  const toBody = (transferId: string) => ({
    case: 'openContainerLogs' as const,
    value: create(OpenContainerLogsSchema, {
      transferId,
      environmentId,
      services,
      follow,
      tail: tail === null ? 0 : Math.min(Math.max(tail, 1), SERVICE_LOGS.tailLines),
      ...(since ? { since: timestampFromDate(since) } : {}),
      ...(until ? { until: timestampFromDate(until) } : {}),
    }),
  })
  for await (const frame of receiveLogFrames(ctx, serverId, toBody, signal)) {
    if (frame.case === 'batch') yield toRecords(frame.value)
  }
}

/** The same record that a session by SSH leaves: who read what. */
export async function recordServiceLogsRead(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  asked: { services: readonly string[]; follow: boolean; log?: string },
): Promise<{ organizationId: number }> {
  return change(ctx, async (c) => {
    const { organizationId } = await loadEnvironment(c.db, caller, environmentId, 'read')
    const subject: Subject = ['environment', environmentId]
    await auditCaller(c, caller, organizationId, 'service_logs.read', subject, { ...asked })
    return { organizationId }
  })
}

export const toRecords = ({ lines, gone }: ContainerLogBatch): ServiceLogRecord[] => [
  ...gone.map(({ service, days }) => ({ kind: 'gone' as const, service, days })),
  ...lines.map(({ timeUs, service, source, data, taskId }) => ({
    t: toTime(timeUs),
    s: source === LogSource.STDERR ? ('err' as const) : ('out' as const),
    service,
    task: taskId,
    text: Buffer.from(data).toString('utf8'),
  })),
]

export function toTime(us: bigint): string {
  const ms = new Date(Number(us / 1_000n)).toISOString()
  return ms.replace('Z', `${String(us % 1_000n).padStart(3, '0')}Z`)
}
