// What every app function gets first: the parts of one running control plane. Built in server.ts and nowhere else.
import type { Kysely } from 'kysely'
import type { Logger } from 'pino'
import type { DownloadTickets } from './app/download-tickets.ts'
import type { Quotas } from './app/quotas.ts'
import type { Authority } from './ca/authority.ts'
import type { Custody } from './ca/custody.ts'
import type { SshSigners } from './ca/ssh-signers.ts'
import type { Config } from './config.ts'
import type { Asking } from './dispatch/asking.ts'
import type { Transfers } from './dispatch/transfers.ts'
import type { Identity } from './identity/auth.ts'
import type { EventFeed } from './live/feed.ts'
import type { Wakes } from './live/wakes.ts'
import type { Watchers } from './live/watchers.ts'
import type { Outbound } from './outbound/outbound.ts'
import type { Engine } from './store/database.ts'
import type { LogFiles } from './store/log-files.ts'
import type { Room } from './store/room.ts'
import type { Schema } from './store/schema.ts'

/** Wall-clock time, for what is stored and shown; tests move it. */
export interface Clock {
  now(): number
}

export interface Context {
  config: Config
  db: Kysely<Schema>
  engine: Engine
  clock: Clock
  wakes: Wakes
  watchers: Watchers
  /** Questions to live agents, and the bytes they send in return. */
  asking: Asking
  transfers: Transfers
  /** Committed events as they come, for whoever watches. */
  feed: EventFeed
  log: Logger
  installationId: string
  authority: Authority
  custody: Custody
  identity: Identity
  sshSigners: SshSigners
  logs: LogFiles
  /** Whether there is room to write. */
  room: Room
  /** How often each may ask, at every door. */
  quotas: Quotas
  /** What browsers may download in the next minute. */
  tickets: DownloadTickets
  /** Repositories and their hosts. */
  outbound: Outbound
  /** Random per start: a session row of another life is no session. */
  replicaId: string
  startedAt: number
  /** Known once the listeners are bound. */
  baseUrl: string
  agentEndpoints: string[]
}
