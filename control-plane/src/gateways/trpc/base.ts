// What every procedure stands on: who calls, the shape of errors, and the two transports. Queries and changes go over
// HTTP, subscriptions over the socket; each is refused on the other, where nothing bounds it.
import { AppError, LIVE } from '@berth/shared'
import { initTRPC } from '@trpc/server'
import type { Context } from '../../context.ts'
import { type Policy, requireQuota } from '../../identity/quotas.ts'
import type { Admission } from '../../notifications/admission.ts'
import { serializeError } from './errors.ts'

export interface CallContext {
  ctx: Context
  /** Undefined: nobody was asked who they are, because every procedure of the request is open; or `refusal` says why not. */
  admission: Admission | undefined
  refusal?: AppError
  requestId: string
  /** Undefined: a socket. */
  visitor: Visitor | undefined
  /** Undefined: HTTP. */
  socket: SocketContext | undefined
}

/** The browser behind a request, for those procedures that deal in cookies. */
export interface Visitor {
  address: string
  requestId: string
  cookie: string | undefined
  userAgent: string | undefined
  setCookies(cookies: readonly string[]): void
}

export interface SocketContext {
  /** Waits until the reader can take more. */
  room(signal: AbortSignal): Promise<void>
  /** Ends the connection; its reader comes back and resumes. */
  cut(): void
  subscriptions: number
}

interface CallMeta {
  /** A stricter rate limit than the default one; the same as REST's. */
  policy?: Policy
  /** For everybody: nobody is asked who they are. */
  isOpen?: boolean
}

const t = initTRPC
  .context<CallContext>()
  .meta<CallMeta>()
  .create({
    isDev: false, // no stack ever leaves
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

/** A query or a change of somebody known. */
export const call = overHttp.use(({ ctx, next, meta }) => {
  const { admission } = ctx
  if (!admission) throw ctx.refusal ?? new AppError('token_missing', 'Sign in first.')
  const { caller } = admission
  if (meta?.policy) requireQuota(ctx.ctx.quotas.countUse(meta.policy, caller.userId))
  return next({ ctx: { ctx: ctx.ctx, caller, admission } })
})

/** The same for people in a browser alone: a token neither signs in nor decides about other logins. */
export const browserCall = call.use(({ ctx, next }) => {
  if (ctx.caller.origin.tokenId !== null) throw new AppError('token_missing', 'Sign in first.')
  return next()
})

/** Before anybody signed in. Each of these counts by address. */
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
