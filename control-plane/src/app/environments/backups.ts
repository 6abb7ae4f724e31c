// Backups of an environment's data: requested as tasks, completed by the agent's report, restored as tasks. The row is
// inserted with the task, so that what a failed task may have left is known and removed by the next backup.

import { AppError, backupLocation, type Trigger, VOLUME_BACKUPS } from '@berth/shared'
import type { BackupCreate, BackupRestore } from '@berth/shared/api'
import { DAY } from '@berth/shared/units'
import { type BackupMade, BackupPartKind } from '@berth/shared/wire'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { expiredBackups, restoreObstacle } from '../../domain/environments/backup.ts'
import { uuidv7 } from '../../identity/uuid.ts'
import type { Task } from '../../store/deployments/tasks.ts'
import {
  type Backup,
  completeBackup,
  findBackup,
  findBackupSettings,
  findStorage,
  insertBackup,
  listAbandoned,
  listBackups,
  listProjectBackups,
  markBackupsRemoved,
  type StoredPart,
  setBackupTask,
} from '../../store/environments/backups.ts'
import { type Environment, findFormerEnvironment } from '../../store/environments/environments.ts'
import type { Project } from '../../store/projects/projects.ts'
import {
  asReader,
  loadBackup,
  loadEnvironment,
  loadProject,
  missing,
  requireUnprotected,
} from '../core/access.ts'
import { type Actor, byCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change, emitEnvironment } from '../core/transaction.ts'
import { admitTask } from '../deployments/lifecycle.ts'
import { queueTask } from '../deployments/queue.ts'
import { getTask, type TaskView } from '../deployments/tasks.ts'

export const DEFAULT_SETTINGS = {
  keepCount: VOLUME_BACKUPS.keepCount,
  keepDays: null,
  place: 'server',
} as const

export async function listEnvironmentBackups(
  ctx: Context,
  caller: Caller,
  environmentId: number,
): Promise<Backup[]> {
  await loadEnvironment(ctx.db, caller, environmentId, 'read')
  return listBackups(ctx.db, environmentId, VOLUME_BACKUPS.listed)
}

/** Also those in a bucket of environments that were removed. */
export async function listAllBackups(
  ctx: Context,
  caller: Caller,
  projectId: number,
): Promise<Backup[]> {
  await loadProject(ctx.db, caller, projectId, 'read')
  return listProjectBackups(ctx.db, projectId, VOLUME_BACKUPS.listed)
}

export async function requestBackup(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  asked: BackupCreate,
  trigger: Trigger,
): Promise<TaskView> {
  await loadEnvironment(ctx.db, caller, environmentId, 'deploy')
  const id = await change(ctx, async (c) => {
    const { environment, project } = await admitTask(ctx, c, caller, environmentId, null)
    return queueBackup(c, environment, project, { ...asked, by: byCaller(caller), trigger })
  })
  return getTask(ctx, asReader(caller), id)
}

/** The caller decided that it may be queued and holds the environment's lock. */
export async function queueBackup(
  c: Change,
  environment: Environment,
  project: Project,
  asked: BackupCreate & { by: Actor; trigger: Trigger },
): Promise<number> {
  const { id: environmentId, organizationId, serverId } = environment
  const settings = (await findBackupSettings(c.db, environmentId)) ?? DEFAULT_SETTINGS
  const place = asked.place ?? settings.place
  const storage = place === 'bucket' ? await findStorage(c.db, organizationId) : undefined
  if (place === 'bucket' && !storage) {
    throw new AppError(
      'backup_storage_missing',
      'The organization has no storage for backups. An administrator adds it with `berth backup set-storage`.',
    )
  }
  const backupId = await insertBackup(c.db, {
    uuid: uuidv7(c.now),
    organizationId,
    projectId: project.id,
    environmentId,
    serverId,
    place,
    location: storage ? backupLocation(storage) : '',
    live: asked.live ? 1 : 0,
    createdAt: c.now,
  })
  const { by, trigger } = asked
  const message = asked.message ?? null
  const taskId = await queueTask(c, environment, project, {
    type: 'backup',
    backupId,
    by,
    trigger,
    message,
  })
  await setBackupTask(c.db, backupId, taskId)
  return taskId
}

