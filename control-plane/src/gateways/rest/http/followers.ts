// Answers that last: bounds how many a user has open, ends them with their reader, and checks access again while they
// run.
import { Readable } from 'node:stream'
import { AppError, REST } from '@berth/shared'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { authenticate } from '../../../app/people/callers.ts'
import type { Context } from '../../../context.ts'
import { Admission, askOrganization } from '../../../notifications/admission.ts'

const followers = new WeakMap<object, Map<number, number>>()

/** Of one control plane; tests run several in one process. */
function followersOf({ server }: FastifyReply): Map<number, number> {
  const open = followers.get(server.server) ?? new Map<number, number>()
  followers.set(server.server, open)
  return open
}

/**
 * Limits open streams per user; the next one is refused with `rate_limited`. The signal is aborted when the reader
 * leaves, also if it left before the stream began.
 */
export function admitFollower(reply: FastifyReply, userId: number): AbortSignal {
  const open = followersOf(reply)
  const count = open.get(userId) ?? 0
  if (count >= REST.followStreams) {
    throw new AppError('rate_limited', `You follow ${count} logs already; close one.`)
  }
  open.set(userId, count + 1)
  const gone = new AbortController()
  const leave = (): void => {
    gone.abort()
    const left = (open.get(userId) ?? 1) - 1
    if (left > 0) open.set(userId, left)
    else open.delete(userId)
  }
  const { raw } = reply
  if (raw.destroyed || raw.closed) leave()
  else raw.once('close', leave)
  return gone.signal
}

/** A stream outlives its authentication, so access is checked again while it runs, as for subscriptions. */
export function admissionOf(ctx: Context, request: FastifyRequest): Admission {
  if (!request.who) throw new AppError('token_missing', 'A bearer token is needed.')
  const { authorization, 'x-service-organization': organization } = request.headers
  const from = { address: request.ip, requestId: request.id }
  const again = async () =>
    askOrganization(await authenticate(ctx, authorization, from), organization)
  return new Admission(ctx, request.who, again, () => {})
}

/** The declared types are those of the text; a stream of it is sent unserialised. */
export const sendStream = (
  reply: FastifyReply,
  text: AsyncIterable<Buffer | string>,
): FastifyReply => reply.send(Readable.from(text))
