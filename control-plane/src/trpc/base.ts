// What every procedure stands on: who calls, the shape of errors, and the two transports. Queries and changes go over
// HTTP, subscriptions over the socket; each is refused on the other, where nothing bounds it.
import { AppError, LIVE } from '@berth/shared'
import { initTRPC } from '@trpc/server'
import { type Policy, requireQuota } from '../app/quotas.ts'
import type { Context } from '../context.ts'
import type { Admission } from '../live/admission.ts'
import { presentError } from './errors.ts'

export interface CallContext {
  ctx: Context
  admission: Admission
  requestId: string
  /** Undefined: HTTP. */
  socket: SocketContext | undefined
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
}

const t = initTRPC
  .context<CallContext>()
  .meta<CallMeta>()
  .create({
    isDev: false, // no stack ever leaves
    errorFormatter({ error, shape, ctx }) {
      return { ...shape, ...presentError(error, ctx?.requestId ?? null) }
    },
  })

export const { router } = t

/** A query or a change. */
export const call = t.procedure.use(({ ctx, next, type, meta }) => {
  if (ctx.socket || type === 'subscription') {
    throw new AppError(
      'invalid_parameter',
      'Queries and changes go over HTTP, not over the socket.',
    )
  }
  const { caller } = ctx.admission
  if (meta?.policy) requireQuota(ctx.ctx.quotas.countUse(meta.policy, caller.userId))
  return next({ ctx: { ctx: ctx.ctx, caller } })
})

/** A subscription. */
export const watch = t.procedure.use(({ ctx, next }) => {
  const { socket } = ctx
  if (!socket) {
    throw new AppError('invalid_parameter', 'Subscriptions go over the socket, not over HTTP.')
  }
  if (socket.subscriptions >= LIVE.subscriptionsPerSocket) {
    const message = `This page watches ${socket.subscriptions} things already; close some.`
    throw new AppError('rate_limited', message)
  }
  return next({ ctx: { ctx: ctx.ctx, admission: ctx.admission, socket } })
})
