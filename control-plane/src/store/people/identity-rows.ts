// Reads and writes accounts, browser logins, verifications and (read only) users by table name and conditions, as the
// sign-in library asks for them. Only its adapter may use this file; all other code has specific functions.
import { type Kysely, type SelectQueryBuilder, sql } from 'kysely'
import type { Db } from '../engine/db.ts'

export const IDENTITY_TABLES = ['users', 'accounts', 'browserSessions', 'verifications'] as const
export type IdentityTable = (typeof IDENTITY_TABLES)[number]
export type IdentityRow = Record<string, unknown>

export interface Condition {
  field: string
  operator: 'eq' | 'ne' | 'lt' | 'lte' | 'gt' | 'gte' | 'in'
  value: unknown
}

const SIGNS = { eq: '=', ne: '!=', lt: '<', lte: '<=', gt: '>', gte: '>=', in: 'in' } as const
type Rows = Record<IdentityTable, IdentityRow>
const rowsOf = (db: Db): Kysely<Rows> => db as unknown as Kysely<Rows>

/** Joins the conditions with "and"; an empty list would match every row and is refused. */
function all(conditions: readonly Condition[]) {
  if (conditions.length === 0) throw new Error('rows must be asked for by a condition')
  return sql.join<boolean>(
    conditions.map(({ field, operator, value }) =>
      operator === 'in'
        ? sql`${sql.ref(field)} in (${sql.join(value as unknown[])})`
        : sql`${sql.ref(field)} ${sql.raw(SIGNS[operator])} ${value}`,
    ),
    sql` and `,
  )
}

export async function insertIdentityRow(
  db: Db,
  table: IdentityTable,
  row: IdentityRow,
): Promise<IdentityRow> {
  return rowsOf(db).insertInto(table).values(row).returningAll().executeTakeFirstOrThrow()
}

export async function findIdentityRows(
  db: Db,
  table: IdentityTable,
  conditions: readonly Condition[],
  page: { limit: number; newestFirst?: boolean },
): Promise<IdentityRow[]> {
  let query = rowsOf(db).selectFrom(table).selectAll() as SelectQueryBuilder<
    Rows,
    IdentityTable,
    IdentityRow
  >
  query = query.where(sql<boolean>`${all(conditions)}`).limit(page.limit)
  return query.orderBy('id', page.newestFirst ? 'desc' : 'asc').execute()
}

export async function updateIdentityRows(
  db: Db,
  table: IdentityTable,
  conditions: readonly Condition[],
  change: IdentityRow,
): Promise<IdentityRow[]> {
  return rowsOf(db)
    .updateTable(table)
    .set(change)
    .where(sql<boolean>`${all(conditions)}`)
    .returningAll()
    .execute()
}

/** Returns the deleted rows: of two concurrent deletes, one gets them. */
export async function deleteIdentityRows(
  db: Db,
  table: IdentityTable,
  conditions: readonly Condition[],
): Promise<IdentityRow[]> {
  return rowsOf(db)
    .deleteFrom(table)
    .where(sql<boolean>`${all(conditions)}`)
    .returningAll()
    .execute()
}
