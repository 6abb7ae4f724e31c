// The steps of a restore. First the backup is fetched, checked and unpacked beside the data while the services run, so
// a damaged file, a wrong key or a full disk changes nothing. Then the services stop, the folders change places, and
// the services must become healthy; otherwise the former data returns. A recovery does the same if this runner dies.
import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type BackupPart, BackupPartKind, FailureCode, type StoredBackup } from '@berth/shared/wire'
import { type DataWork, newWork, type Swap } from '../../journal/data-work.ts'
import {
  ArchiveError,
  type ArchiveOptions,
  packFolder,
  unpackFolder,
} from '../../machine/archive.ts'
import { inGigabytes, measureDiskSpace, reserveOf } from '../../machine/disk-space.ts'
import { volumeName } from '../../machine/docker/names.ts'
import { findVolumeFolder } from '../../machine/docker/volumes.ts'
import { ensureFolder, ensureLogFolder, removeTree } from '../../machine/files.ts'
import { dropRights } from '../../machine/process/confinement.ts'
import { listLeftovers } from '../../machine/process/leftovers.ts'
import { runProgram } from '../../machine/process/programs.ts'
import { serverName } from '../../machine/server-settings.ts'
import { type Attempt, accountOf } from '../attempt.ts'
import { dockerOf } from '../docker/docker-context.ts'
import { Interrupted, StepFailure } from '../failure.ts'
import { PartKey } from '../parts.ts'
import { isDockerPlan, type LastPlan, type RestoreVerb } from '../plan/plan.ts'
import { commandCgroup } from '../steps/command.ts'
import { guardDiskSpace } from '../steps/disk-space.ts'
import { belongingOf } from '../steps/end-version.ts'
import { type Control, openControl, requireLast } from '../steps/lifecycle.ts'
import { managedServices } from '../steps/lifecycle-plan.ts'
import { restoreByCommand } from './commands.ts'
import { LOG_FOLDER, openData } from './make.ts'
import { commandServices, type ServiceWithCommand } from './plan.ts'
import {
  backupFolder,
  checkPart,
  downloadParts,
  identityOf,
  isInBucket,
  makePartial,
  openPart,
  partialFolder,
  restoreFailed,
} from './stored.ts'
import { inodeOf, putBack, swapIn } from './swap.ts'

interface Restoring {
  backup: StoredBackup
  last: LastPlan
  /** Where its parts are on this server. */
  folder: string
  /** Data that is replaced by unpacked parts. */
  targets: { part: BackupPart; live: string; other: string }[]
  /** Data that a command replaces, by service: its volumes are copied before. */
  commands: { part: BackupPart; service: ServiceWithCommand; copies: Omit<Swap, 'restored'>[] }[]
  work: DataWork
}

const RESTORING = new PartKey<Restoring>('restore')

function restoringOf(attempt: Attempt): Restoring {
  const found = attempt.parts.find(RESTORING)
  if (!found) throw new Error('the restore is not prepared yet')
  return found
}

export function restoreStep(attempt: Attempt, { does }: { does: RestoreVerb }): Promise<void> {
  switch (does) {
    case 'prepare':
      return prepare(attempt)
    case 'stage':
      return stage(attempt)
    case 'replace':
      return replace(attempt)
  }
}

const save = ({ ledger, assignment }: Attempt, work: DataWork): void =>
  ledger.dataWork.put(assignment.environmentId, work)

