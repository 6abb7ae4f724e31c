// Repeated requests: the same key and the same request within 24 hours have one effect and one reply. A control plane
// killed in the middle leaves a row that counts as running for some minutes; then the key is free again.
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

/** This request's turn; handed back with its reply. */
export interface Turn {
  id: number
  startedAt: number
}

/** Its turn, or what is known of the first with its key. */
export type Begun = { turn: Turn } | { known: RepeatedRequest }

export type KeptReply = RepeatedRequest & { status: number; body: string }

/** The first with its key runs; for others it is looked up what became of it. */
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
    if (!known) throw inFlight() // its first ended without a reply this very moment
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

/** The reply, or why there is none. Whoever calls this has asked whether the caller may still see it. */
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

/** Undefined: the answer is not one to remember; the key is free again. */
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
