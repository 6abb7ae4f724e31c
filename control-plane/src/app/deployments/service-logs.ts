// The output of an environment's services, read on its server on request and passed on without storing it. A caller who
// may read the environment may read it. The stream ends with its reader; an offline, silent or busy server is a
// refusal, and a broken stream is an error, never an end.
import { AppError, DAEMON, LOG_SENDING, SERVICE_LOGS, TRANSFERS } from '@berth/shared'
import {
  type ContainerLogBatch,
  LogSource,
  OpenContainerLogsSchema,
  RequestErrorCode,
} from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { callAgent, findLiveAgent } from '../../agents/agent-rpc.ts'
import { BrokenTransfer, expectTransfer } from '../../agents/transfers.ts'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { loadEnvironment } from '../core/access.ts'
import { auditCaller, type Subject } from '../core/audit.ts'
import { change } from '../core/transaction.ts'

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
  const agentId = await findLiveAgent(ctx, serverId)
  const times = { firstFrameMs: TRANSFERS.firstFrameMs, idleMs: TRANSFERS.idleMs }
  const transfer = expectTransfer(ctx, agentId, 'container_logs', { ...times, signal })
  try {
    const value = create(OpenContainerLogsSchema, {
      transferId: transfer.transferId,
      environmentId,
      services,
      follow,
      tail: tail === null ? 0 : Math.min(Math.max(tail, 1), SERVICE_LOGS.tailLines),
      ...(since ? { since: timestampFromDate(since) } : {}),
      ...(until ? { until: timestampFromDate(until) } : {}),
    })
    const body = { case: 'openContainerLogs', value } as const
    const answer = await callAgent(ctx, serverId, body, { deadlineMs: DAEMON.requestMs, signal })
    if (answer.case === 'error') throw explain(answer.value)
    for await (const { frame } of transfer.frames) {
      if (frame.case === 'error') throw explain(frame.value)
      if (frame.case === 'batch') yield toRecords(frame.value)
    }
  } catch (error) {
    if (!(error instanceof BrokenTransfer)) throw error
    throw new AppError('server_offline', 'The connection to the server broke. Try again.')
  } finally {
    transfer.cancel()
  }
}

/** The same record that a session by SSH leaves: who read what. */
export async function recordServiceLogsRead(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  asked: { services: readonly string[]; follow: boolean },
): Promise<{ organizationId: number }> {
  return change(ctx, async (c) => {
    const { organizationId } = await loadEnvironment(c.db, caller, environmentId, 'read')
    const subject: Subject = ['environment', environmentId]
    await auditCaller(c, caller, organizationId, 'service_logs.read', subject, { ...asked })
    return { organizationId }
  })
}

function explain({ code, message }: { code: RequestErrorCode; message: string }): Error {
  if (code !== RequestErrorCode.UNSUPPORTED) return new Error(`logs of services: ${message}`)
  return new AppError(
    'unavailable',
    'The agent of this server cannot send logs of services. Update the agent.',
  )
}

const toRecords = ({ lines, gone }: ContainerLogBatch): ServiceLogRecord[] => [
  ...gone.map(({ service, days }) => ({ kind: 'gone' as const, service, days })),
  ...lines.map(({ timeUs, service, source, data, taskId }) => ({
    t: toTime(timeUs),
    s: source === LogSource.STDERR ? ('err' as const) : ('out' as const),
    service,
    task: taskId,
    text: Buffer.from(data).toString('utf8'),
  })),
]

function toTime(us: bigint): string {
  const ms = new Date(Number(us / 1_000n)).toISOString()
  return ms.replace('Z', `${String(us % 1_000n).padStart(3, '0')}Z`)
}
