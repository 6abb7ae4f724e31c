// Columns are snake_case in SQL and camelCase in TypeScript. Kysely's own plugin maps every value of every row anew and
// looks for nested objects; here all rows of a result share their names, and no column holds an object (JSON is text).
// With SQLite rows come with their names already (statement-cache.ts).
import { CamelCasePlugin, type PluginTransformResultArgs, type QueryResult } from 'kysely'
import { rowFromRow } from './row-makers.ts'

const MAX_MAKERS = 500 // distinct lists of columns of the whole control plane, with room

type Row = Record<string, unknown>

export class ColumnNames extends CamelCasePlugin {
  readonly #rowsAreNamed: boolean
  readonly #makers = new Map<string, (row: Row) => Row>()

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
    return { ...result, rows: rows.map(this.#makerFor(Object.keys(first))) }
  }

  #makerFor(columns: string[]): (row: Row) => Row {
    const key = columns.join('\0') // no name can hold it
    const known = this.#makers.get(key)
    if (known) return known
    const make = rowFromRow(
      columns,
      columns.map((column) => this.camelCase(column)),
    )
    const oldest = this.#makers.size >= MAX_MAKERS ? this.#makers.keys().next().value : undefined
    if (oldest !== undefined) this.#makers.delete(oldest)
    this.#makers.set(key, make)
    return make
  }
}
