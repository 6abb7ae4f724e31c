// Finds encrypted values by their key in every table that stores them, to give an organization another data key. Names
// of tables and columns come from a list in the code, never from a request.
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../engine/db.ts'

export interface SealedColumn {
  table: string
  column: string
  /** Columns that identify a row; results use camel case. */
  key: readonly string[]
  /** How a row belongs to an organization. */
  owner: 'organization' | 'project' | 'environment' | 'installation'
  /** Selects one kind, if a table holds several. */
  purpose?: string
  /** Further columns that identify the value's place. */
  more?: readonly string[]
}

export type SealedRow = Record<string, string | number | null> & { sealed: string }

const ownedBy = ({ owner }: SealedColumn, organizationId: number | null): RawBuilder<boolean> => {
  if (owner === 'installation') return sql<boolean>`1 = 1`
  if (owner === 'organization') return sql<boolean>`organization_id = ${organizationId}`
  if (owner === 'project') {
    return sql<boolean>`project_id in (select id from projects where organization_id = ${organizationId})`
  }
  return sql<boolean>`environment_id in (select id from environments where organization_id = ${organizationId})`
}

const ofPurpose = ({ purpose }: SealedColumn): RawBuilder<boolean> =>
  purpose === undefined ? sql<boolean>`1 = 1` : sql<boolean>`purpose = ${purpose}`

const sealedBy = (keyId: number): string => `v2|${keyId}|%`

/** Lists values that a different key encrypted. */
export async function listSealedByOthers(
  db: Db,
  place: SealedColumn,
  key: { id: number; organizationId: number | null },
  limit: number,
): Promise<SealedRow[]> {
  const names = [...place.key, ...(place.more ?? [])].map((name) => sql.ref(name))
  const column = sql.ref(place.column)
  const { rows } = await sql<SealedRow>`
    select ${sql.join(names)}, ${column} as sealed from ${sql.table(place.table)}
    where ${column} is not null and ${column} not like ${sealedBy(key.id)}
      and ${ownedBy(place, key.organizationId)} and ${ofPurpose(place)}
    limit ${limit}`.execute(db)
  return rows
}

const toCamel = (name: string): string =>
  name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())

/** Applies only if the value has not changed since. */
export async function replaceSealed(
  db: Db,
  place: SealedColumn,
  row: SealedRow,
  sealed: string,
): Promise<void> {
  const isRow = place.key.map((name) => sql`${sql.ref(name)} = ${row[toCamel(name)]}`)
  const column = sql.ref(place.column)
  await sql`
    update ${sql.table(place.table)} set ${column} = ${sealed}
    where ${sql.join(isRow, sql` and `)} and ${column} = ${row.sealed}`.execute(db)
}
