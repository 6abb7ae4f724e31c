// Notices a PostgreSQL that is gone without a word: no answer and no reset, as when its machine loses power or a standby
// takes its place. TCP alone needs 15 minutes if a statement is on its way. Slow statements are left alone: a connection
// is cut only if the database cannot be reached beside it, or does not know it, or waits for us while we wait for it.
import pg from 'pg'
import { DATABASE } from '../../limits/installation.ts'
import { isAway, StoreUnavailable } from './faults.ts'

/** A connection of the pool. */
export interface Watched {
  /** Unique; the server shows it in pg_stat_activity. */
  readonly name: string
  /** The time at which its statement was sent, by performance.now(); undefined while it has none. */
  readonly since: number | undefined
  /** Closes it without a word to the server; its statement fails. */
  cut(): void
}

interface Parts {
  connections: ReadonlySet<Watched>
  newClient: () => pg.Client
}

interface Known {
  name: string
  /** The server waits for our next statement, for so many milliseconds. */
  idleMs: number | null
}

export class PostgresWatch {
  readonly #parts: Parts
  readonly #refused = new Set<(error: Error) => void>()
  #timer: NodeJS.Timeout | undefined
  #failures = 0
  #away: StoreUnavailable | undefined
  #isStopped = false

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Set while the database cannot be reached: requests fail at once instead of queueing for a connection. */
  get away(): StoreUnavailable | undefined {
    return this.#away
  }

  /** Call it when a statement is sent. */
  begin(): void {
    this.#schedule(DATABASE.watchMs)
  }

  /** A new connection failed. */
  lost(cause: unknown): void {
    if (this.#isStopped || this.#away) return
    this.#away = new StoreUnavailable(cause)
    for (const refuse of this.#refused) refuse(this.#away)
    this.#refused.clear()
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#schedule(DATABASE.returnMs)
  }

  /** Rejects when the database is away before `work` has ended; `late` gets its result then. */
  unlessAway<T>(work: Promise<T>, late: (result: T) => void): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      let isOver = false
      const refuse = (error: Error): void => {
        isOver = true
        reject(error)
      }
      this.#refused.add(refuse)
      work.then(
        (result) => {
          this.#refused.delete(refuse)
          if (isOver) late(result)
          else resolve(result)
        },
        (error: unknown) => {
          this.#refused.delete(refuse)
          reject(error)
        },
      )
    })
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  #schedule(ms: number): void {
    if (this.#isStopped || this.#timer) return
    this.#timer = setTimeout(() => void this.#look(), ms)
    this.#timer.unref()
  }

  async #look(): Promise<void> {
    const began = performance.now()
    const isWaiting = (ms: number) => (c: Watched) => c.since !== undefined && began - c.since >= ms
    const connections = [...this.#parts.connections]
    if (this.#away || connections.some(isWaiting(DATABASE.slowMs))) {
      try {
        const known = await this.#probe(connections.map(({ name }) => name))
        this.#failures = 0
        this.#away = undefined
        for (const connection of connections) {
          const { name, since } = connection
          const row = known.find((one) => one.name === name)
          const isDeaf = row?.idleMs != null && row.idleMs >= DATABASE.deafMs
          const isOlder = since !== undefined && since <= began - DATABASE.deafMs
          if (!row || (isDeaf && isOlder && connection.since === since)) connection.cut()
        }
      } catch (error) {
        this.#failures += 1
        if (this.#failures >= DATABASE.failures) {
          for (const connection of connections) connection.cut()
          this.lost(error)
        }
      }
    }
    this.#timer = undefined
    if (this.#away) this.#schedule(DATABASE.returnMs)
    else if (connections.some(({ since }) => since !== undefined)) this.#schedule(DATABASE.watchMs)
  }

  /** Asks over a connection of its own. A refusal for another reason than an outage also proves that it answers. */
  async #probe(names: readonly string[]): Promise<Known[]> {
    const client = this.#parts.newClient()
    client.on('error', () => {})
    const { promise: late, reject } = Promise.withResolvers<never>()
    const timer = setTimeout(() => {
      reject(new Error('the database did not answer in time'))
      cutClient(client)
    }, DATABASE.probeMs)
    const ask = async (): Promise<Known[]> => {
      await client.connect()
      const { rows } = await client.query<{ is_standby: boolean; known: Known[] | null }>(
        `select pg_is_in_recovery() as is_standby,
          (select json_agg(json_build_object('name', application_name, 'idleMs',
              case when state like 'idle%' then extract(epoch from clock_timestamp() - state_change) * 1000 end))
            from pg_stat_activity where application_name = any($1::text[])) as known`,
        [names],
      )
      const [row] = rows
      if (row?.is_standby) throw new Error('this PostgreSQL is a standby')
      return row?.known ?? []
    }
    try {
      return await Promise.race([ask(), late])
    } catch (error) {
      if (!(error instanceof pg.DatabaseError) || isAway(error.code)) throw error
      return names.map((name) => ({ name, idleMs: null })) // too many connections, for example
    } finally {
      clearTimeout(timer)
      cutClient(client)
    }
  }
}

/** Ends the socket at once; pg's own end() waits for a server that may be gone. */
export function cutClient(client: pg.Client): void {
  const { connection } = client as unknown as { connection: { stream: { destroy(): void } } }
  connection.stream.destroy()
}
