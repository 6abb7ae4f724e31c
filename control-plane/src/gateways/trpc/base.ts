// The base of every procedure: its caller, the shape of errors, and the two transports. Queries and mutations go over
// HTTP, subscriptions over the socket; each is refused on the other transport, which has no limits for it.
import { AppError } from '@berth/shared'
import { initTRPC } from '@trpc/server'
import type { Context } from '../../context.ts'
import { type Policy, requireQuota } from '../../identity/quotas.ts'
import { LIVE } from '../../limits/browser.ts'
import type { Admission } from '../../notifications/admission.ts'
import { serializeError } from './errors.ts'

export interface CallContext {
  ctx: Context
  /**
   * Undefined if every procedure of the request is open, or if authentication failed; then `refusal` has the reason.
   */
  admission: Admission | undefined
  refusal?: AppError
  requestId: string
  /** Undefined on a socket. */
  visitor: Visitor | undefined
  /** Undefined over HTTP. */
  socket: SocketContext | undefined
}

/** The browser behind a request, for procedures that handle cookies. */
export interface Visitor {
  address: string
  requestId: string
  cookie: string | undefined
  userAgent: string | undefined
  setCookies(cookies: readonly string[]): void
}

export interface SocketContext {
  /** Waits until the reader can take more. */
  drained(signal: AbortSignal): Promise<void>
  /** Ends the connection; its client reconnects and resumes. */
  cut(): void
  subscriptions: number
}

interface CallMeta {
  /** A stricter rate limit than the default; the same as REST's. */
  policy?: Policy
  /** Open to all: the caller is not authenticated. */
  isOpen?: boolean
}

const t = initTRPC
  .context<CallContext>()
  .meta<CallMeta>()
  .create({
    isDev: false, // stack traces are never sent
    errorFormatter({ error, shape, ctx }) {
      return { ...shape, ...serializeError(error, ctx?.requestId ?? null) }
    },
  })

export const { router } = t

const overHttp = t.procedure.use(({ ctx, next, type }) => {
  const { visitor } = ctx
  if (!visitor || ctx.socket || type === 'subscription') {
    throw new AppError(
      'invalid_parameter',
      'Queries and changes go over HTTP, not over the socket.',
    )
  }
  return next({ ctx: { visitor } })
})

/** A query or mutation of an authenticated caller. */
export const call = overHttp.use(async ({ ctx, next, meta }) => {
  const { admission } = ctx
  if (!admission) throw ctx.refusal ?? new AppError('token_missing', 'Sign in first.')
  const { caller } = admission
  if (meta?.policy) requireQuota(await ctx.ctx.quotas.countUse(meta.policy, caller.userId))
  return next({ ctx: { ctx: ctx.ctx, caller, admission } })
})

/** For browsers only: a token can neither sign in nor decide about other logins. */
export const browserCall = call.use(({ ctx, next }) => {
  if (ctx.caller.origin.tokenId !== null) throw new AppError('token_missing', 'Sign in first.')
  return next()
})

/** Works without sign-in. Each of these counts by address. */
export const openCall = overHttp.meta({ isOpen: true })

/** A subscription. */
export const watch = t.procedure.use(({ ctx, next }) => {
  const { socket, admission } = ctx
  if (!socket || !admission) {
    throw new AppError('invalid_parameter', 'Subscriptions go over the socket, not over HTTP.')
  }
  if (socket.subscriptions >= LIVE.subscriptionsPerSocket) {
    const message = `This page watches ${socket.subscriptions} things already; close some.`
    throw new AppError('rate_limited', message)
  }
  return next({ ctx: { ctx: ctx.ctx, admission, socket } })
})
