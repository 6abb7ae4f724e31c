// Custom variables. Values are sealed; only readValuesForDispatch (dispatch/ alone imports it) gives them out.
import type { Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { VariablesTable } from '../schema.ts'

export interface SealedVariable {
  key: string
  sealed: string
  fingerprint: string
  bytes: number
}

/** What may be shown of one, and what tells whether it changed. */
export type Variable = Omit<Selectable<VariablesTable>, 'sealed'>

export interface By {
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

/** By key, in the order of its characters, whatever the database's language is. */
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

/** Names of the variables that were set or unset after one revision and up to another, in the order of names. */
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
