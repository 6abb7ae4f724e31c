// Step `static:<service>`: copies a folder of the checkout to a place that only root can write and the proxy serves.
// Each deployment has its own copy, so the previous version is served until the switch, and again after a failure.
import { join } from 'node:path'
import { FailureCode } from '@berth/shared/wire'
import { copyStaticRoot, StaticRefused } from '../../files/static-copy.ts'
import { ensureStaticFolder, listFolder, removeTree } from '../../machine/files.ts'
import { isDiskFull } from '../../machine/git/failure.ts'
import { type Attempt, accountOf } from '../attempt.ts'
import { StepFailure } from '../failure.ts'
import { guardDiskSpace } from '../steps/disk-space.ts'
import { sectionOf } from './configure.ts'
import { serviceOf } from './service-processes.ts'

export const staticFolder = ({ paths, assignment }: Attempt, service: string): string =>
  join(paths.statics, service, String(assignment.taskId))

export async function copyStatic(attempt: Attempt, name: string): Promise<void> {
  const { paths, results, output, releaseDir } = attempt
  const { target } = serviceOf(attempt, name)
  if (target?.kind !== 'root') throw new Error(`service ${name} has no folder`)
  const failed = (what: string): StepFailure =>
    new StepFailure(FailureCode.STATIC_FAILED, `${target.path} (service ${name}) ${what}`)
  const folder = staticFolder(attempt, name)
  await removeTree(folder)
  ensureStaticFolder(paths.statics, results.webGroup ?? undefined)
  const account = accountOf(attempt) ?? null
  const started = performance.now()
  try {
    const { files, bytes, skipped } = await guardDiskSpace(attempt, (signal) =>
      copyStaticRoot({ account, base: releaseDir, root: target.path, target: folder, signal }),
    )
    if (files === 0) throw new StaticRefused('holds no file that could be served.')
    const ms = Math.round(performance.now() - started)
    output.say(`${files} files (${bytes} bytes) of ${target.path} were copied in ${ms} ms.`)
    if (skipped > 0) {
      output.say(`${skipped} hidden files, links and others that are no regular files were not.`)
    }
  } catch (error) {
    attempt.interruption.throwIfFired()
    if (error instanceof StepFailure) throw error
    if (error instanceof StaticRefused) throw failed(error.message)
    const { message } = error as Error
    if (isDiskFull(message)) throw new StepFailure(FailureCode.DISK_FULL, message)
    throw failed(`could not be copied: ${message}.`)
  }
}

/** Removes copies of other deployments, which no route uses. */
export async function collectStatics(attempt: Attempt): Promise<void> {
  const { paths, assignment } = attempt
  const isStatic = new Set(
    sectionOf(attempt)
      .services.filter(({ target }) => target?.kind === 'root')
      .map(({ name }) => name),
  )
  if (isStatic.size === 0) return removeTree(paths.statics)
  for (const service of listFolder(paths.statics)) {
    const folder = join(paths.statics, service)
    if (!isStatic.has(service)) await removeTree(folder)
    else {
      const old = listFolder(folder).filter((task) => task !== String(assignment.taskId))
      for (const task of old) await removeTree(join(folder, task))
    }
  }
}
