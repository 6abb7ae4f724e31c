// What this control plane knows of itself among several. It renews its lease, holds duties (work that one does for all)
// and tells which others are alive. The database's clock judges leases; this process trusts its own for a shorter time,
// counted from before the renewal by a clock that also runs while the process is paused.
import type { Kysely } from 'kysely'
import type { Logger } from 'pino'
import { REPLICAS } from '../limits/installation.ts'
import { LEASES } from '../limits/sharing.ts'
import { whileUnchanged } from '../store/engine/migrate.ts'
import { NewerDatabase } from '../store/engine/migrations.ts'
import {
  beginEra,
  beginEraAfter,
  claimDuties,
  deleteDeadReplicas,
  deleteReplica,
  findEra,
  findLiveReplica,
  listLiveReplicas,
  markReplicaDraining,
  type NewReplica,
  type Replica,
  releaseDuties,
  renewLease,
  saveOnlyReplica,
  saveReplica,
  shortenLeases,
} from '../store/installation/replicas.ts'
import type { Schema } from '../store/schema.ts'

/** Work on time alone. Each is done by one replica, which may be another one for each duty. */
const DUTIES = ['deadlines', 'mail', 'notices', 'rounds', 'backups', 'reports'] as const
export type Duty = (typeof DUTIES)[number]

interface Parts {
  db: Kysely<Schema>
  log: Logger
  /** On SQLite: no lease is needed, and every duty is held. */
  isAlone: boolean
  self: NewReplica
}

export interface ReplicaEvents {
  /** The others declared this one dead while it was paused or cut off: its sessions are over. */
  onDeclaredDead(): void
  /** Meanwhile a newer release changed the tables for itself: this process must end. */
  onOutdated(message: string): void
  /** What servers were told is outranked: their sessions must begin again. */
  onNewEra(): void
  /** After each renewal: ends the sessions that no replica has. */
  endOrphans(): Promise<void>
}

export class Replicas {
  readonly isAlone: boolean
  readonly #db: Kysely<Schema>
  readonly #log: Logger
  #self: NewReplica
  #era = 0
  #events: ReplicaEvents | undefined
  #validUntil = 0
  #duties: ReadonlySet<string> = new Set()
  /** Since when its renewals have followed each other; before that it must not judge others. */
  #steadySince: number | undefined
  #isDraining = false
  #timer: NodeJS.Timeout | undefined
  #renewing: Promise<void> | undefined

  constructor({ db, log, isAlone, self }: Parts) {
    this.#db = db
    this.#log = log
    this.isAlone = isAlone
    this.#self = self
  }

  get id(): string {
    return this.#self.id
  }

  /** Outranks what servers were told before it began. */
  get era(): number {
    return this.#era
  }

  /** False while its lease cannot be renewed, and once it stops: people and agents are better served by others. */
  get isReady(): boolean {
    return !this.#isDraining && (this.isAlone || performance.now() < this.#validUntil)
  }

  get isDraining(): boolean {
    return this.#isDraining
  }

