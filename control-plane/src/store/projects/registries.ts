// Stores credentials of image registries with encrypted passwords. Only app/environments/values.ts decrypts them.
import type { Selectable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { RegistriesTable } from '../schema.ts'

/** The organization's own rows have this project. */
export const WHOLE_ORGANIZATION = 0

export interface RegistryOwner {
  organizationId: number
  projectId: number
}

export type SealedRegistry = Selectable<RegistriesTable>
/** The columns that may be shown. */
export type Registry = Omit<SealedRegistry, 'sealed'>

const COLUMNS = [
  'organizationId',
  'projectId',
  'host',
  'username',
  'updatedAt',
  'updatedBy',
] as const

/** Rows of the project and of its organization, by host. */
export async function listRegistries(
  db: Db,
  { organizationId, projectId }: RegistryOwner,
): Promise<Registry[]> {
  return db
    .selectFrom('registries')
    .select(COLUMNS)
    .where('organizationId', '=', organizationId)
    .where('projectId', 'in', [projectId, WHOLE_ORGANIZATION])
    .orderBy('host')
    .orderBy('projectId', 'desc')
    .execute()
}

export async function listSealedRegistries(
  db: Db,
  { organizationId, projectId }: RegistryOwner,
): Promise<SealedRegistry[]> {
  return db
    .selectFrom('registries')
    .selectAll()
    .where('organizationId', '=', organizationId)
    .where('projectId', 'in', [projectId, WHOLE_ORGANIZATION])
    .execute()
}

export async function upsertRegistry(db: Db, row: SealedRegistry): Promise<void> {
  const { username, sealed, updatedAt, updatedBy } = row
  await db
    .insertInto('registries')
    .values(row)
    .onConflict((conflict) =>
      conflict
        .columns(['organizationId', 'projectId', 'host'])
        .doUpdateSet({ username, sealed, updatedAt, updatedBy }),
    )
    .execute()
}

/** Returns whether it existed. */
export async function deleteRegistry(db: Db, owner: RegistryOwner, host: string): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('registries')
    .where('organizationId', '=', owner.organizationId)
    .where('projectId', '=', owner.projectId)
    .where('host', '=', host)
    .executeTakeFirst()
  return numDeletedRows > 0n
}

/** All of an organization that ends. */
export async function deleteRegistriesOf(db: Db, organizationId: number): Promise<void> {
  await db.deleteFrom('registries').where('organizationId', '=', organizationId).execute()
}