export async function requestRestore(
  ctx: Context,
  caller: Caller,
  backupId: number,
  asked: BackupRestore,
  trigger: Trigger,
): Promise<TaskView> {
  const backup = await loadBackup(ctx.db, caller, backupId, 'deploy')
  const targetId = asked.environment_id ?? backup.environmentId
  await loadEnvironment(ctx.db, caller, targetId, 'deploy')
  const id = await change(ctx, async (c) => {
    const { environment, project } = await admitTask(ctx, c, caller, targetId, null)
    const source = await findFormerEnvironment(c.db, backup.environmentId)
    if (!source) throw missing()
    // who may not change a protected environment may not copy its data to where they can
    if (source.removedAt === null) await requireUnprotected(c.db, caller, source)
    await checkRestore(c, backup, source, environment)
    requireConfirmation(environment, asked.confirm)
    const message = asked.message ?? null
    const by = byCaller(caller)
    return queueTask(c, environment, project, { type: 'restore', backupId, by, trigger, message })
  })
  return getTask(ctx, asReader(caller), id)
}

async function checkRestore(
  c: Change,
  backup: Backup,
  source: Environment,
  target: Environment,
): Promise<void> {
  const storage = await findStorage(c.db, target.organizationId)
  const facts = ({ id, projectId, identifier, serverId }: Environment) => ({
    environmentId: id,
    projectId,
    identifier,
    serverId,
  })
  const obstacle = restoreObstacle({
    isComplete: backup.parts !== null,
    place: backup.place,
    source: { ...facts(source), serverId: backup.serverId },
    target: { ...facts(target), fromFork: target.fromFork },
    location: backup.location,
    storage: storage ? backupLocation(storage) : null,
  })
  if (obstacle !== null) throw new AppError('backup_not_restorable', obstacle)
}

function requireConfirmation({ identifier, ...environment }: Environment, confirm?: string): void {
  if (confirm === undefined ? !environment.protected : confirm === identifier) return
  const why = confirm === undefined ? `${identifier} is protected.` : 'Nothing was restored.'
  throw new AppError(
    'confirmation_required',
    `${why} A restore replaces its data. Confirm it with the environment's identifier: ${identifier}.`,
    { confirm: identifier },
  )
}

const KINDS: Partial<Record<BackupPartKind, StoredPart['kind']>> = {
  [BackupPartKind.VOLUME]: 'volume',
  [BackupPartKind.FOLDER]: 'folder',
  [BackupPartKind.COMMAND]: 'command',
}

/** An agent reported it; an environment's names are cut to what a file may have. */
export async function recordBackup(c: Change, task: Task, made: BackupMade): Promise<void> {
  const backup = task.backupId === null ? undefined : await findBackup(c.db, task.backupId)
  if (task.type !== 'backup' || backup?.uuid !== made.backupId) return
  const parts = made.parts.slice(0, VOLUME_BACKUPS.parts).flatMap((part): StoredPart[] => {
    const kind = KINDS[part.kind]
    if (!kind) return []
    return [
      {
        file: part.file.slice(0, 255),
        kind,
        name: part.name.slice(0, 64),
        sizeBytes: Number(part.size),
        contentBytes: Number(part.contentSize),
        sha256: Buffer.from(part.sha256).toString('hex'),
      },
    ]
  })
  if (parts.length === 0) return
  await completeBackup(c.db, backup.id, parts, c.now)
  const about = {
    id: task.environmentId,
    organizationId: task.organizationId,
    projectId: task.projectId,
  }
  emitEnvironment(c, about, 'environment.backup', { backup_id: backup.id })
}

export async function recordRemoved(
  c: Change,
  task: Task,
  uuids: readonly string[],
): Promise<void> {
  if (task.type !== 'backup') return
  await markBackupsRemoved(c.db, task, uuids.slice(0, VOLUME_BACKUPS.listed), c.now)
}

/** What the next backup of the environment removes; what is in another bucket than now cannot be reached. */
export async function listExpired(
  ctx: Context,
  task: Task,
  storage: string | null,
): Promise<Backup[]> {
  const now = ctx.clock.now()
  const { keepCount, keepDays } =
    (await findBackupSettings(ctx.db, task.environmentId)) ?? DEFAULT_SETTINGS
  const keepMs = keepDays === null ? null : keepDays * DAY
  const all = await listBackups(ctx.db, task.environmentId, VOLUME_BACKUPS.listed)
  const known = all
    .filter(({ id }) => id !== task.backupId)
    .map((backup) => ({
      ...backup,
      isComplete: backup.parts !== null,
      isOpen: backup.taskStatus === 'queued' || backup.taskStatus === 'running',
    }))
  const { abandonedMs, abandonedAtOnce } = VOLUME_BACKUPS
  const abandoned =
    storage === null
      ? []
      : await listAbandoned(ctx.db, task.projectId, now - abandonedMs, abandonedAtOnce)
  const due = [...expiredBackups(known, { keepCount, keepMs }, now), ...abandoned]
  return due
    .filter(({ place, location }) => place === 'server' || location === storage)
    .slice(0, VOLUME_BACKUPS.expiredAtOnce)
}
