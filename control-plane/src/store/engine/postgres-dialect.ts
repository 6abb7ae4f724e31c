// Kysely's PostgreSQL dialect, with one error for every kind of unreachable database, and with a rollback that does not
// hide why the transaction failed.

import { type Driver, PostgresDialect, type PostgresDialectConfig, PostgresDriver } from 'kysely'
import pg from 'pg'
import { DATABASE } from '../../limits/installation.ts'
import { type Refusals, StoreUnavailable } from './faults.ts'

/** SQLSTATE codes: connection exceptions, a server that stops or starts, too many connections. */
const AWAY = /^(08|57P0[123]|53300)/

/** Apart from the server's own refusals and the parsing of its values, only the connection can fail. */
export function explainPostgres(error: unknown): unknown {
  if (error instanceof pg.DatabaseError) {
    return AWAY.test(error.code ?? '') ? new StoreUnavailable(error) : error
  }
  const isOurs = error instanceof TypeError || error instanceof RangeError
  return isOurs ? error : new StoreUnavailable(error)
}

type Anything = (...given: unknown[]) => unknown

/** Explains the failure of a call that returns a promise; calls with a callback are the library's own. */
function explained(call: Anything, given: unknown[], refusals: Refusals): unknown {
  const answer = call(...given)
  if (!(answer instanceof Promise)) return answer
  return answer.catch((error: unknown) => {
    refusals.note(error)
    throw explainPostgres(error)
  })
}

function clientFor(refusals: Refusals): typeof pg.Client {
  return class extends pg.Client {
    constructor(config?: string | pg.ClientConfig) {
      const given = typeof config === 'string' ? { connectionString: config } : config
      // the pool's own timeout would also count the wait for a free connection, which ends when others finish
      super({ ...given, connectionTimeoutMillis: DATABASE.connectMs, keepAlive: true })
      // The pool listens only while a client is idle. A query in use fails by itself, but without a listener the lost
      // connection would end the process.
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
