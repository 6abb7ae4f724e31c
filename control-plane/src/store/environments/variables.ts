// Stores custom variables with encrypted values. Only readValuesForDispatch (app/environments/values.ts) decrypts them.
import type { Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { VariablesTable } from '../schema.ts'

export interface SealedVariable {
  key: string
  sealed: string
  fingerprint: string
  bytes: number
}

/** The columns that may be shown, and those that reveal a change. */
export type Variable = Omit<Selectable<VariablesTable>, 'sealed'>

interface By {
  userId: number
  now: number
  revision: number
}

export async function upsertVariables(
  db: Db,
  environmentId: number,
  variables: readonly SealedVariable[],
  by: By,
): Promise<void> {
  if (variables.length === 0) return
  const stamp = { revision: by.revision, updatedAt: by.now, updatedBy: by.userId }
  await db
    .insertInto('variables')
    .values(
      variables.map(({ key, sealed, fingerprint, bytes }) => ({
        environmentId,
        key,
        sealed,
        fingerprint,
        bytes,
        ...stamp,
      })),
    )
    .onConflict((conflict) =>
      conflict.columns(['environmentId', 'key']).doUpdateSet((e) => ({
        sealed: e.ref('excluded.sealed'),
        fingerprint: e.ref('excluded.fingerprint'),
        bytes: e.ref('excluded.bytes'),
        ...stamp,
      })),
    )
    .execute()
}

export async function deleteVariables(
  db: Db,
  environmentId: number,
  keys: readonly string[],
): Promise<void> {
  if (keys.length === 0) return
  await db
    .deleteFrom('variables')
    .where('environmentId', '=', environmentId)
    .where('key', 'in', [...keys])
    .execute()
}

/** Sorted by key in code-unit order, regardless of the database's collation. */
export async function listVariables(db: Db, environmentId: number): Promise<Variable[]> {
  const rows = await db
    .selectFrom('variables')
    .select(['environmentId', 'key', 'revision', 'updatedAt', 'updatedBy', 'fingerprint', 'bytes'])
    .where('environmentId', '=', environmentId)
    .execute()
  return rows.toSorted((a, b) => (a.key < b.key ? -1 : 1))
}

export const listSealedVariables = (
  db: Db,
  environmentId: number,
): Promise<Pick<SealedVariable, 'key' | 'sealed'>[]> =>
  db
    .selectFrom('variables')
    .select(['key', 'sealed'])
    .where('environmentId', '=', environmentId)
    .orderBy('key')
    .execute()

export async function insertVariableChanges(
  db: Db,
  environmentId: number,
  revision: number,
  keys: readonly string[],
): Promise<void> {
  if (keys.length === 0) return
  await db
    .insertInto('variableChanges')
    .values(keys.map((key) => ({ environmentId, revision, key })))
    .execute()
}

/** Which of these keys changed after a revision. */
export async function listChangedAmong(
  db: Db,
  environmentId: number,
  after: number,
  keys: readonly string[],
): Promise<Set<string>> {
  if (keys.length === 0) return new Set()
  const rows = await db
    .selectFrom('variableChanges')
    .select('key')
    .distinct()
    .where('environmentId', '=', environmentId)
    .where('revision', '>', after)
    .where('key', 'in', [...keys])
    .execute()
  return new Set(rows.map(({ key }) => key))
}

/** The own variables of a project's environments. */
export const listVariablesOf = (
  db: Db,
  environmentIds: readonly number[],
): Promise<Pick<Variable, 'environmentId' | 'key' | 'fingerprint' | 'bytes'>[]> =>
  environmentIds.length === 0
    ? Promise.resolve([])
    : db
        .selectFrom('variables')
        .select(['environmentId', 'key', 'fingerprint', 'bytes'])
        .where('environmentId', 'in', [...environmentIds])
        .execute()

/** Lists the names of variables that changed after one revision and up to another, sorted by name. */
export async function listChangedKeys(
  db: Db,
  environmentId: number,
  between: { after: number; until: number },
  limit: number,
): Promise<string[]> {
  const rows = await db
    .selectFrom('variableChanges')
    .select('key')
    .distinct()
    .where('environmentId', '=', environmentId)
    .where('revision', '>', between.after)
    .where('revision', '<=', between.until)
    .limit(limit)
    .execute()
  return rows.map(({ key }) => key).toSorted()
}
