// The steps of a backup. Everything is first written to a folder of root on this server, so that services are paused
// only for as long as a local copy takes, and a backup is stored completely or not at all.
import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { BackupPartKind, type BackupTask } from '@berth/shared/wire'
import { type DataWork, newWork } from '../../journal/data-work.ts'
import { ArchiveError, type ArchiveOptions, packFolder } from '../../machine/archive.ts'
import { writeAndSync } from '../../machine/atomic-files.ts'
import { describeExcess, openMeter } from '../../machine/disk-space.ts'
import { volumeName } from '../../machine/docker/names.ts'
import { findVolumeFolder } from '../../machine/docker/volumes.ts'
import { removeTree } from '../../machine/files.ts'
import { serverName } from '../../machine/server-settings.ts'
import { type Attempt, accountOf } from '../attempt.ts'
import { checkEngine } from '../docker/configure.ts'
import { dockerOf } from '../docker/docker-context.ts'
import { PartKey } from '../parts.ts'
import { type BackupVerb, type DockerPlan, isDockerPlan, type LastPlan } from '../plan/plan.ts'
import { commandCgroup } from '../steps/command.ts'
import { guardDiskSpace } from '../steps/disk-space.ts'
import { belongingOf, lookUpAccount } from '../steps/end-version.ts'
import { requireLast } from '../steps/lifecycle.ts'
import { backUpByCommand } from './commands.ts'
import { archivedVolumes, commandServices, databasesWithoutCommand, usersOf } from './plan.ts'
import { whileQuiet } from './quiet.ts'
import { endWork, recoverData } from './recover.ts'
import {
  backupFailed,
  backupFolder,
  isBucketError,
  isInBucket,
  keepFolder,
  makePartial,
  objectFolder,
  openBucket,
  type Part,
  partialFolder,
  showPart,
  storageOf,
  writePart,
} from './stored.ts'

/** What the manual recipe's services log is not data, and its readers know where they were in it. */
export const LOG_FOLDER = 'log'

interface Making {
  asked: BackupTask
  last: LastPlan
  folder: string
  /** Undefined: it stays on this server. */
  recipient: string | undefined
  work: DataWork
  parts: Part[]
}

const MAKING = new PartKey<Making>('backup')

function makingOf(attempt: Attempt): Making {
  const found = attempt.parts.find(MAKING)
  if (!found) throw new Error('the backup is not prepared yet')
  return found
}

export function backupStep(
  attempt: Attempt,
  { does, service }: { does: BackupVerb; service: string },
): Promise<void> {
  switch (does) {
    case 'prepare':
      return prepare(attempt)
    case 'command':
      return runCommand(attempt, service)
    case 'archive':
      return archive(attempt)
    case 'store':
      return store(attempt)
    case 'finish':
      return finish(attempt)
    case 'prune':
      return prune(attempt)
  }
}

/** Where the data is, for checks of disk space; both recipes. Also recovers what an earlier attempt left. */
export async function openData(attempt: Attempt, last: LastPlan): Promise<void> {
  const { settings, ledger, assignment, output } = attempt
  const { environmentId, attemptId } = assignment
  const folders = [settings.stateDir]
  if (isDockerPlan(last)) folders.push((await checkEngine(attempt)).dataRoot)
  else await lookUpAccount(attempt)
  const context = { ledger, settings, engine: dockerOf(attempt).engine }
  for (const note of await recoverData(context, { environmentId, attemptId })) output.say(note)
  attempt.results.disk = openMeter(folders)
}

async function prepare(attempt: Attempt): Promise<void> {
  const { settings, ledger, assignment, spec, output } = attempt
  const { environmentId, attemptId } = assignment
  if (spec.kind.case !== 'backup') throw new Error('not a backup')
  const asked = spec.kind.value
  const last = requireLast(attempt)
  await openData(attempt, last)
  const excess = ledger.usage.findExcess(environmentId)
  if (excess && !isInBucket(asked.place)) {
    throw backupFailed(`${describeExcess(excess, serverName(settings))} Backups on it count too.`)
  }
  requireData(attempt, last)
  const isBucket = isInBucket(asked.place)
  const folder = partialFolder(settings, environmentId, asked.backupId)
  const work: DataWork = { ...newWork(attemptId), folders: [folder] }
  const recipient = isBucket ? storageOf(attempt)?.recipient : undefined
  if (isBucket && !recipient) throw backupFailed('The organization has no storage for backups.')
  ledger.dataWork.put(environmentId, work)
  attempt.parts.open(MAKING, () => ({ asked, last, folder, recipient, work, parts: [] }))
  await makePartial(folder)
  const where = isBucket
    ? `${(await openBucket(attempt)).title}, encrypted`
    : 'the disk of this server'
  output.say(`To ${where}.`)
  if (isDockerPlan(last)) hintDatabases(attempt, last)
}

