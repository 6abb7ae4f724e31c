// Stores the variables of a project's levels with encrypted values. Only app/environments/values.ts decrypts them.
import type { ProjectLevel } from '@berth/shared/api'
import type { Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { SealedVariable } from '../environments/variables.ts'
import type { ProjectVariablesTable } from '../schema.ts'

type Row = Selectable<ProjectVariablesTable>
/** The columns that may be shown, and those that reveal a change. */
export interface ProjectVariable extends Omit<Row, 'sealed' | 'forks'> {
  forks: boolean
}

const COLUMNS = [
  'projectId',
  'level',
  'key',
  'fingerprint',
  'bytes',
  'forks',
  'updatedAt',
  'updatedBy',
] as const

/** Of all levels. */
export async function listProjectVariables(db: Db, projectId: number): Promise<ProjectVariable[]> {
  const rows = await db
    .selectFrom('projectVariables')
    .select(COLUMNS)
    .where('projectId', '=', projectId)
    .execute()
  return rows.map((row) => ({ ...row, forks: row.forks === 1 }))
}

export async function listSealedProjectVariables(
  db: Db,
  projectId: number,
): Promise<(Pick<Row, 'key' | 'level' | 'sealed'> & { forks: boolean })[]> {
  const rows = await db
    .selectFrom('projectVariables')
    .select(['key', 'level', 'sealed', 'forks'])
    .where('projectId', '=', projectId)
    .execute()
  return rows.map((row) => ({ ...row, forks: row.forks === 1 }))
}

interface Place {
  projectId: number
  level: ProjectLevel
}

/** A key that existed keeps its switch for forks. */
export async function upsertProjectVariables(
  db: Db,
  { projectId, level }: Place,
  variables: readonly SealedVariable[],
  stamp: { updatedAt: number; updatedBy: number },
): Promise<void> {
  if (variables.length === 0) return
  await db
    .insertInto('projectVariables')
    .values(variables.map((variable) => ({ projectId, level, ...variable, ...stamp })))
    .onConflict((conflict) =>
      conflict.columns(['projectId', 'level', 'key']).doUpdateSet((e) => ({
        sealed: e.ref('excluded.sealed'),
        fingerprint: e.ref('excluded.fingerprint'),
        bytes: e.ref('excluded.bytes'),
        ...stamp,
      })),
    )
    .execute()
}

export async function updateForks(
  db: Db,
  { projectId, level }: Place,
  keys: readonly string[],
  change: { forks: boolean; updatedAt: number; updatedBy: number },
): Promise<void> {
  if (keys.length === 0) return
  await db
    .updateTable('projectVariables')
    .set({ ...change, forks: change.forks ? 1 : 0 })
    .where('projectId', '=', projectId)
    .where('level', '=', level)
    .where('key', 'in', [...keys])
    .execute()
}

export async function deleteProjectVariables(
  db: Db,
  { projectId, level }: Place,
  keys: readonly string[],
): Promise<void> {
  if (keys.length === 0) return
  await db
    .deleteFrom('projectVariables')
    .where('projectId', '=', projectId)
    .where('level', '=', level)
    .where('key', 'in', [...keys])
    .execute()
}
