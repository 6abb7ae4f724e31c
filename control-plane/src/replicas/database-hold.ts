// Who uses the database. SQLite has one control plane, which holds a lock beside the file: two would dispatch tasks and
// judge servers against each other. PostgreSQL has any number, which share a lock that a restore or a migration takes
// alone. A start after a crash succeeds immediately; one during another's shutdown waits briefly.
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import { toUtc } from '../domain/core/utc.ts'
import { REPLICAS } from '../limits/installation.ts'
import type { Notifier } from '../notifications/notifier.ts'
import type { Db } from '../store/engine/db.ts'
import { type Hold, holdFile } from '../store/engine/file-lock.ts'
import { openPostgresLink } from '../store/engine/postgres-link.ts'
import { findLastReplica } from '../store/installation/replicas.ts'

interface Claim {
  db: Db
  config: Config
  log: Logger
  replicaId: string
  notifier: Notifier
  /** A process that needs the database alone took it while this one was disconnected from it. */
  onLost: (message: string) => void
}

/** Call this before reading or migrating anything. Throws when the database is not free for this one. */
export async function holdDatabase(claim: Claim): Promise<Hold> {
  const deadline = performance.now() + REPLICAS.waitMs
  for (;;) {
    const hold = await tryHold(claim)
    if (hold) return hold
    if (performance.now() > deadline) throw new Error(await describeHolder(claim))
    await new Promise((resolve) => setTimeout(resolve, REPLICAS.againMs))
  }
}

async function tryHold(claim: Claim): Promise<Hold | undefined> {
  const { config, log, replicaId, notifier } = claim
  if (config.databaseUrl === undefined) return holdFile(join(config.dataDir, 'berth.lock'))
  const link = await openPostgresLink({
    url: config.databaseUrl,
    sender: replicaId,
    onHint: (topic) => notifier.hear(topic),
    onMissed: () => notifier.hearAll(),
    onLost: () => void describeHolder(claim).then(claim.onLost, () => claim.onLost(ALONE)),
    onBroken: (error) => log.warn({ err: error }, 'the connection of hints broke; making it again'),
  })
  if (link) notifier.relay = (topic) => link.send(topic)
  return link
}

const TWO = 'Another control plane runs on this database.'
const ALONE =
  'The database is in use by a process that needs it alone: a restore, or a release up to 1.15.'

async function describeHolder({ db, config }: Claim): Promise<string> {
  const holder = await findLastReplica(db)
  const who = holder
    ? `${config.databaseUrl === undefined ? 'It is' : 'The last control plane was'} process ${holder.pid} on ${holder.host}, at ${holder.address}, since ${toUtc(holder.startedAt)}.`
    : 'It is just starting, or an older release.'
  if (config.databaseUrl !== undefined) return `${ALONE} ${who} Wait for it, or stop it first.`
  return `${TWO} ${who} Stop it first, or give this one a database of its own.`
}
