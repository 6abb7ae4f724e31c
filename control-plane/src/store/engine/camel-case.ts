// Maps snake_case columns in SQL to camelCase in TypeScript. Kysely's own plugin maps every value of every row and
// looks for nested objects; here all rows of a result share their names, and no column holds an object (JSON is text).
// On SQLite, rows already come with their names (statement-cache.ts).
import { CamelCasePlugin, type PluginTransformResultArgs, type QueryResult } from 'kysely'
import { rowFromRow } from './row-makers.ts'

const MAX_MAKERS = 500 // above the number of distinct column lists in the control plane

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
    const key = columns.join('\0') // a name cannot contain it
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