  /** Whether this replica does this work now. Ask again for each piece of it. */
  holds(duty: Duty): boolean {
    if (this.isAlone) return true
    if (this.#isDraining) return false // also while a renewal that began before is under way
    return performance.now() < this.#validUntil && this.#duties.has(duty)
  }

  async listLive(): Promise<Replica[]> {
    return this.isAlone ? [] : listLiveReplicas(this.#db)
  }

  /** Undefined if it does not exist or its lease is over. */
  async find(id: string): Promise<Replica | undefined> {
    return this.isAlone ? undefined : findLiveReplica(this.#db, id)
  }

  /** Before anything else is read: this process has its row and its lease. */
  async join(): Promise<void> {
    if (this.isAlone) {
      await saveOnlyReplica(this.#db, this.#self)
      this.#era = this.#self.startedAt
      return
    }
    const began = performance.now()
    const others = (await listLiveReplicas(this.#db)).filter(({ id }) => id !== this.id)
    this.#era = others.length === 0 ? await beginEra(this.#db) : await findEra(this.#db)
    await whileUnchanged(this.#db, () => saveReplica(this.#db, this.#self, REPLICAS.leaseMs))
    this.#validUntil = began + REPLICAS.leaseMs
  }

  /** Once addresses are known. */
  async rename(change: Partial<Pick<NewReplica, 'address' | 'peerAddress'>>): Promise<void> {
    this.#self = { ...this.#self, ...change }
    if (this.isAlone) await saveOnlyReplica(this.#db, this.#self)
    else await saveReplica(this.#db, this.#self, REPLICAS.leaseMs)
  }

  async start(events: ReplicaEvents): Promise<void> {
    this.#events = events
    if (this.isAlone) return
    await this.renew()
    this.#timer = setInterval(() => void this.renew(), REPLICAS.renewMs)
  }

  /** Gives the duties to the others and gets no more; the lease goes on until `leave`. */
  async drain(): Promise<void> {
    this.#isDraining = true
    this.#duties = new Set()
    if (this.isAlone) return
    await this.#quietly(async () => {
      await markReplicaDraining(this.#db, this.id)
      await this.#renewing
      await releaseDuties(this.#db, this.id)
    })
  }

  /** Its sessions are over, or the others end them at once. */
  async leave(): Promise<void> {
    clearInterval(this.#timer)
    await this.#renewing
    if (this.isAlone) return
    await this.#quietly(async () => {
      await releaseDuties(this.#db, this.id)
      await deleteReplica(this.#db, this.id)
    })
  }

  /**
   * The database lost commits: a standby without them took over, as in a restore. Each replica notices; the first one
   * begins the era, and all take it with their next renewal.
   */
  async noteLostCommits(): Promise<void> {
    if (this.isAlone) return
    await beginEraAfter(this.#db, this.#era)
    await this.renew()
  }

  /** One at a time; a failure costs nothing but time, because the lease ends by itself. */
  renew(): Promise<void> {
    this.#renewing ??= this.#renew()
      .catch((error: unknown) => this.#log.warn({ err: error }, 'the lease could not be renewed'))
      .finally(() => {
        this.#renewing = undefined
      })
    return this.#renewing
  }

  async #renew(): Promise<void> {
    const began = performance.now()
    const wasLate = began >= this.#validUntil
    if (!(await renewLease(this.#db, this.id, REPLICAS.leaseMs))) await this.#rejoin()
    this.#validUntil = began + REPLICAS.leaseMs
    await shortenLeases(this.#db, REPLICAS.leaseMs, LEASES.leaseMs)
    await this.#takeEra()
    if (!this.#isDraining) {
      this.#duties = new Set(await claimDuties(this.#db, this.id, DUTIES, REPLICAS.leaseMs))
    }
    const isFirst = this.#steadySince === undefined
    if (this.#steadySince === undefined || wasLate) this.#steadySince = began
    // after an outage of the database, the others get as much time to renew as this one had
    const isEarly = began - this.#steadySince < REPLICAS.leaseMs
    if (isEarly && !(isFirst && (await this.#isOnly()))) return
    for (const { id, host, pid } of await deleteDeadReplicas(this.#db)) {
      this.#log.warn({ replica: id, host, pid }, 'a control plane is gone; its sessions are over')
    }
    await this.#events?.endOrphans()
  }

  async #takeEra(): Promise<void> {
    const era = await findEra(this.#db)
    if (era <= this.#era) return
    this.#era = era
    this.#events?.onNewEra()
  }

  /** Others that people and agents may go to; none if the database does not answer. */
  async hasOthers(): Promise<boolean> {
    const live = await this.listLive().catch(() => [])
    return live.some(({ id, drainingAt }) => id !== this.id && drainingAt === null)
  }

  async #isOnly(): Promise<boolean> {
    return (await listLiveReplicas(this.#db)).every(({ id }) => id === this.id)
  }

  async #rejoin(): Promise<void> {
    this.#log.warn('this control plane was declared dead by the others; it joins again')
    this.#duties = new Set()
    this.#events?.onDeclaredDead()
    await whileUnchanged(this.#db, async () => {
      this.#era = await findEra(this.#db)
      await saveReplica(this.#db, this.#self, REPLICAS.leaseMs)
    }).catch((error: unknown) => {
      if (error instanceof NewerDatabase) this.#events?.onOutdated(error.message)
      throw error
    })
  }

  async #quietly(work: () => Promise<void>): Promise<void> {
    await work().catch((error: unknown) =>
      this.#log.warn({ err: error }, 'the others notice the end of this control plane late'),
    )
  }
}