async function prepare(attempt: Attempt): Promise<void> {
  const { settings, assignment, spec } = attempt
  const { environmentId, attemptId } = assignment
  const backup = spec.kind.case === 'restore' ? spec.kind.value.backup : undefined
  if (!backup) throw new Error('not a restore')
  const last = requireLast(attempt)
  await openData(attempt, last)
  const folder = isInBucket(backup.place)
    ? partialFolder(settings, environmentId, backup.backupId)
    : backupFolder(settings, backup.environmentId, backup.backupId)
  const work = newWork(attemptId)
  const restoring: Restoring = { backup, last, folder, targets: [], commands: [], work }
  for (const part of backup.parts) await addPart(attempt, restoring, part)
  for (const command of restoring.commands) {
    // a volume that is replaced as a whole anyway
    const isTarget = (live: string): boolean => restoring.targets.some((one) => one.live === live)
    command.copies = command.copies.filter(({ live }) => !isTarget(live))
  }
  checkSpace(attempt, restoring)
  work.folders = [
    ...restoring.targets.map(({ other }) => other),
    ...restoring.commands.flatMap(({ copies }) => copies.map(({ other }) => other)),
    ...(isInBucket(backup.place) ? [folder] : []),
  ]
  save(attempt, work)
  attempt.parts.open(RESTORING, () => restoring)
  attempt.output.say(`Backup ${backup.backupId} has ${backup.parts.length} parts.`)
}

const doesNotFit = (what: string): StepFailure =>
  restoreFailed(
    `${what} Nothing was changed. Deploy the version that the backup was made of first.`,
  )

/** Beside the live folder, so that a rename moves it. */
const besideOf = (live: string, { assignment }: Attempt): string =>
  join(dirname(live), `.berth-restore-${assignment.taskId}`)

async function volumeFolders(attempt: Attempt, name: string): Promise<Omit<Swap, 'restored'>> {
  const { settings, assignment } = attempt
  const full = volumeName(settings, assignment.environmentId, name)
  const live = await findVolumeFolder(dockerOf(attempt).engine, settings, full)
  if (!live) throw doesNotFit(`The backup has volume ${name}, which is not on this server.`)
  return { live, other: besideOf(live, attempt) }
}

async function addPart(attempt: Attempt, restoring: Restoring, part: BackupPart): Promise<void> {
  const { last, targets, commands } = restoring
  const { kind, name } = part
  switch (kind) {
    case BackupPartKind.VOLUME: {
      const { volumes = [] } = isDockerPlan(last) ? last.section : {}
      if (!volumes.includes(name)) {
        throw doesNotFit(`The backup has volume ${name}, which the deployed version does not name.`)
      }
      targets.push({ part, ...(await volumeFolders(attempt, name)) })
      return
    }
    case BackupPartKind.FOLDER: {
      if (isDockerPlan(last)) {
        throw doesNotFit('The backup is that of a manual environment, and this one uses docker.')
      }
      const { shared: live } = attempt.paths
      targets.push({ part, live, other: besideOf(live, attempt) })
      return
    }
    case BackupPartKind.COMMAND: {
      const services = isDockerPlan(last) ? commandServices(last) : []
      const service = services.find((found) => found.name === name)
      if (!service) {
        throw doesNotFit(
          `The backup has the output of the backup command of ${name}, and the deployed version has no such command.`,
        )
      }
      const names = service.volumes.filter(({ readOnly }) => !readOnly).map((one) => one.name)
      const copies: Omit<Swap, 'restored'>[] = []
      for (const volume of names) copies.push(await volumeFolders(attempt, volume))
      commands.push({ part, service, copies })
      return
    }
    default:
      throw new StepFailure(
        FailureCode.AGENT_OUTDATED,
        'The backup has a part of a kind that the agent of this server does not know. Update the agent.',
      )
  }
}

/** The former data stays until the end, so both must fit. */
function checkSpace(attempt: Attempt, { backup, targets }: Restoring): void {
  const { settings } = attempt
  const unpacked = targets.reduce((sum, { part }) => sum + Number(part.contentSize), 0)
  const fetched = isInBucket(backup.place)
    ? backup.parts.reduce((sum, { size }) => sum + Number(size), 0)
    : 0
  const folders = [...targets.map(({ live }) => dirname(live)), settings.stateDir]
  for (const disk of measureDiskSpace(folders)) {
    const need = unpacked + fetched
    const reserve = reserveOf(disk.sizeBytes, settings.development)
    if (disk.freeBytes >= need + reserve) continue
    throw new StepFailure(
      FailureCode.DISK_FULL,
      `Server ${serverName(settings)} has ${inGigabytes(disk.freeBytes)} free below ${disk.folder}; the backup needs ${inGigabytes(need)} beside the present data and ${inGigabytes(reserve)} stay reserved. Nothing was changed.`,
    )
  }
}

