// A health check by command of a running process: as its account, in its folder, with its variables and within its
// limits, like the process itself. Its output goes nowhere; the beginning of it explains a failure.
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { PROCESSES } from '../limits/machine.ts'
import { HEALTH } from '../limits/maintenance.ts'
import { Cgroup, detectCgroups } from '../machine/process/cgroups.ts'
import { startWithPipes } from '../machine/process/commands.ts'
import { confineCommand } from '../machine/process/confinement.ts'
import type { CommandCheck, HealthSample } from '../machine/process/health.ts'
import { endTree, type ProcessTree } from '../machine/process/process-tree.ts'
import { sharedPaths } from '../machine/users/shared-paths.ts'
import { quoteShell } from '../runner/plan/variable-files.ts'
import { shownCommand, startExcerpt } from '../runner/steps/health-command.ts'
import type { AgentSettings } from '../settings.ts'
import { type Instructions, processName } from '../supervise/instructions.ts'

const MARKER = 'BERTH_HEALTH'

export async function runCheck(
  settings: AgentSettings,
  of: Instructions,
  check: CommandCheck,
): Promise<HealthSample> {
  const { command, timeoutMs } = check
  const what = shownCommand(check)
  const excerpt = startExcerpt()
  const id = randomUUID()
  const { memoryBytes, cpus, pids = PROCESSES.pids, temporary } = of
  const bounds = { memoryBytes, cpus, pids }
  // not the group of the service: its memory must not end because a check needed some
  const cgroup = Cgroup.create(detectCgroups(), `${processName(of)}-check`, bounds)
  const running = startWithPipes({
    argv: confineCommand(
      typeof command === 'string' ? command : command.map(quoteShell).join(' '),
      {
        account: of.account ?? undefined,
        cgroupFiles: cgroup?.joinFiles() ?? [],
        directory: of.env.BERTH_RELEASE_DIR ?? of.directory,
        paths: temporary ? { temporary, instead: sharedPaths(settings) } : undefined,
        variablesFile: of.variablesFile,
        additions: of.additions,
        hasTerminal: false,
      },
    ),
    env: { ...of.env, [MARKER]: id },
    onOutput: (_, chunk) => excerpt.add(chunk),
  })
  const tree: ProcessTree = {
    root: running.pid,
    marker: `${MARKER}=${id}`,
    cgroup,
    spared: new Set(),
  }
  const exit = await Promise.race([running.exited, delay(timeoutMs, undefined, { ref: false })])
  await endTree(tree, exit ? 0 : HEALTH.killMs, () => (exit ? undefined : running.interrupt()))
  cgroup?.remove()
  const failed = (how: string): HealthSample => ({
    isHealthy: false,
    said: `${what} ${how}`,
    detail: excerpt.text(),
  })
  if (!exit) return failed(`did not end in ${timeoutMs} ms`)
  if (exit.code === 0) return { isHealthy: true, said: `${what} exited with 0`, detail: '' }
  return failed(exit.signal ? `was ended by ${exit.signal}` : `exited with ${exit.code}`)
}
