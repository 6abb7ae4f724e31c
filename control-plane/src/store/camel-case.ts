// Columns are snake_case in SQL and camelCase in TypeScript. Kysely's own plugin maps every value of every row anew and
// looks for nested objects; here all rows of a result share their names, and no column holds an object (JSON is text).
// With SQLite rows come with their names already (statement-cache.ts).
import { CamelCasePlugin, type PluginTransformResultArgs, type QueryResult } from 'kysely'

type Row = Record<string, unknown>

export class ColumnNames extends CamelCasePlugin {
  readonly #rowsAreNamed: boolean

  constructor({ rowsAreNamed }: { rowsAreNamed: boolean }) {
    super()
    this.#rowsAreNamed = rowsAreNamed
  }

  rename(column: string): string {
    return this.camelCase(column)
  }

  override async transformResult({ result }: PluginTransformResultArgs): Promise<QueryResult<Row>> {
    const rows = result.rows as Row[]
    const [first] = rows
    if (!first || this.#rowsAreNamed) return result as QueryResult<Row>
    const columns = Object.keys(first)
    const names = columns.map((column) => this.camelCase(column))
    return { ...result, rows: rows.map((row) => renameRow(row, columns, names)) }
  }
}

function renameRow(row: Row, columns: string[], names: string[]): Row {
  const renamed: Row = {}
  for (let i = 0; i < columns.length; i += 1)
    renamed[names[i] as string] = row[columns[i] as string]
  return renamed
}