async function stage(attempt: Attempt): Promise<void> {
  const { backup, folder, targets, commands } = restoringOf(attempt)
  await guardDiskSpace(attempt, async (signal) => {
    if (isInBucket(backup.place)) {
      await makePartial(folder)
      await downloadParts(attempt, backup, folder, signal)
      attempt.output.say('Downloaded it.')
    }
    for (const part of backup.parts) await checkPart(folder, part, signal)
    attempt.output.say('Sizes and hashes are those it was stored with.')
    for (const { part, other } of targets) {
      await unpack(attempt, other, part, signal)
      attempt.output.say(`Unpacked ${part.file}.`)
    }
    // a wrong key is found before anything stops
    for (const { part } of commands) {
      const content = await openPart(folder, part, identityOf(attempt))
      content.destroy()
    }
  }).catch((error: unknown) => {
    attempt.interruption.throwIfFired()
    throw error
  })
}

const optionsFor = (
  attempt: Attempt,
  folder: string,
  signal: AbortSignal,
  isOwned: boolean,
): ArchiveOptions => ({
  folder,
  account: isOwned ? accountOf(attempt) : undefined,
  cgroupFiles: commandCgroup(attempt)?.joinFiles() ?? [],
  signal,
})

async function unpack(
  attempt: Attempt,
  other: string,
  part: BackupPart,
  signal: AbortSignal,
): Promise<void> {
  const isOwned = part.kind === BackupPartKind.FOLDER
  await removeTree(other)
  mkdirSync(other, { mode: 0o700 })
  if (isOwned) ensureFolder(other, 0o750, accountOf(attempt))
  const content = await openPart(restoringOf(attempt).folder, part, identityOf(attempt))
  try {
    await unpackFolder(optionsFor(attempt, other, signal, isOwned), content)
  } catch (error) {
    attempt.interruption.throwIfFired()
    if (!(error instanceof ArchiveError)) throw error
    throw restoreFailed(
      `${part.file} could not be unpacked: ${error.message}. Nothing was changed.`,
    )
  }
  if (isOwned) await ensureLogFolder({ ...attempt.paths, shared: other }, accountOf(attempt))
}

interface Managed {
  name: string
  control: Control
}

/** Those that a task stopped stay stopped. */
async function openControls(attempt: Attempt, last: LastPlan): Promise<Managed[]> {
  const stopped = attempt.ledger.listStopped(attempt.assignment.environmentId)
  const managed: Managed[] = []
  for (const name of managedServices(last)) {
    if (stopped.has(name)) continue
    managed.push({ name, control: await openControl(attempt, last, name) })
  }
  return managed
}

async function replace(attempt: Attempt): Promise<void> {
  const { last, work } = restoringOf(attempt)
  const { ledger, assignment, output } = attempt
  const managed = await openControls(attempt, last)
  const startedAt = performance.now()
  try {
    await stopAll(attempt, managed)
    await copyBefore(attempt)
    await swapAll(attempt)
    await startAll(attempt, managed)
  } catch (error) {
    throw await goBack(attempt, managed, error)
  }
  work.isComplete = true // from here on the restored data stays, even if this process dies
  save(attempt, work)
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1)
  output.say(`The data of the backup is in place, and the services are healthy after ${seconds} s.`)
  await keepLogs(attempt)
  for (const folder of work.folders) await removeTree(folder)
  ledger.dataWork.remove(assignment.environmentId)
}

