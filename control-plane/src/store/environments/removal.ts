// Ends an environment or a project. The row stays, because tasks and audit reference it; all secrets and hostnames are
// deleted.
import type { Db } from '../engine/db.ts'
import { leaveForge } from '../forges/connections.ts'
import { deleteNoticesOfProject } from '../notices/notices.ts'
import { markServerBackupsRemoved } from './backups.ts'

export async function closeEnvironment(db: Db, id: number, now: number): Promise<void> {
  await db.deleteFrom('variables').where('environmentId', '=', id).execute()
  await db.deleteFrom('variableChanges').where('environmentId', '=', id).execute()
  await db.deleteFrom('schedules').where('environmentId', '=', id).execute()
  await db.deleteFrom('scheduleRuns').where('environmentId', '=', id).execute()
  await db.deleteFrom('environmentWatchers').where('environmentId', '=', id).execute()
  await db.deleteFrom('environmentMetrics').where('environmentId', '=', id).execute()
  await db.deleteFrom('backupSettings').where('environmentId', '=', id).execute()
  await markServerBackupsRemoved(db, id, now)
  await db.deleteFrom('hosts').where('environmentId', '=', id).execute()
  await db
    .updateTable('pullRequests')
    .set({ environmentId: null })
    .where('environmentId', '=', id)
    .execute()
  await db
    .updateTable('environments')
    .set({
      removedAt: now,
      updatedAt: now,
      basicAuthMode: 'off',
      basicAuthUsername: null,
      basicAuthHash: null,
      services: '[]',
      actions: '[]',
      formerServerId: null,
      observed: null,
    })
    .where('id', '=', id)
    .execute()
}

export async function closeProject(db: Db, id: number, now: number): Promise<void> {
  await db.deleteFrom('projectServers').where('projectId', '=', id).execute()
  await db.deleteFrom('registries').where('projectId', '=', id).execute()
  await leaveForge(db, id, now)
  await db.deleteFrom('projectVariables').where('projectId', '=', id).execute()
  await deleteNoticesOfProject(db, id)
  await db
    .updateTable('projects')
    .set({
      removedAt: now,
      updatedAt: now,
      deployKeySealed: '',
      basicAuthUsername: null,
      basicAuthHash: null,
      webhookSecretSealed: null,
      previousWebhookSecretSealed: null,
      previousAcceptedUntil: null,
      legacyWebhookSecretSealed: null,
      hostTokenSealed: null,
      reconcileAt: null,
    })
    .where('id', '=', id)
    .execute()
}
