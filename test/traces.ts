// Looking for a text in everything an installation leaves behind: raw, as JSON, percent-encoded, hexadecimal, and in
// base64 wherever it begins inside of a longer text. Finding nothing means something only beside a text that is found.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Kysely, sql } from 'kysely'
import type { Engine } from '../control-plane/src/store/database.ts'
import type { Schema } from '../control-plane/src/store/schema.ts'

/** Without the characters that depend on what stands before and after. */
function base64Inside(bytes: Buffer, shift: 0 | 1 | 2): string {
  const text = Buffer.concat([Buffer.alloc(shift), bytes])
    .toString('base64')
    .replaceAll('=', '')
  const isWhole = (bytes.length + shift) % 3 === 0
  return text.slice([0, 2, 3][shift], isWhole ? undefined : -1)
}

const inJson = (text: string): string => JSON.stringify(text).slice(1, -1)

export function formsOf(text: string): Map<string, string> {
  const bytes = Buffer.from(text)
  const forms = new Map([
    ['raw', text],
    ['JSON', inJson(text)],
    ['JSON in JSON', inJson(inJson(text))],
    ['percent-encoded', encodeURIComponent(text)],
    ['hexadecimal', bytes.toString('hex')],
    ['HEXADECIMAL', bytes.toString('hex').toUpperCase()],
  ])
  for (const shift of [0, 1, 2] as const) {
    const inside = base64Inside(bytes, shift)
    forms.set(`base64 at ${shift}`, inside)
    forms.set(`base64url at ${shift}`, inside.replaceAll('+', '-').replaceAll('/', '_'))
  }
  return forms
}

export type Places = Map<string, Buffer>

/** `place: form` of every find. */
export function tracesOf(text: string, places: Places): string[] {
  const forms = [...formsOf(text)]
  const distinct = [...new Set(forms.map(([, form]) => form))] // plain text looks the same in many
  return [...places].flatMap(([place, bytes]) => {
    const found = new Set(distinct.filter((form) => bytes.includes(form)))
    return forms.filter(([, form]) => found.has(form)).map(([name]) => `${place}: ${name}`)
  })
}

/** Every file below a folder, as it lies on the disk. One that goes away meanwhile is not there. */
export function readFolder(dir: string, name: string): Places {
  const places: Places = new Map()
  for (const entry of readdirSync(dir, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    try {
      places.set(`${name}${path.slice(dir.length)}`, readFileSync(path))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  }
  return places
}

/** Every table, its columns as text and as JSON. */
export async function readTables(db: Kysely<Schema>, engine: Engine): Promise<Places> {
  const tables =
    engine === 'sqlite'
      ? sql<{ name: string }>`select name from sqlite_master where type = 'table'`
      : sql<{ name: string }>`select tablename as name from pg_tables where schemaname = 'public'`
  const places: Places = new Map()
  for (const { name } of (await tables.execute(db)).rows) {
    const { rows } = await sql<object>`select * from ${sql.table(name)}`.execute(db)
    const texts = rows.flatMap((row) => Object.values(row).map(String))
    places.set(`table ${name}`, Buffer.from([JSON.stringify(rows), ...texts].join('\n')))
  }
  return places
}
