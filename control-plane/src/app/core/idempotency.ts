// Idempotency keys: the same key and request within 24 hours have one effect and one reply. If the control plane is
// killed during a request, its row counts as running for some minutes; then the key is free again.
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
} from '../../store/core/idempotency.ts'
import { change } from './transaction.ts'

/** The right to run this request; the caller returns it with the reply. */
export interface Turn {
  id: number
  startedAt: number
}

/** The turn of this request, or the row of the first request with its key. */
type Begun = { turn: Turn } | { known: RepeatedRequest }

type KeptReply = RepeatedRequest & { status: number; body: string }

/** The first request with a key runs; later ones get the row of the first. */
export async function beginRequest(
  ctx: Context,
  name: RequestName,
  fingerprint: string,
): Promise<Begun> {
  return change(ctx, async ({ db, now }) => {
    const fresh = { fingerprint, startedAt: now }
    const made = await insertRequest(db, { ...name, ...fresh })
    if (made !== undefined) return { turn: { id: made, startedAt: now } }
    const known = await findRequest(db, name)
    if (!known) throw inFlight() // the first request ended without a reply just now
    const age = now - known.startedAt
    const bound = known.status === null ? REST.idempotencyInFlightMs : REST.idempotencyMs
    if (age >= bound) {
      if (!(await restartRequest(db, known, fresh))) throw inFlight()
      return { turn: { id: known.id, startedAt: now } }
    }
    return { known }
  })
}

const inFlight = (): AppError =>
  new AppError(
    'idempotency_in_flight',
    'The first request with this Idempotency-Key is still running. Repeat it in a moment.',
  )

/** Returns the reply or throws the reason. The calling code must have checked that the caller may still see it. */
export function replyOf(known: RepeatedRequest, fingerprint: string): KeptReply {
  if (known.fingerprint !== fingerprint) {
    throw new AppError(
      'idempotency_key_reused',
      'This Idempotency-Key was used for another request. Take a new key for a new request.',
    )
  }
  const { status, body } = known
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

/** Undefined means that the reply is not stored, so the key is free again. */
export async function finishRequest(
  ctx: Context,
  turn: Turn,
  reply: Reply | undefined,
): Promise<void> {
  await change(ctx, ({ db }) =>
    reply
      ? updateReply(db, turn.id, turn.startedAt, reply)
      : deleteRequest(db, turn.id, turn.startedAt),
  )
}

export const forgetOldRequests = (ctx: Context): Promise<void> =>
  change(ctx, ({ db, now }) => deleteOldRequests(db, now - REST.idempotencyMs))
