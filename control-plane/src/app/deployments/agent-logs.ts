// Frames of logs that an agent sends on request. The stream ends with its reader; an offline, silent or busy server is a
// refusal, and a broken stream is an error, never an end.
import { AppError, DAEMON, TRANSFERS } from '@berth/shared'
import { type ContainerLogFrame, type Request, RequestErrorCode } from '@berth/shared/wire'
import { callAgent, findLiveAgent } from '../../agents/agent-rpc.ts'
import { expectTransfer } from '../../agents/transfers.ts'
import { BrokenTransfer } from '../../agents/uploads.ts'
import type { Context } from '../../context.ts'

export async function* receiveLogFrames(
  ctx: Context,
  serverId: number,
  toBody: (transferId: string) => Request['body'],
  signal: AbortSignal,
): AsyncGenerator<ContainerLogFrame['frame'], void, undefined> {
  const agentId = await findLiveAgent(ctx, serverId)
  const times = { firstFrameMs: TRANSFERS.firstFrameMs, idleMs: TRANSFERS.idleMs }
  const transfer = expectTransfer(ctx, agentId, 'container_logs', { ...times, signal })
  try {
    const body = toBody(transfer.transferId)
    const answer = await callAgent(ctx, serverId, body, { deadlineMs: DAEMON.requestMs, signal })
    if (answer.case === 'error') throw explain(answer.value)
    for await (const { frame } of transfer.frames) {
      if (frame.case === 'error') throw explain(frame.value)
      yield frame
    }
  } catch (error) {
    if (!(error instanceof BrokenTransfer)) throw error
    throw new AppError('server_offline', 'The connection to the server broke. Try again.')
  } finally {
    transfer.cancel()
  }
}

function explain({ code, message }: { code: RequestErrorCode; message: string }): Error {
  switch (code) {
    case RequestErrorCode.UNSUPPORTED:
      return new AppError(
        'agent_outdated',
        'This server’s agent is too old for it. Update the agent.',
      )
    case RequestErrorCode.NO_PROXY:
      return new AppError(
        'request_log_unavailable',
        'This server has no proxy, so it logs no requests.',
      )
    case RequestErrorCode.LOG_OFF:
      return new AppError(
        'request_log_unavailable',
        'The request log is off on this server (BERTH_PROXY_ACCESS_LOG=off).',
      )
    case RequestErrorCode.NOT_FOUND:
      return new AppError('invalid_cursor', 'The cursor is not one of this log.')
    default:
      return new Error(`logs: ${message}`)
  }
}
