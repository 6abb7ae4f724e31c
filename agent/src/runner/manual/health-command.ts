// A health check by command: runs like a step, as the environment's own user, in the release that is being deployed. Its
// output is not part of the log; the beginning of it explains a failure.
import { FailureCode } from '@berth/shared/wire'
import type { CommandCheck, HealthSample } from '../../machine/process/health.ts'
import type { Attempt } from '../attempt.ts'
import { StepFailure } from '../failure.ts'
import { quoteShell } from '../plan/variable-files.ts'
import { runCommand, versionContext } from '../steps/command.ts'
import { shownCommand, startExcerpt } from '../steps/health-command.ts'

export async function probeByCommand(
  attempt: Attempt,
  check: CommandCheck,
  env: Readonly<Record<string, string>>,
): Promise<HealthSample> {
  const { command, timeoutMs } = check
  const what = shownCommand(check)
  const excerpt = startExcerpt()
  const run = typeof command === 'string' ? command : command.map(quoteShell).join(' ')
  const step = { title: what, run, dir: null, env, timeoutMs, allowFailure: false }
  // the variables of the service are resolved already
  const context = { ...versionContext(attempt), strong: new Set<string>(), mayActivate: false }
  try {
    const { exit } = await runCommand(attempt, step, context, (_, chunk) => excerpt.add(chunk))
    if (exit.code === 0) return { isHealthy: true, said: `${what} exited with 0`, detail: '' }
    const how = exit.signal ? `was ended by ${exit.signal}` : `exited with ${exit.code}`
    return { isHealthy: false, said: `${what} ${how}`, detail: excerpt.text() }
  } catch (error) {
    if (!(error instanceof StepFailure) || error.code !== FailureCode.TIMEOUT) throw error
    const said = `${what} did not end in ${timeoutMs} ms`
    return { isHealthy: false, said, detail: excerpt.text() }
  }
}
