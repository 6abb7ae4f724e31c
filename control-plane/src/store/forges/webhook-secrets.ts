// The webhook secrets of a project, sealed. Which of them still count is app/forges/webhook-secrets.ts's to say.
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

/** Only while the current secret is still this one; false: somebody made a new one. */
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

/** Projects from before each had a secret of its own. */
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
