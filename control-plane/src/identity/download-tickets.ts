// One-use links for downloads in browsers: a ticket says which user may fetch what, once, for a minute. Only hashes are
// kept, in memory; after a restart the page requests another. Bounded: the oldest is dropped first.
import { randomBytes } from 'node:crypto'
import type { LogLevelFilter, StatusClass } from '@berth/shared'
import type { Clock } from '../clock.ts'
import { DOWNLOADS } from '../limits/browser.ts'
import { hashToken } from './tokens.ts'

export type Download =
  | { kind: 'log'; taskId: number; isShown: boolean }
  | { kind: 'artifact'; artifactId: number }
  | { kind: 'runtime_log'; environmentId: number; selection: RuntimeLogRange }

/** Which lines of the services or of the request log of an environment. */
export interface RuntimeLogRange {
  log: 'services' | 'requests'
  services: string[]
  levels: LogLevelFilter[]
  statuses: StatusClass[]
  search: string
  since: Date | undefined
  until: Date | undefined
}

interface Ticket {
  userId: number
  download: Download
  expiresAt: number
}

export class DownloadTickets {
  readonly #clock: Clock
  /** By hash, oldest first. */
  readonly #tickets = new Map<string, Ticket>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#tickets.size
  }

  /** The caller must have checked that the user may have it now. */
  give(userId: number, download: Download): { ticket: string; expiresAt: number } {
    this.#sweep(userId)
    const ticket = randomBytes(32).toString('base64url')
    const expiresAt = this.#clock.now() + DOWNLOADS.ticketMs
    this.#tickets.set(hashToken(ticket), { userId, download, expiresAt })
    return { ticket, expiresAt }
  }

  /** Undefined if it is unknown, used, expired or another user's; the last case leaves it to its owner. */
  take(ticket: string, userId: number): Download | undefined {
    const key = hashToken(ticket)
    const found = this.#tickets.get(key)
    if (!found || found.userId !== userId) return undefined
    this.#tickets.delete(key)
    return found.expiresAt > this.#clock.now() ? found.download : undefined
  }

  #sweep(userId: number): void {
    const now = this.#clock.now()
    const own: string[] = []
    for (const [key, ticket] of this.#tickets) {
      if (ticket.expiresAt <= now) this.#tickets.delete(key)
      else if (ticket.userId === userId) own.push(key)
    }
    const tooMany = own.slice(0, Math.max(0, own.length - DOWNLOADS.ticketsPerUser + 1))
    for (const key of tooMany) this.#tickets.delete(key)
    const [oldest] = this.#tickets.keys()
    if (this.#tickets.size >= DOWNLOADS.tickets && oldest) this.#tickets.delete(oldest)
  }
}
