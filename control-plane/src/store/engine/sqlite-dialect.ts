// Kysely's SQLite dialect, with two changes. It makes a limit an expression: SQLite (3.53) prepares a statement
// again whenever a plain `limit ?` is bound, which made a page cost 25 % more; pages are walked by key, so the number
// decides no plan. Its rollback keeps the cause: SQLite itself rolls back when the disk is full, and refuses another.
import {
  type DatabaseConnection,
  type Driver,
  type LimitNode,
  SqliteDialect,
  type SqliteDialectConfig,
  SqliteDriver,
  SqliteQueryCompiler,
} from 'kysely'

class SteadyCompiler extends SqliteQueryCompiler {
  protected override visitLimit(node: LimitNode): void {
    this.append('limit cast(')
    this.visitNode(node.limit)
    this.append(' as integer)')
  }
}

class SteadyDriver extends SqliteDriver {
  readonly #isInTransaction: () => boolean

  constructor(config: SqliteDialectConfig, isInTransaction: () => boolean) {
    super(config)
    this.#isInTransaction = isInTransaction
  }

  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    if (this.#isInTransaction()) await super.rollbackTransaction(connection)
  }
}

export class SteadySqliteDialect extends SqliteDialect {
  readonly #config: SqliteDialectConfig
  readonly #isInTransaction: () => boolean

  constructor(config: SqliteDialectConfig, isInTransaction: () => boolean) {
    super(config)
    this.#config = config
    this.#isInTransaction = isInTransaction
  }

  override createDriver(): Driver {
    return new SteadyDriver(this.#config, this.#isInTransaction)
  }

  override createQueryCompiler(): SqliteQueryCompiler {
    return new SteadyCompiler()
  }
}
