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

export async function countBadToken(ctx: Context, request: FastifyRequest): Promise<void> {
  request.counted = await ctx.quotas.countBadToken(request.ip)
  requireQuota(request.counted)
}

/** Counts a request with a valid token. */
export async function countRequest(
  ctx: Context,
  request: FastifyRequest,
  by: Asker,
): Promise<void> {
  const { policy } = request.routeOptions.config
  request.counted = [
    ...(await ctx.quotas.countRequest(by)),
    ...(policy ? await ctx.quotas.countUse(policy, by.userId) : []),
  ]
  requireQuota(request.counted)
}

/** For 304, which costs nothing. */
export async function giveBack(counted: readonly Counted[]): Promise<void> {
  for (const c of counted) {
    await c.limit.giveBack(c.key)
    c.left = Math.min(c.left + 1, c.limit.perMinute)
  }
}

/** Runs last, when the status is known. */
export function serializeQuotas(request: FastifyRequest, reply: FastifyReply): void {
  if (!request.counted) return
  const list = request.counted
  const policies = list.map((c) => `"${c.name}";q=${c.limit.perMinute};w=60`)
  reply.header('ratelimit-policy', policies.join(', '))
  reply.header('ratelimit', list.map((c) => `"${c.name}";r=${c.left};t=${c.seconds}`).join(', '))
}
