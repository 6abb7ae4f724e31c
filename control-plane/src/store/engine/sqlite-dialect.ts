// Kysely's SQLite, with a limit that does not make SQLite prepare its statement anew. Its planner (3.53) looks at the number
// behind `limit ?` and so prepares the statement again whenever that is bound, the same number too: a page cost a quarter
// more. A limit that is an expression is left alone; pages are walked by key, so the number decides no plan.
// And with a rollback that does not hide why: SQLite itself rolls back when the disk is full, and refuses a second one.
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
