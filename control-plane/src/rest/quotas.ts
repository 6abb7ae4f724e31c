// The rate limits of authenticated routes and their headers: everything counts against the token, what starts work or
// hands out something of value also against the person. An answer that did not change is free.
import { REST } from '@berth/shared'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Context } from '../context.ts'
import { type Quota, RateLimit, tooMany } from './rate-limit.ts'

interface Counted extends Quota {
  name: string
  key: string
  limit: RateLimit
}

declare module 'fastify' {
  interface FastifyRequest {
    counted: Counted[] | null
  }
}

const STRICT = ['deploy', 'certificates', 'variables'] as const

export class Quotas {
  readonly #default: RateLimit
  readonly #strict: Map<string, RateLimit>
  readonly #badTokens: RateLimit

  constructor(ctx: Context) {
    const now = (): number => ctx.clock.now()
    const of = (perMinute: number): RateLimit =>
      new RateLimit(Math.round(perMinute * ctx.config.rateLimitFactor), now)
    this.#default = of(REST.requestsPerMinute)
    this.#strict = new Map(STRICT.map((name) => [name, of(REST.strictPerMinute)]))
    this.#badTokens = new RateLimit(REST.badTokensPerMinute, now)
  }

  /** A request without a good token: by address, since nothing else tells callers apart. */
  countBadToken(request: FastifyRequest): void {
    this.#count(request, [['bad_tokens', request.ip, this.#badTokens]])
  }

  /** A request with one. */
  count(request: FastifyRequest, by: { tokenId: number | null; userId: number }): void {
    const holder = by.tokenId === null ? `user ${by.userId}` : `token ${by.tokenId}`
    const list: [string, string, RateLimit][] = [['default', holder, this.#default]]
    const policy = request.routeOptions.config.policy
    const strict = policy && this.#strict.get(policy)
    if (strict) list.push([policy, `user ${by.userId}`, strict])
    this.#count(request, list)
  }

  #count(request: FastifyRequest, list: [string, string, RateLimit][]): void {
    request.counted = list.map(([name, key, limit]) => ({
      name,
      key,
      limit,
      ...limit.count(key),
    }))
    const over = request.counted.filter((c) => !c.allowed)
    if (over.length > 0) throw tooMany(Math.max(...over.map((c) => c.seconds)))
  }

  /** Last of all: the status is known, and 304 costs nothing. */
  present(request: FastifyRequest, reply: FastifyReply): void {
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
}
