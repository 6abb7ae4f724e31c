// The parts of one running control plane, passed to every app function first. Only server.ts builds it.
import type { Kysely } from 'kysely'
import type { Logger } from 'pino'
import type { LiveAgents } from './agents/agent-rpc.ts'
import type { Transfers } from './agents/transfers.ts'
import type { Clock } from './clock.ts'
import type { Config } from './config.ts'
import type { Outbound } from './forges/forges.ts'
import type { HttpsCertificates } from './https/certificates.ts'
import type { Identity } from './identity/identity.ts'
import type { Quotas } from './identity/quotas.ts'
import type { Authority } from './keys/authority.ts'
import type { SecretStore } from './keys/secret-store.ts'
import type { SshSigners } from './keys/ssh-signers.ts'
import type { Mailer } from './mail/mail.ts'
import type { Metrics } from './monitoring/metrics.ts'
import type { Traces } from './monitoring/traces.ts'
import type { EventFeed } from './notifications/feed.ts'
import type { Notifier } from './notifications/notifier.ts'
import type { Watchers } from './notifications/watchers.ts'
import type { Replicas } from './replicas/replicas.ts'
import type { LogBlocks } from './store/deployments/log-blocks.ts'
import type { LogFiles } from './store/deployments/log-files.ts'
import type { Engine } from './store/engine/db.ts'
import type { DiskSpace } from './store/engine/disk-space.ts'
import type { Schema } from './store/schema.ts'

export interface Context {
  config: Config
  db: Kysely<Schema>
  engine: Engine
  clock: Clock
  notifier: Notifier
  watchers: Watchers
  /** Requests to live agents, and the bytes they send in return. */
  agentRpc: LiveAgents
  transfers: Transfers
  /** Committed events as they arrive, for subscribers. */
  feed: EventFeed
  log: Logger
  /** What monitoring reads. */
  metrics: Metrics
  traces: Traces
  /** Of HTTPS that the control plane serves itself; undefined behind a proxy. */
  certificates: HttpsCertificates | undefined
  installationId: string
  authority: Authority
  secretStore: SecretStore
  identity: Identity
  sshSigners: SshSigners
  /** Of tasks: files beside SQLite, blocks in PostgreSQL. */
  logs: LogFiles | LogBlocks
  /** Whether there is disk space. */
  diskSpace: DiskSpace
  /** Request limits, shared by all gateways and control planes. */
  quotas: Quotas
  /** Repositories, their forges, and receivers of notifications. */
  outbound: Outbound
  mailer: Mailer
  /** Random per start; a session's row names the replica that has it. */
  replicaId: string
  /** This control plane among several on one PostgreSQL. */
  replicas: Replicas
  startedAt: number
  /** Known once the listeners are bound. */
  baseUrl: string
  agentEndpoints: string[]
}
