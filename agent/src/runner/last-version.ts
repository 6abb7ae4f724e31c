// What the last successful deployment left on this server: its release, its variables, and the values to mask.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type EnvironmentPaths, insideFolder } from '../machine/files.ts'
import { isManualPlan, type LastPlan, type ManualPlan, releaseIdOf } from './plan/plan.ts'
import { parseShellFile } from './plan/variable-files.ts'

export const releaseOf = (paths: EnvironmentPaths, last: ManualPlan): string =>
  join(paths.releases, String(releaseIdOf(last)))

export const variablesOf = (paths: EnvironmentPaths, last: LastPlan): string[] => {
  if (isManualPlan(last)) return [join(paths.variables, `${last.taskId}.sh`)]
  const files = last.services.map(({ service, taskId }) => `${taskId}-${service}.sh`)
  return files.map((name) => join(paths.variables, name))
}

/** Commands can still run in the release, with their values. */
export const hasRelease = (paths: EnvironmentPaths, last: LastPlan | null): boolean =>
  isManualPlan(last) &&
  insideFolder(releaseOf(paths, last), '.') !== undefined &&
  variablesOf(paths, last).every((file) => existsSync(file))

/** What must be masked when steps of the last deployment run, because they get the values of its file. */
export function lastSecrets(paths: EnvironmentPaths, last: LastPlan): Buffer[] {
  return variablesOf(paths, last).flatMap((file) => {
    let values: Map<string, string>
    try {
      values = parseShellFile(readFileSync(file, 'utf8'))
    } catch {
      return [] // without the file no command gets a value
    }
    const keys = last.secretKeys ?? [...values.keys()]
    return keys.map((key) => Buffer.from(values.get(key) ?? '')).filter((value) => value.length > 0)
  })
}