async function stopAll(attempt: Attempt, managed: readonly Managed[]): Promise<void> {
  for (const { name, control } of managed.toReversed()) {
    await control.pause()
    attempt.output.say(`${name} was stopped.`)
  }
  if (isDockerPlan(restoringOf(attempt).last)) return
  const left = listLeftovers(await belongingOf(attempt))
  if (left.length === 0) return
  const names = left.slice(0, 5).map(({ name, pid }) => `${name} (pid ${pid})`)
  throw restoreFailed(
    `${left.length} processes of it run that Berth does not manage: ${names.join(', ')}. Stop them first.`,
  )
}

/** A command changes the data in place, so a copy of the former data is made while nothing writes. */
async function copyBefore(attempt: Attempt): Promise<void> {
  const { commands, work } = restoringOf(attempt)
  await guardDiskSpace(attempt, async (signal) => {
    for (const { live, other } of commands.flatMap(({ copies }) => copies)) {
      await removeTree(other)
      mkdirSync(other, { mode: 0o700 })
      await packFolder(optionsFor(attempt, live, signal, false), (content) =>
        unpackFolder(optionsFor(attempt, other, signal, false), content),
      )
      work.swaps.push({ live, other, restored: inodeOf(live) })
    }
  })
}

async function swapAll(attempt: Attempt): Promise<void> {
  const { targets, work } = restoringOf(attempt)
  const swaps = targets.map(({ live, other }) => ({ live, other, restored: inodeOf(other) }))
  work.swaps.push(...swaps)
  save(attempt, work)
  for (const swap of swaps) swapIn(swap)
}

async function startAll(attempt: Attempt, managed: readonly Managed[]): Promise<void> {
  const { last, folder, commands } = restoringOf(attempt)
  for (const { name, control } of managed) {
    await control.start()
    const found = commands.find(({ service }) => service.name === name)
    if (!found || !isDockerPlan(last)) continue
    const content = await openPart(folder, found.part, identityOf(attempt))
    await restoreByCommand(attempt, last, found.service, content)
    attempt.output.say(`The restore command of ${name} succeeded.`)
  }
  const missing = commands.filter(
    ({ service }) => !managed.some(({ name }) => name === service.name),
  )
  if (missing.length === 0) return
  const names = missing.map(({ service }) => service.name).join(', ')
  throw restoreFailed(`${names} is stopped, so its restore command cannot run. Start it first.`)
}

/** Returns the failure to report. A problem with one service does not keep the others down. */
async function goBack(
  attempt: Attempt,
  managed: readonly Managed[],
  error: unknown,
): Promise<StepFailure> {
  const { work } = restoringOf(attempt)
  const problems: string[] = []
  const note = (fault: unknown): void => {
    if (!(fault instanceof Interrupted)) problems.push((fault as Error).message)
  }
  for (const { control } of managed.toReversed()) await control.pause().catch(note)
  for (const swap of work.swaps.toReversed()) putBack(swap)
  for (const { control } of managed) await control.start().catch(note)
  const { reason } = attempt.interruption
  const timedOut = error instanceof Interrupted || reason?.kind === 'timeout'
  const why = timedOut ? 'The restore took longer than it may.' : (error as Error).message
  const end =
    problems.length === 0
      ? 'The data of before is back, and the services were started with it.'
      : `The data of before is back, but not every service: ${problems.join(' ')}`
  return restoreFailed(`${why} ${end}`)
}

/** The files that services log to are not part of a backup; those of before stay readable. */
async function keepLogs(attempt: Attempt): Promise<void> {
  const { targets, last } = restoringOf(attempt)
  if (isDockerPlan(last)) return
  for (const { live, other } of targets) {
    const from = join(other, LOG_FOLDER)
    const to = join(live, LOG_FOLDER, `before-restore-${attempt.assignment.taskId}`)
    const account = accountOf(attempt)
    await runProgram([...dropRights(account), '/bin/mv', '--no-clobber', '--', from, to])
  }
}
