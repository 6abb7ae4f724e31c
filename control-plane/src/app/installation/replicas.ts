// One control plane per database: two would dispatch tasks and judge servers against each other. A second one is
// refused and shows the first. A start after a crash succeeds immediately; one during another's shutdown waits briefly.
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Config } from '../../config.ts'
import type { Context } from '../../context.ts'
import { toUtc } from '../../domain/core/utc.ts'
import { REPLICAS } from '../../limits/installation.ts'
import type { Db } from '../../store/engine/db.ts'
import {
  findReplica,
  type Hold,
  holdFile,
  holdPostgres,
  saveReplica,
} from '../../store/installation/replicas.ts'

interface Claim {
  db: Db
  config: Config
  log: Logger
  replicaId: string
  /** Another process took the database while this one was disconnected from it. */
  onLost: (message: string) => void
}

/** Call this before reading or migrating anything. Throws when another control plane has the database. */
export async function holdDatabase(claim: Claim): Promise<Hold> {
  const deadline = performance.now() + REPLICAS.waitMs
  for (;;) {
    const hold = await tryHold(claim)
    if (hold) return hold
    if (performance.now() > deadline) throw new Error(await describeHolder(claim.db))
    await new Promise((resolve) => setTimeout(resolve, REPLICAS.againMs))
  }
}

async function tryHold(claim: Claim): Promise<Hold | undefined> {
  const { config, db, log, replicaId } = claim
  if (config.databaseUrl === undefined) return holdFile(join(config.dataDir, 'berth.lock'))
  return holdPostgres({
    url: config.databaseUrl,
    isOurs: async () => (await findReplica(db))?.id === replicaId,
    onLost: () => void describeHolder(db).then(claim.onLost, () => claim.onLost(TWO)),
    onBroken: (error) => log.warn({ err: error }, 'the database is not held; taking it again'),
  })
}

const TWO = 'Another control plane runs on this database.'

async function describeHolder(db: Db): Promise<string> {
  const holder = await findReplica(db)
  const who = holder
    ? `It is process ${holder.pid} on ${holder.host}, at ${holder.address}, since ${toUtc(holder.startedAt)}.`
    : 'It is just starting, or an older release.'
  return `${TWO} ${who} Stop it first, or give this one a database of its own.`
}

/** Records this process, so that a refused one can name it. Called again when the address is known. */
export async function nameHolder(ctx: Context): Promise<void> {
  await saveReplica(ctx.db, {
    id: ctx.replicaId,
    host: hostname(),
    pid: process.pid,
    address: ctx.baseUrl || `${ctx.config.host}:${ctx.config.port}`,
    startedAt: ctx.startedAt,
  })
}
