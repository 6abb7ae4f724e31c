// Removes the variable files of a deployment that failed, so that its values do not stay on disk.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { listFolder } from '../../machine/files.ts'
import type { Attempt } from '../attempt.ts'

/** The docker recipe has two files for each service; those of `kept` services stay. */
export function removeVariables(
  { paths, assignment }: Attempt,
  kept: ReadonlySet<string> = new Set(),
): void {
  const own = new RegExp(`^${assignment.taskId}(?:-([a-z0-9-]+))?\\.`)
  for (const name of listFolder(paths.variables)) {
    const match = own.exec(name)
    if (match && !kept.has(match[1] ?? '')) rmSync(join(paths.variables, name), { force: true })
  }
}
