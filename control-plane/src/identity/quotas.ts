// Rate limits of users and programs: the policies and their counters, shared by all gateways, and on PostgreSQL by all
// control planes. A gateway reports the caller and the policy; this file refuses what exceeds a limit.
import { PEOPLE, REST } from '@berth/shared'
import type { Clock } from '../clock.ts'
import type { Config } from '../config.ts'
import { LOG_PAGES } from '../limits/browser.ts'
import { FORGE_CONNECTIONS, REPOSITORY_CHECKS, WEBHOOKS } from '../limits/forges.ts'
import { type Quota, RateLimit, tooMany } from './rate-limit.ts'
import { Exchange, LocalWindows, type SharedWindows, TableWindows } from './windows.ts'

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

/** The windows of other control planes on this database; undefined where one process is alone. */
export interface Sharing {
  windows: SharedWindows
  onFailed: (error: unknown) => void
}

type Settings = Pick<Config, 'rateLimitFactor' | 'enrolmentsPerMinute' | 'downloadsPerMinute'>

export class Quotas {
  readonly #clock: Clock
  readonly #sharing: Sharing | undefined
  readonly #exchange: Exchange | undefined
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
    deviceStarts: RateLimit
    /** For wrong device codes and refresh tokens. */
    wrongGrants: RateLimit
    revocations: RateLimit
    /** For agents that join, renew or leave. */
    joins: RateLimit
    packageDownloads: RateLimit
    /** By address and project. */
    webhookFailures: RateLimit
    /** By user. */
    repositoryChecks: RateLimit
    forgeCalls: RateLimit
    searches: RateLimit
  }

  constructor(config: Settings, clock: Clock, sharing?: Sharing) {
    this.#clock = clock
    this.#sharing = sharing
    this.#exchange = sharing && new Exchange(sharing.windows, () => clock.now(), sharing.onFailed)
    const scaled = (perMinute: number): number => Math.round(perMinute * config.rateLimitFactor)
    this.#default = this.#summed('default', scaled(REST.requestsPerMinute))
    this.#policies = new Map(
      POLICIES.map((name) => [name, this.#exact(name, scaled(REST.strictPerMinute))]),
    )
    this.#badTokens = this.#exact('bad_tokens', REST.badTokensPerMinute)
    const joins = this.#exact('joins', config.enrolmentsPerMinute, 'BERTH_ENROLMENTS_PER_MINUTE')
    const downloads = 'BERTH_DOWNLOADS_PER_MINUTE'
    this.narrow = {
      setUps: this.#exact('set_ups', REST.setupPerMinute),
      invitations: this.#exact('invitations', REST.setupPerMinute),
      signIns: this.#exact('sign_ins', PEOPLE.wrongSignInsPerMinute),
      links: this.#exact('links', PEOPLE.wrongSignInsPerMinute),
      ceremonies: this.#exact('ceremonies', PEOPLE.ceremoniesPerMinute),
      deviceStarts: this.#exact('device_starts', PEOPLE.deviceStartsPerMinute),
      wrongGrants: this.#exact('wrong_grants', REST.badTokensPerMinute),
      revocations: this.#exact('revocations', REST.badTokensPerMinute),
      joins,
      packageDownloads: this.#exact('downloads', config.downloadsPerMinute, downloads),
      webhookFailures: this.#summed('webhook_failures', WEBHOOKS.failuresPerMinute),
      repositoryChecks: this.#exact('repository_checks', REPOSITORY_CHECKS.perMinute),
      forgeCalls: this.#exact('forge_calls', FORGE_CONNECTIONS.callsPerMinute),
      searches: this.#exact('searches', LOG_PAGES.searchesPerMinute),
    }
  }

  /** One statement for each request: for what is guessed, or costs much. */
  #exact(name: string, perMinute: number, setting?: string): RateLimit {
    const now = (): number => this.#clock.now()
    const windows = this.#sharing
      ? new TableWindows(name, perMinute, this.#sharing.windows, now)
      : new LocalWindows(now)
    return new RateLimit(perMinute, windows, setting)
  }

  /** No statement for a request: several control planes together may let a little more pass. */
  #summed(name: string, perMinute: number): RateLimit {
    const windows =
      this.#exchange?.open(name, perMinute) ?? new LocalWindows(() => this.#clock.now())
    return new RateLimit(perMinute, windows)
  }

  /** Counts a request without a valid token by address, the only identity of its caller. */
  async countBadToken(address: string): Promise<Counted[]> {
    return [await count('bad_tokens', address, this.#badTokens)]
  }

  /** Counts a request of an authenticated caller. */
  async countRequest({ tokenId, userId }: Asker): Promise<Counted[]> {
    const holder = tokenId === null ? `user ${userId}` : `token ${tokenId}`
    return [await count('default', holder, this.#default)]
  }

  /** Counts a use of a policy. */
  async countUse(policy: Policy, userId: number): Promise<Counted[]> {
    const limit = this.#policies.get(policy)
    return limit ? [await count(policy, `user ${userId}`, limit)] : []
  }

  /** Exchanges sums now, as the timer does. */
  async exchange(): Promise<void> {
    await this.#exchange?.exchange()
  }

  async close(): Promise<void> {
    await this.#exchange?.close()
  }
}

const count = async (name: string, key: string, limit: RateLimit): Promise<Counted> => ({
  name,
  key,
  limit,
  ...(await limit.count(key)),
})

/** Throws 429 with the longest wait if any of them is used up. */
export function requireQuota(counted: readonly Counted[]): void {
  const over = counted.filter((c) => !c.allowed)
  if (over.length > 0) throw tooMany(Math.max(...over.map((c) => c.seconds)))
}
