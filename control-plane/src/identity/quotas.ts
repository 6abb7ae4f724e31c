// Rate limits of users and programs: the policies and their counters, shared by all gateways of the process. A gateway
// reports the caller and the policy; this file refuses what exceeds a limit.
import { PEOPLE, REST } from '@berth/shared'
import type { Clock } from '../clock.ts'
import type { Config } from '../config.ts'
import { LOG_PAGES } from '../limits/browser.ts'
import { FORGE_CONNECTIONS, REPOSITORY_CHECKS } from '../limits/forges.ts'
import { type Quota, RateLimit, tooMany } from './rate-limit.ts'

/** Stricter than the default, and per user, so that more tokens do not help. */
const POLICIES = ['deploy', 'certificates', 'variables'] as const
export type Policy = (typeof POLICIES)[number]

/** One request in one policy's window. */
export interface Counted extends Quota {
  name: string
  key: string
  limit: RateLimit
}

export interface Asker {
  /** Null for a browser. */
  tokenId: number | null
  userId: number
}

export class Quotas {
  readonly #default: RateLimit
  readonly #policies: ReadonlyMap<Policy, RateLimit>
  readonly #badTokens: RateLimit
  /** Limits of their own, by address unless noted; the configured factor does not widen them. */
  readonly narrow: {
    setUps: RateLimit
    invitations: RateLimit
    /** For wrong passwords: a correct one is given back. */
    signIns: RateLimit
    /** For mailed links, requested and used. */
    links: RateLimit
    /** For sign-ins with a passkey or the provider. */
    ceremonies: RateLimit
    /** By user. */
    repositoryChecks: RateLimit
    forgeCalls: RateLimit
    searches: RateLimit
  }

  constructor(config: Pick<Config, 'rateLimitFactor'>, clock: Clock) {
    const now = (): number => clock.now()
    const of = (perMinute: number): RateLimit =>
      new RateLimit(Math.round(perMinute * config.rateLimitFactor), now)
    this.#default = of(REST.requestsPerMinute)
    this.#policies = new Map(POLICIES.map((name) => [name, of(REST.strictPerMinute)]))
    this.#badTokens = new RateLimit(REST.badTokensPerMinute, now)
    this.narrow = {
      setUps: new RateLimit(REST.setupPerMinute, now),
      invitations: new RateLimit(REST.setupPerMinute, now),
      signIns: new RateLimit(PEOPLE.wrongSignInsPerMinute, now),
      links: new RateLimit(PEOPLE.wrongSignInsPerMinute, now),
      ceremonies: new RateLimit(PEOPLE.ceremoniesPerMinute, now),
      repositoryChecks: new RateLimit(REPOSITORY_CHECKS.perMinute, now),
      forgeCalls: new RateLimit(FORGE_CONNECTIONS.callsPerMinute, now),
      searches: new RateLimit(LOG_PAGES.searchesPerMinute, now),
    }
  }

  /** Counts a request without a valid token by address, the only identity of its caller. */
  countBadToken(address: string): Counted[] {
    return [count('bad_tokens', address, this.#badTokens)]
  }

  /** Counts a request of an authenticated caller. */
  countRequest({ tokenId, userId }: Asker): Counted[] {
    const holder = tokenId === null ? `user ${userId}` : `token ${tokenId}`
    return [count('default', holder, this.#default)]
  }

  /** Counts a use of a policy. */
  countUse(policy: Policy, userId: number): Counted[] {
    const limit = this.#policies.get(policy)
    return limit ? [count(policy, `user ${userId}`, limit)] : []
  }
}

const count = (name: string, key: string, limit: RateLimit): Counted => ({
  name,
  key,
  limit,
  ...limit.count(key),
})

/** Throws 429 with the longest wait if any of them is used up. */
export function requireQuota(counted: readonly Counted[]): void {
  const over = counted.filter((c) => !c.allowed)
  if (over.length > 0) throw tooMany(Math.max(...over.map((c) => c.seconds)))
}
