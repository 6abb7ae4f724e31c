// Kysely's PostgreSQL, with one error for "it cannot be reached now" whatever the network, the socket or the ending server
// said, and with a rollback that does not hide why the transaction failed.
import { DATABASE } from '@berth/shared'
import { type Driver, PostgresDialect, type PostgresDialectConfig, PostgresDriver } from 'kysely'
import pg from 'pg'
import { type Refusals, StoreUnavailable } from './faults.ts'

/** SQLSTATE: connection exceptions, a server that stops or starts, no connection left. */
const AWAY = /^(08|57P0[123]|53300)/

/** Besides the server's own refusals and our reading of its values, only the connection can fail. */
function explain(error: unknown): unknown {
  if (error instanceof pg.DatabaseError) {
    return AWAY.test(error.code ?? '') ? new StoreUnavailable(error) : error
  }
  const isOurs = error instanceof TypeError || error instanceof RangeError
  return isOurs ? error : new StoreUnavailable(error)
}

type Anything = (...given: unknown[]) => unknown

/** The promise of a call, with its failure explained; a call with a callback is the library's own. */
function explained(call: Anything, given: unknown[], refusals: Refusals): unknown {
  const answer = call(...given)
  if (!(answer instanceof Promise)) return answer
  return answer.catch((error: unknown) => {
    refusals.note(error)
    throw explain(error)
  })
}

function clientFor(refusals: Refusals): typeof pg.Client {
  return class extends pg.Client {
    constructor(config?: string | pg.ClientConfig) {
      const given = typeof config === 'string' ? { connectionString: config } : config
      // a pool's own limit would also count the wait for a free connection, which ends when others are done
      super({ ...given, connectionTimeoutMillis: DATABASE.connectMs, keepAlive: true })
      // the pool listens only while a client is idle; a query in use fails by itself, and without a listener the loss of
      // its connection would end the whole process
      this.on('error', () => {})
      const query = this.query.bind(this) as unknown as Anything
      this.query = ((...all: unknown[]) => explained(query, all, refusals)) as typeof this.query
    }
  }
}

export function openPool(config: pg.PoolConfig, refusals: Refusals): pg.Pool {
  const pool = new pg.Pool({ ...config, Client: clientFor(refusals) } as pg.PoolConfig)
  const connect = pool.connect.bind(pool) as unknown as Anything
  pool.connect = ((...all: unknown[]) => explained(connect, all, refusals)) as typeof pool.connect
  return pool
}

type Connection = Parameters<PostgresDriver['rollbackTransaction']>[0]

class SteadyDriver extends PostgresDriver {
  override async rollbackTransaction(connection: Connection): Promise<void> {
    // a rollback fails with its connection, which the driver then throws away; the first error is the cause
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