function requireData({ spec }: Attempt, last: LastPlan): void {
  if (!isDockerPlan(last)) return
  if (archivedVolumes(last).length + commandServices(last).length > 0) return
  throw backupFailed(
    `${spec.environment?.identifier} has no data: its .service.yml names no volume and no backup command.`,
  )
}

function hintDatabases(attempt: Attempt, last: DockerPlan): void {
  for (const service of databasesWithoutCommand(last)) {
    const message = `${service} is a database without a 'backup' command: its files are archived as a power cut would leave them. Add 'backup' to it in .service.yml for a backup that does not depend on the version of its image.`
    attempt.output.say(`Note: ${message}`)
    attempt.report.warning('backup_without_command', message, 'prepare')
  }
}

async function keepPart(
  attempt: Attempt,
  about: { kind: BackupPartKind; name: string },
  content: Readable,
  signal: AbortSignal,
): Promise<void> {
  const { folder, recipient, parts } = makingOf(attempt)
  const part = await writePart(folder, { ...about, recipient }, content, signal)
  parts.push(part)
  attempt.output.say(`Archived ${showPart(part)}.`)
}

async function runCommand(attempt: Attempt, service: string): Promise<void> {
  const { last } = makingOf(attempt)
  if (!isDockerPlan(last)) throw new Error('only docker services have commands')
  const found = commandServices(last).find(({ name }) => name === service)
  if (!found) throw new Error(`${service} has no backup command`)
  const about = { kind: BackupPartKind.COMMAND, name: service }
  await guardDiskSpace(attempt, (signal) =>
    backUpByCommand(attempt, last, found, (output) => keepPart(attempt, about, output, signal)),
  )
}

interface Source {
  kind: BackupPartKind
  name: string
  options: Omit<ArchiveOptions, 'signal'> & { exclude?: readonly string[] }
}

async function listSources(attempt: Attempt, last: LastPlan): Promise<Source[]> {
  const cgroupFiles = commandCgroup(attempt)?.joinFiles() ?? []
  if (!isDockerPlan(last)) {
    const { shared: folder } = attempt.paths
    const options = { folder, account: accountOf(attempt), cgroupFiles, exclude: [LOG_FOLDER] }
    return [{ kind: BackupPartKind.FOLDER, name: 'shared', options }]
  }
  const { settings, assignment } = attempt
  const sources: Source[] = []
  for (const name of archivedVolumes(last)) {
    const full = volumeName(settings, assignment.environmentId, name)
    const folder = await findVolumeFolder(dockerOf(attempt).engine, settings, full)
    if (!folder) {
      throw backupFailed(`Volume ${name} is not on this server. Deploy the environment again.`)
    }
    const options = { folder, account: undefined, cgroupFiles }
    sources.push({ kind: BackupPartKind.VOLUME, name, options })
  }
  return sources
}

async function archive(attempt: Attempt): Promise<void> {
  const { last, asked, work } = makingOf(attempt)
  const { ledger, assignment, output } = attempt
  const sources = await listSources(attempt, last)
  const pack = (): Promise<void> =>
    guardDiskSpace(attempt, async (signal) => {
      for (const { kind, name, options } of sources) {
        await packFolder({ ...options, signal }, (content) =>
          keepPart(attempt, { kind, name }, content, signal),
        ).catch((error: unknown) => {
          attempt.interruption.throwIfFired()
          if (!(error instanceof ArchiveError)) throw error
          const why = asked.live ? ' It changed meanwhile: back it up without --live.' : ''
          throw backupFailed(`${name} could not be archived: ${error.message}.${why}`)
        })
      }
    })
  if (asked.live) {
    await pack()
    output.say('The services ran meanwhile, so files may not fit together.')
    return
  }
  const users = isDockerPlan(last) ? usersOf(last, archivedVolumes(last)) : new Set<string>()
  const running = isDockerPlan(last)
    ? last.services.filter(({ service }) => users.has(service))
    : []
  const ms = await whileQuiet(
    {
      engine: dockerOf(attempt).engine,
      containers: running.map(({ container }) => container),
      processes: isDockerPlan(last) ? undefined : await belongingOf(attempt),
      work,
      save: () => ledger.dataWork.put(assignment.environmentId, work),
    },
    pack,
  )
  const who = isDockerPlan(last) ? [...users].join(', ') || 'No service' : 'Its processes'
  output.say(`Paused for ${ms} ms: ${who}. The files are those of one moment.`)
}

