// Stores the encrypted webhook secrets of a project. app/forges/webhook-secrets.ts decides which of them are valid.
import type { Updateable } from 'kysely'
import type { Db } from '../engine/db.ts'
import type { ProjectsTable } from '../schema.ts'

type Columns =
  | 'webhookSecretSealed'
  | 'webhookSecretRotatedAt'
  | 'previousWebhookSecretSealed'
  | 'previousAcceptedUntil'
  | 'legacyWebhookSecretSealed'
  | 'lastDeliveryAt'
  | 'lastDeliverySecret'

export async function updateWebhookSecrets(
  db: Db,
  projectId: number,
  change: Pick<Updateable<ProjectsTable>, Columns>,
): Promise<void> {
  await db.updateTable('projects').set(change).where('id', '=', projectId).execute()
}

/** Applies only while the current secret is unchanged; returns false if a new one was created. */
export async function endFormerSecrets(
  db: Db,
  projectId: number,
  currentSealed: string | null,
  change: Pick<Updateable<ProjectsTable>, Columns>,
): Promise<boolean> {
  const result = await db
    .updateTable('projects')
    .set(change)
    .where('id', '=', projectId)
    .where('webhookSecretSealed', currentSealed === null ? 'is' : '=', currentSealed)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** Lists projects from before each had its own secret. */
export const listProjectsWithoutSecret = (
  db: Db,
): Promise<{ id: number; organizationId: number }[]> =>
  db
    .selectFrom('projects')
    .select(['id', 'organizationId'])
    .where('webhookSecretSealed', 'is', null)
    .where('legacyWebhookSecretSealed', 'is', null)
    .where('removedAt', 'is', null)
    .execute()
