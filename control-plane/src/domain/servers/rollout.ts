// Which servers of a rollout are offered the new agent now. PURE. One server tries it first, then a tenth of them, then
// all; the first failure stops the rollout. A server that is away is passed over until it returns.

export type UpdateState = 'waiting' | 'offered' | 'kept' | 'failed' | 'skipped'

export interface RolloutServer {
  id: string
  name: string
  state: UpdateState
  reason: string
  offeredAt: number | null
  isOnline: boolean
  /** It runs the new version already, updated by hand. */
  isCurrent: boolean
}

export interface RolloutDecision {
  offer: string[]
  /** Updated by hand meanwhile. */
  keep: string[]
  fail: { id: string; reason: string }[]
  end: { state: 'done' | 'failed'; reason: string } | undefined
}

export const ROLLOUT = {
  /** From the offer to the agent's verdict: a slow download, two minutes to connect, one to stay up. */
  answerMs: 10 * 60_000,
  /** Downloads at once. */
  atOnce: 20,
} as const

/** How many servers may have tried it before the next wave begins: 1, a tenth more, all. */
export function waveSizes(servers: number): [number, number, number] {
  const second = Math.min(servers, 1 + Math.ceil(servers / 10))
  return [Math.min(1, servers), second, servers]
}

/** 1, 2 or 3; for people. */
export function waveOf(servers: number, kept: number): number {
  return waveSizes(servers).findIndex((size) => kept < size) + 1 || 3
}

export function decideRollout(servers: readonly RolloutServer[], now: number): RolloutDecision {
  const isLate = (s: RolloutServer): boolean =>
    s.state === 'offered' && now - (s.offeredAt ?? now) > ROLLOUT.answerMs
  const fail = servers
    .filter(isLate)
    .map(({ id }) => ({ id, reason: 'The server reported no result within 10 minutes.' }))
  const keep = servers.filter((s) => s.state === 'waiting' && s.isCurrent).map(({ id }) => id)
  const failed = servers.find((s) => s.state === 'failed' || isLate(s))
  if (failed) {
    const reason = isLate(failed) ? (fail[0]?.reason ?? '') : failed.reason
    return { offer: [], keep, fail, end: { state: 'failed', reason: `${failed.name}: ${reason}` } }
  }
  const taking = servers.filter((s) => s.state !== 'skipped')
  const kept = taking.filter((s) => s.state === 'kept').length + keep.length
  if (kept === taking.length) {
    return { offer: [], keep, fail, end: { state: 'done', reason: '' } }
  }
  const offered = taking.filter((s) => s.state === 'offered').length
  const size = waveSizes(taking.length).find((most) => kept < most) ?? taking.length
  const room = Math.max(0, Math.min(size - kept, ROLLOUT.atOnce) - offered)
  const offer = taking
    .filter((s) => s.state === 'waiting' && !s.isCurrent && s.isOnline)
    .slice(0, room)
    .map(({ id }) => id)
  return { offer, keep, fail, end: undefined }
}
