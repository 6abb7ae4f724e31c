// Applies rate limits to REST: which policies a request counts for, and the headers that say what is left (RateLimit,
// RateLimit-Policy). An unchanged answer is free.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Context } from '../../../context.ts'
import { type Asker, type Counted, requireQuota } from '../../../identity/quotas.ts'

declare module 'fastify' {
  interface FastifyRequest {
    counted: Counted[] | null
  }
}

export function countBadToken(ctx: Context, request: FastifyRequest): void {
  request.counted = ctx.quotas.countBadToken(request.ip)
  requireQuota(request.counted)
}

/** Counts a request with a valid token. */
export function countRequest(ctx: Context, request: FastifyRequest, by: Asker): void {
  const { policy } = request.routeOptions.config
  request.counted = [
    ...ctx.quotas.countRequest(by),
    ...(policy ? ctx.quotas.countUse(policy, by.userId) : []),
  ]
  requireQuota(request.counted)
}

/** Runs last, when the status is known: 304 costs nothing. */
export function serializeQuotas(request: FastifyRequest, reply: FastifyReply): void {
  if (!request.counted) return
  if (reply.statusCode === 304) {
    for (const c of request.counted) {
      c.limit.giveBack(c.key)
      c.left = Math.min(c.left + 1, c.limit.perMinute)
    }
  }
  const list = request.counted
  const policies = list.map((c) => `"${c.name}";q=${c.limit.perMinute};w=60`)
  reply.header('ratelimit-policy', policies.join(', '))
  reply.header('ratelimit', list.map((c) => `"${c.name}";r=${c.left};t=${c.seconds}`).join(', '))
}
