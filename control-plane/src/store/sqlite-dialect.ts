// Kysely's SQLite, with a limit that does not make SQLite prepare its statement anew. Its planner (3.53) looks at the number
// behind `limit ?` and so prepares the statement again whenever that is bound, the same number too: a page cost a quarter
// more. A limit that is an expression is left alone; pages are walked by key, so the number decides no plan.
import { type LimitNode, SqliteDialect, SqliteQueryCompiler } from 'kysely'

class SteadyCompiler extends SqliteQueryCompiler {
  protected override visitLimit(node: LimitNode): void {
    this.append('limit cast(')
    this.visitNode(node.limit)
    this.append(' as integer)')
  }
}

export class SteadySqliteDialect extends SqliteDialect {
  override createQueryCompiler(): SqliteQueryCompiler {
    return new SteadyCompiler()
  }
}
