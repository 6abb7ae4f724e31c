// Kysely's PostgreSQL dialect, with one error for every kind of unreachable database, and with a rollback that does not
// hide why the transaction failed. postgres-watch.ts ends what waits for a database that is gone.
import { randomBytes } from 'node:crypto'
import { type Driver, PostgresDialect, type PostgresDialectConfig, PostgresDriver } from 'kysely'
import pg from 'pg'
import { DATABASE } from '../../limits/installation.ts'
import { codeOf, isAway, OutcomeUnknown, type Refusals, StoreUnavailable } from './faults.ts'
import { cutClient, PostgresWatch, type Watched } from './postgres-watch.ts'

/** Apart from the server's own refusals and the parsing of its values, only the connection can fail. */
export function explainPostgres(error: unknown): unknown {
  if (error instanceof StoreUnavailable) return error
  if (error instanceof pg.DatabaseError) {
    return isAway(error.code) ? new StoreUnavailable(error) : error
  }
  const isOurs = error instanceof TypeError || error instanceof RangeError
  return isOurs ? error : new StoreUnavailable(error)
}

type Anything = (...given: unknown[]) => unknown

/** Explains the failure of a call that returns a promise; calls with a callback are the library's own. */
function explained(call: Anything, given: unknown[], onError: (error: unknown) => void): unknown {
  const answer = call(...given)
  if (!(answer instanceof Promise)) return answer
  return answer.catch((error: unknown) => {
    onError(error)
    throw explainPostgres(error)
  })
}

/** Connected to a standby: the primary is elsewhere, or this one is promoted in a moment. */
const READ_ONLY = '25006'

const NAME_CHARACTERS = 63 // PostgreSQL cuts longer names

interface Owner {
  refusals: Refusals
  connections: Set<Watched>
  watch: PostgresWatch
}

function clientFor(owner: Owner): typeof pg.Client {
  return class extends pg.Client implements Watched {
    readonly name: string
    since: number | undefined
    #statements = 0

    constructor(config?: string | pg.ClientConfig) {
      const given = typeof config === 'string' ? { connectionString: config } : config
      // the pool's own timeout would also count the wait for a free connection, which ends when others finish
      super({ ...given, connectionTimeoutMillis: DATABASE.connectMs, keepAlive: true })
      this.name = nameConnection(this)
      // The pool listens only while a client is idle. A query in use fails by itself, but without a listener the lost
      // connection would end the process.
      this.on('error', () => {})
      this.once('end', () => owner.connections.delete(this))
      const query = this.query.bind(this) as unknown as Anything
      const note = (error: unknown): void => {
        owner.refusals.note(error)
        if (codeOf(error) === READ_ONLY) owner.watch.lost(error)
      }
      this.query = ((...all: unknown[]) => {
        const answer = explained(query, all, note)
        if (answer instanceof Promise) this.#wait(answer)
        return answer
      }) as typeof this.query
    }

    cut(): void {
      owner.connections.delete(this)
      cutClient(this)
    }

    #wait(answer: Promise<unknown>): void {
      this.#statements += 1
      this.since = performance.now()
      owner.connections.add(this)
      owner.watch.begin()
      const end = (): void => {
        this.#statements -= 1
        this.since = this.#statements === 0 ? undefined : performance.now()
      }
      answer.then(end, end)
    }
  }
}

/** After the connection string was read, which may have a name of its own. */
function nameConnection(client: pg.Client): string {
  const { connectionParameters } = client as unknown as {
    connectionParameters: { application_name?: string }
  }
  const id = randomBytes(8).toString('hex')
  const prefix = (connectionParameters.application_name || 'berth').replaceAll(/[^\x20-\x7e]/g, '?')
  const name = `${prefix.slice(0, NAME_CHARACTERS - id.length - 1)}-${id}`
  connectionParameters.application_name = name
  return name
}

export function openPool(config: pg.PoolConfig, refusals: Refusals): pg.Pool {
  const connections = new Set<Watched>()
  const { connectionString } = config
  const newClient = () =>
    new pg.Client({ ...(connectionString === undefined ? {} : { connectionString }) })
  const watch = new PostgresWatch({ connections, newClient })
  const Client = clientFor({ refusals, connections, watch })
  const pool = new pg.Pool({ ...config, Client } as pg.PoolConfig)
  const inner = pool.connect.bind(pool)
  const open = async (): Promise<pg.PoolClient> => {
    if (watch.away) throw new StoreUnavailable(watch.away)
    const connecting = inner().catch((error: unknown) => {
      refusals.note(error)
      const explained = explainPostgres(error)
      if (isOutage(explained)) watch.lost(explained)
      throw explained
    })
    return watch.unlessAway(connecting, (client) => client.release())
  }
  const connect: Anything = (...all) => (all.length === 0 ? open() : (inner as Anything)(...all))
  pool.connect = connect as typeof pool.connect
  const end = pool.end.bind(pool) as Anything
  pool.end = ((...all: unknown[]) => {
    watch.stop()
    return end(...all)
  }) as typeof pool.end
  return pool
}

/** Not so if the database is only too busy for another connection. */
const isOutage = (error: unknown): boolean =>
  error instanceof StoreUnavailable && codeOf(error.cause) !== '53300'

type Connection = Parameters<PostgresDriver['rollbackTransaction']>[0]

class SteadyDriver extends PostgresDriver {
  /** Without an answer, the transaction may be committed; it must not be repeated blindly. */
  override async commitTransaction(connection: Connection): Promise<void> {
    await super.commitTransaction(connection).catch((error: unknown) => {
      throw error instanceof StoreUnavailable ? new OutcomeUnknown(error) : error
    })
  }

  override async rollbackTransaction(connection: Connection): Promise<void> {
    // a rollback fails with its connection, which the driver then discards; the first error is the cause
    await super.rollbackTransaction(connection).catch(() => undefined)
  }
}

export class SteadyPostgresDialect extends PostgresDialect {
  readonly #config: PostgresDialectConfig

  constructor(config: PostgresDialectConfig) {
    super(config)
    this.#config = config
  }

  override createDriver(): Driver {
    return new SteadyDriver(this.#config)
  }
}