async function store(attempt: Attempt): Promise<void> {
  const { asked, folder, parts } = makingOf(attempt)
  const bucket = await openBucket(attempt)
  const { signal } = attempt.interruption
  const to = objectFolder(attempt.assignment.environmentId, asked.backupId)
  for (const { file } of parts) {
    try {
      const content = createReadStream(join(folder, file), { signal })
      await bucket.write(to + file, content)
    } catch (error) {
      attempt.interruption.throwIfFired()
      if (isBucketError(error)) throw backupFailed(error.message)
      throw error
    }
    attempt.output.say(`Uploaded ${file}.`)
  }
}

/** What an operator needs to use a backup without Berth. */
function manifestOf(attempt: Attempt, { asked, last, parts }: Making): string {
  const { spec, assignment } = attempt
  const manifest = {
    format: 1,
    backup: asked.backupId,
    environment: assignment.environmentId,
    identifier: spec.environment?.identifier,
    commit: last.commit,
    at: new Date().toISOString(),
    parts: parts.map(({ file, name, size, sha256, contentSize }) => ({
      file,
      name,
      bytes: Number(size),
      sha256: Buffer.from(sha256 ?? []).toString('hex'),
      content_bytes: Number(contentSize),
    })),
  }
  return `${JSON.stringify(manifest, null, 2)}\n`
}

async function finish(attempt: Attempt): Promise<void> {
  const making = makingOf(attempt)
  const { asked, folder, parts, recipient } = making
  const { settings, ledger, assignment, report, output } = attempt
  const { environmentId } = assignment
  writeAndSync(join(folder, 'manifest.json'), 'wx', manifestOf(attempt, making), 0o600)
  if (recipient === undefined) {
    keepFolder(folder, backupFolder(settings, environmentId, asked.backupId))
  } else {
    const name = `${objectFolder(environmentId, asked.backupId)}manifest.json`
    await (await openBucket(attempt)).write(name, createReadStream(join(folder, 'manifest.json')))
    await removeTree(folder)
  }
  report.backup(asked.backupId, parts)
  ledger.dataWork.remove(environmentId)
  const bytes = parts.reduce((sum, { size }) => sum + Number(size), 0)
  output.say(`The backup is complete: ${parts.length} parts, ${bytes} bytes.`)
}

/** The new backup is complete, so a problem here is a warning and the next backup tries again. */
async function prune(attempt: Attempt): Promise<void> {
  const { asked } = makingOf(attempt)
  const { settings, assignment, output, report } = attempt
  const { environmentId } = assignment
  const removed: string[] = []
  for (const { backupId, place, environmentId: owner } of asked.expired) {
    try {
      if (isInBucket(place)) await removeObjects(attempt, owner, backupId)
      else if (owner === environmentId) {
        await removeTree(backupFolder(settings, environmentId, backupId))
        await removeTree(partialFolder(settings, environmentId, backupId))
      }
      removed.push(backupId)
    } catch (error) {
      const message = `An old backup could not be removed: ${(error as Error).message}`
      output.say(`Warning: ${message}`)
      report.warning('backup_not_removed', message, 'prune')
    }
  }
  if (removed.length > 0) report.backupsRemoved(removed)
  output.say(`Old backups removed: ${removed.length}.`)
}

/** Also of an environment that was removed and left backups in the bucket. */
async function removeObjects(attempt: Attempt, owner: number, backupId: string): Promise<void> {
  const bucket = await openBucket(attempt)
  const found = await bucket.list(objectFolder(owner, backupId))
  for (const { name } of found) await bucket.remove(name)
}

/** After a failure of a backup or a restore. */
export async function takeBackData(attempt: Attempt): Promise<void> {
  const { ledger, settings, assignment, output } = attempt
  const { environmentId, attemptId } = assignment
  const work = ledger.dataWork.find(environmentId)
  if (work?.attemptId !== attemptId) return
  const context = { ledger, settings, engine: dockerOf(attempt).engine }
  for (const note of await endWork(context, environmentId, work)) output.say(note)
}
