// Idempotency keys: the same key and request within 24 hours have one effect and one reply, at any control plane. If one
// is killed during a request, the key is free again unless the request had an effect; then a repetition learns of it.
import { AppError, REST } from '@berth/shared'
import type { Context } from '../../context.ts'
import {
  deleteOldRequests,
  deleteRequest,
  findRequest,
  insertRequest,
  type RepeatedRequest,
  type Reply,
  type RequestName,
  restartRequest,
  updateReply,
  updateStatus,
} from '../../store/core/idempotency.ts'
import { change } from './transaction.ts'
import { inFlight, runOutsideTurns, type Turn } from './turns.ts'

/** The turn of this request, or the row of the first request with its key. */
type Begun = { turn: Turn } | { known: RepeatedRequest }

type KeptReply = RepeatedRequest & { status: number; body: string }

/** The row's request will never be answered: its control plane is gone, or it is too old. */
async function isAbandoned(ctx: Context, known: RepeatedRequest, now: number): Promise<boolean> {
  if (now - known.startedAt >= REST.idempotencyInFlightMs) return true
  if (known.replicaId === null || known.replicaId === ctx.replicaId) return false
  return (await ctx.replicas.find(known.replicaId)) === undefined
}

/** The caller got no reply, or one that did not know the effect: 503, because the database went away in the commit. */
const hasLostReply = ({ status, effectAt }: RepeatedRequest): boolean =>
  effectAt !== null && (status === null || status >= 500)

/** The first request with a key runs; later ones get the row of the first. */
export async function beginRequest(
  ctx: Context,
  name: RequestName,
  fingerprint: string,
  creates: string | undefined,
): Promise<Begun> {
  return change(ctx, async ({ db, now }) => {
    const fresh = { fingerprint, startedAt: now, replicaId: ctx.replicaId }
    const made = await insertRequest(db, { ...name, ...fresh })
    if (made !== undefined) return { turn: { id: made, startedAt: now, creates } }
    const known = await findRequest(db, name)
    if (!known) throw inFlight() // the first request ended without a reply just now
    const isOld = now - known.startedAt >= REST.idempotencyMs
    const isRunning = known.status === null && !isOld
    const isOver = isRunning && (await isAbandoned(ctx, known, now))
    // its reply may still come
    if (isRunning && !isOver) return { known: { ...known, effectAt: null } }
    if (!isOld && (!isOver || hasLostReply(known))) return { known }
    // one at a time: two in the same millisecond are not told apart
    fresh.startedAt = Math.max(now, known.startedAt + 1)
    if (!(await restartRequest(db, known, fresh))) throw inFlight()
    return { turn: { id: known.id, startedAt: fresh.startedAt, creates } }
  })
}

/** Returns the reply or throws the reason. The calling code must have checked that the caller may still see it. */
export function replyOf(known: RepeatedRequest, fingerprint: string): KeptReply {
  if (known.fingerprint !== fingerprint) {
    throw new AppError(
      'idempotency_key_reused',
      'This Idempotency-Key was used for another request. Take a new key for a new request.',
    )
  }
  const { status, body } = known
  if (hasLostReply(known)) {
    throw new AppError(
      'idempotency_not_replayable',
      'The first request with this key had its effect, but its reply was lost.',
      { id: known.madeId, location: null, first_status: status },
    )
  }
  if (status === null) throw inFlight()
  if (body === null) {
    throw new AppError(
      'idempotency_not_replayable',
      `The first request with this key was answered with ${status}; that reply is not kept.`,
      { id: known.madeId, location: known.location, first_status: status },
    )
  }
  return { ...known, status, body }
}

/**
 * Without a reply to keep, the key is free again, unless the request failed after a commit: then a repetition is told
 * of the effect.
 */
export async function finishRequest(
  ctx: Context,
  { id, startedAt }: Turn,
  status: number,
  reply: Reply | undefined,
): Promise<void> {
  await runOutsideTurns(() =>
    change(ctx, async ({ db }) => {
      if (reply) return updateReply(db, id, startedAt, reply)
      await deleteRequest(db, id, startedAt)
      return updateStatus(db, id, startedAt, status)
    }),
  )
}

export const forgetOldRequests = (ctx: Context): Promise<void> =>
  change(ctx, ({ db, now }) => deleteOldRequests(db, now - REST.idempotencyMs))
