// What answers without an end share: a bound of open ones, access that is checked again, and the reader's departure.
import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { AppError, REST } from '@berth/shared'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { authenticate } from '../../../app/people/callers.ts'
import type { Context } from '../../../context.ts'
import { LIVE } from '../../../limits/browser.ts'
import { Admission, askOrganization } from '../../../notifications/admission.ts'

/** Limits open streams per user and in all; the next one is refused with `rate_limited`. */
export class OpenStreams {
  readonly #limits: { perUser: number; most: number }
  readonly #what: string
  readonly #open = new Map<number, number>()
  #all = 0

  constructor(limits: { perUser: number; most: number }, what: string) {
    this.#limits = limits
    this.#what = what
  }

  /** Returns the function that gives the place back. */
  admit(userId: number): () => void {
    const own = this.#open.get(userId) ?? 0
    if (own >= this.#limits.perUser) {
      throw new AppError('rate_limited', `You have ${own} open ${this.#what} already; close one.`)
    }
    if (this.#all >= this.#limits.most) {
      throw new AppError('rate_limited', `Too many ${this.#what} are open; try again later.`)
    }
    this.#open.set(userId, own + 1)
    this.#all += 1
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      this.#all -= 1
      const left = (this.#open.get(userId) ?? 1) - 1
      if (left > 0) this.#open.set(userId, left)
      else this.#open.delete(userId)
    }
  }
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

export function onceClosed(response: ServerResponse, then: () => void): void {
  if (response.destroyed || response.closed) then()
  else response.once('close', then)
}

const FOLLOWERS = { perUser: REST.followStreams, most: LIVE.listeners }
/** Of one control plane; tests run several in one process. */
const followers = new WeakMap<object, OpenStreams>()

/** For logs. The signal is aborted when the reader leaves, also if it left before the stream began. */
export function admitFollower(reply: FastifyReply, userId: number): AbortSignal {
  const { server } = reply.server
  const open = followers.get(server) ?? new OpenStreams(FOLLOWERS, 'followed logs')
  followers.set(server, open)
  const release = open.admit(userId)
  const gone = new AbortController()
  onceClosed(reply.raw, () => {
    gone.abort()
    release()
  })
  return gone.signal
}

/** The declared types are those of the text; a stream of it is sent unserialised. */
export const sendStream = (
  reply: FastifyReply,
  text: AsyncIterable<Buffer | string>,
): FastifyReply => reply.send(Readable.from(text))
