// Numbers that the control plane sends to agents: the heartbeat interval and the pace of logs.
import { LOGS, SESSION } from '@berth/shared'
import { type LogPolicy, LogPolicySchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'

/** The more agents, the longer the interval; jitter spreads them. */
export function heartbeatMs(agents: number, random = Math.random()): number {
  const wanted = (agents / SESSION.heartbeatsPerSecond) * 1_000
  const clamped = Math.min(Math.max(wanted, SESSION.heartbeatMinMs), SESSION.heartbeatMaxMs)
  return Math.round(clamped * (0.9 + 0.2 * random))
}

/**
 * The time that the other replicas need to admit all agents of this one; alone, this control plane after its restart.
 * A few agents come back at once.
 */
export function reconnectSpreadMs(agents: number, replicas = 1): number {
  const perSecond = SESSION.sessionsPerSecond * Math.max(1, replicas - 1)
  const wanted = Math.min(Math.round((agents / perSecond) * 1_000), SESSION.reconnectSpreadMs)
  return wanted > SESSION.backoffMs ? wanted : 0
}

/** When one of so many agents that are sent elsewhere opens its stream there; 0 would say that it decides itself. */
export function elsewhereAfterMs(agents: number, random = Math.random()): number {
  const wanted = (agents / SESSION.sessionsPerSecond) * 1_000
  return Math.max(1, Math.round(random * Math.min(wanted, SESSION.reconnectSpreadMs)))
}

export const logPolicy = (): LogPolicy =>
  create(LogPolicySchema, {
    maxChunkBytes: LOGS.chunkBytes,
    flushInterval: durationFromMs(LOGS.idleFlushMs),
    maxUnackedBytes: BigInt(LOGS.unackedBytes),
    maxUnackedBytesPerAttempt: BigInt(LOGS.unackedBytesPerAttempt),
    maxAttemptBytes: BigInt(LOGS.headBytes),
    tailBytes: BigInt(LOGS.tailBytes),
  })
