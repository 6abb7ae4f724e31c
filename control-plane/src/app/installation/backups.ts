// Backups on a schedule, made by the running control plane. A moment that passed while it was stopped is made up for
// once. Platform administrators get one mail when backups begin to fail and one when they work again.
import { nextRun } from '@berth/shared/service-file'
import { configuredLock, makeBackup } from '../../backup/backup.ts'
import type { Context } from '../../context.ts'
import { listExpired } from '../../domain/installation/backups.ts'
import { BACKUPS } from '../../limits/installation.ts'
import { backupFailedLetter, backupRecoveredLetter } from '../../mail/messages.ts'
import {
  type BackupRun,
  deleteOldBackupRuns,
  deleteUnfinishedBackupRuns,
  insertBackupRun,
  listBackupRuns,
  updateBackupRun,
} from '../../store/installation/backup-runs.ts'
import { listPlatformAdmins } from '../../store/people/users.ts'
import { audit } from '../core/audit.ts'
import { change } from '../core/transaction.ts'
import { queueMail } from '../people/mail.ts'

const BY = { type: 'system', name: 'backups' } as const

/** Returns what stops it: a backup in progress is given up and leaves nothing. */
export async function startBackups(ctx: Context): Promise<() => Promise<void>> {
  let isOurs = ctx.replicas.isAlone
  if (isOurs) await deleteUnfinishedBackupRuns(ctx.db)
  if (ctx.config.backup.schedule === undefined) return async () => {}
  const stop = new AbortController()
  async function look(): Promise<void> {
    const wasOurs = isOurs
    isOurs = ctx.replicas.holds('backups')
    if (!isOurs) return
    if (!wasOurs) await deleteUnfinishedBackupRuns(ctx.db) // of a control plane that had this duty and died
    await backUpIfDue(ctx, stop.signal)
  }
  let running: Promise<void> | undefined
  const timer = setInterval(() => {
    running ??= look()
      .catch((error: unknown) => ctx.log.error({ err: error }, 'backups could not be checked'))
      .finally(() => {
        running = undefined
      })
  }, BACKUPS.lookMs)
  return async () => {
    clearInterval(timer)
    stop.abort()
    await running
  }
}

async function backUpIfDue(ctx: Context, signal: AbortSignal): Promise<void> {
  const { schedule, to } = ctx.config.backup
  if (schedule === undefined || to === undefined) return
  const [last] = await listBackupRuns(ctx.db, 1)
  const due = nextRun({ cron: schedule, timezone: 'UTC' }, last?.startedAt ?? ctx.startedAt)
  if (due === null || due > ctx.clock.now()) return
  const id = await insertBackupRun(ctx.db, { startedAt: ctx.clock.now(), place: to })
  const end = await attempt(ctx, to, signal)
  if (signal.aborted) return // the next start finds the row and makes it up
  await finish(ctx, id, end, last)
}

type End = Pick<BackupRun, 'name' | 'bytes' | 'error'>

async function attempt(ctx: Context, to: string, signal: AbortSignal): Promise<End> {
  const { config, clock, log } = ctx
  const end: End = { name: null, bytes: null, error: null }
  try {
    const now = clock.now()
    const lock = configuredLock(config)
    const made = await makeBackup(config, { to, lock, withLogs: true, now, signal })
    end.name = made.name
    end.bytes = made.bytes
    const expired = listExpired(await made.place.list(), config.backup, now)
    for (const { name } of expired) await made.place.remove(name)
    log.info({ name: made.name, bytes: made.bytes, removed: expired.length }, 'backup made')
  } catch (error) {
    log.error({ err: error }, 'the scheduled backup failed')
    end.error = (error as Error).message.slice(0, BACKUPS.errorCharacters) || 'unknown'
  }
  return end
}

async function finish(
  ctx: Context,
  id: number,
  end: End,
  last: BackupRun | undefined,
): Promise<void> {
  const failedBefore = last !== undefined && last.error !== null
  await change(ctx, async (c) => {
    await updateBackupRun(c.db, id, { ...end, finishedAt: c.now })
    await deleteOldBackupRuns(c.db, id, BACKUPS.keptRuns)
    if ((end.error !== null) === failedBefore) return
    const what = end.error === null ? 'end' : 'begin'
    await audit(c, BY, null, `alert.${what}`, ['backup', id], { kind: 'backup' })
    const about = { place: ctx.config.backup.to ?? '', url: ctx.baseUrl }
    const letter =
      end.error === null
        ? backupRecoveredLetter(about)
        : backupFailedLetter({ ...about, reason: end.error })
    for (const { email } of await listPlatformAdmins(c.db)) {
      await queueMail(ctx, c, { kind: 'alert', to: email, ...letter })
    }
  })
}
