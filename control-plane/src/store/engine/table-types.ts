// Generates the table types as source text from an in-memory database built by the migrations, plus column-facts.ts.
// Only `npm run gen` and the test that compares its result with the committed file use it.
import Database from 'better-sqlite3'
import { COLUMN_FACTS, type ColumnFacts } from './column-facts.ts'

interface Column {
  name: string
  type: string
  notnull: 0 | 1
  dflt_value: string | null
  pk: number
}

const HEAD = `// Generated from the migrations by \`npm run gen\`. Do not edit: narrow a column in engine/column-facts.ts.
// Times are epoch milliseconds, booleans 0 or 1, JSON is text that store functions parse themselves.
import type {
  AlertKind,
  ChannelKind,
  Happening,
  NoticeEnvironment,
  NotificationStatus,
  Provider,
  Recipe,
  SshAccount,
  TaskStatus,
  TaskType,
  Trigger,
} from '@berth/shared'
import type { Permission, Role, SshPurpose } from '@berth/shared/api'
import type { Generated } from 'kysely'

export type Flag = 0 | 1
export type AuthorityPhase = 'announced' | 'signing' | 'retiring' | 'retired'
`

const camel = (name: string): string =>
  name.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())

const note = (facts: ColumnFacts | undefined, indent: string): string =>
  facts?.note ? `${indent}/** ${facts.note} */\n` : ''

function typeOf(column: Column, facts: ColumnFacts | undefined, isCounted: boolean): string {
  const { type, notnull, dflt_value, pk } = column
  const base = facts?.type ?? (/int/i.test(type) ? 'number' : 'string')
  if (pk > 0) return isCounted ? `Generated<${base}>` : base
  if (!notnull) return `${base} | null`
  return dflt_value === null ? base : `Generated<${base}>`
}

/** `statements` turn an empty SQLite database into the newest schema. */
export function describeTables(statements: readonly string[]): string {
  const db = new Database(':memory:')
  try {
    for (const statement of statements) db.exec(statement)
    const known = new Set<string>()
    const tables = db
      .prepare(
        "select name, sql from sqlite_master where type = 'table' and name not like 'sqlite_%'",
      )
      .all() as { name: string; sql: string }[]
    const made = tables
      .map(({ name, sql }) => ({ table: camel(name), name, isCounted: /autoincrement/i.test(sql) }))
      .toSorted((a, b) => (a.table < b.table ? -1 : 1))
      .map(({ table, name, isCounted }) => {
        const facts = COLUMN_FACTS[table] ?? {}
        const lines = (db.pragma(`table_info(${name})`) as Column[]).map((column) => {
          const field = camel(column.name)
          known.add(`${table}.${field}`)
          const own = facts[field]
          return `${note(own, '  ')}  ${field}: ${typeOf(column, own, isCounted)}\n`
        })
        const type = `${table[0]?.toUpperCase()}${table.slice(1)}Table`
        const block = `\n${note(facts.$, '')}export interface ${type} {\n${lines.join('')}}\n`
        return { row: `  ${table}: ${type}\n`, block }
      })
    for (const [table, facts] of Object.entries(COLUMN_FACTS)) {
      const unknown = Object.keys(facts).find((c) => c !== '$' && !known.has(`${table}.${c}`))
      if (unknown) throw new Error(`column-facts.ts: there is no column ${table}.${unknown}`)
    }
    const rows = made.map(({ row }) => row).join('')
    return `${HEAD}\nexport interface Schema {\n${rows}}\n${made.map(({ block }) => block).join('')}`
  } finally {
    db.close()
  }
}
