// A health check by command: runs inside the container, with the variables of the service. Its output is not part of the
// log; the beginning of it explains a failure.
import { hasShell } from '../../machine/docker/containers.ts'
import type { Engine } from '../../machine/docker/engine.ts'
import { EngineError } from '../../machine/docker/engine-error.ts'
import { type RunningExec, startExec } from '../../machine/docker/exec.ts'
import type { CommandCheck, HealthSample } from '../../machine/process/health.ts'
import { type Attempt, hasMarkerOf } from '../attempt.ts'
import { LAUNCH } from '../plan/variable-files.ts'
import { endExec } from '../steps/action.ts'
import { awaitEnding } from '../steps/command.ts'
import { shownCommand, startExcerpt } from '../steps/health-command.ts'
import { dockerOf } from './docker-context.ts'

/** An image without a shell has its variables in its configuration, and can run only a list of words. */
async function argvIn(engine: Engine, id: string, { command }: CommandCheck): Promise<string[]> {
  const words = typeof command === 'string' ? ['/bin/sh', '-c', command] : command
  return (await hasShell(engine, id)) ? ['/bin/sh', LAUNCH, ...words] : words
}

/** How the caller waits for a command and ends one that takes too long. */
interface ExecWaiting {
  /** NAME=value in the environment of its processes. */
  marker: string
  awaitEnd(
    exited: Promise<number | undefined>,
  ): Promise<{ kind: 'exit'; exit: number | undefined } | { kind: 'timeout' | 'interrupted' }>
  end(running: RunningExec): Promise<void>
}

export function probeInContainer(
  attempt: Attempt,
  id: string,
  check: CommandCheck,
): Promise<HealthSample> {
  const marker = hasMarkerOf(attempt)
  return execCheck(dockerOf(attempt).engine, id, check, {
    marker,
    awaitEnd: (exited) => awaitEnding(attempt, exited, check.timeoutMs),
    async end(running) {
      await endExec(attempt, running, marker)
      attempt.interruption.throwIfFired()
    },
  })
}

export async function execCheck(
  engine: Engine,
  id: string,
  check: CommandCheck,
  waiting: ExecWaiting,
): Promise<HealthSample> {
  const what = shownCommand(check)
  const excerpt = startExcerpt()
  let running: RunningExec
  try {
    running = await startExec(engine, id, {
      argv: await argvIn(engine, id, check),
      directory: null,
      env: [waiting.marker],
      onOutput: (_, chunk) => excerpt.add(chunk),
    })
  } catch (error) {
    if (!(error instanceof EngineError) || error.kind === 'unavailable') throw error
    return { isHealthy: false, said: `${what} could not be started`, detail: error.message }
  }
  const ending = await waiting.awaitEnd(running.exited)
  if (ending.kind === 'exit') {
    const { exit } = ending
    if (exit === 0) return { isHealthy: true, said: `${what} exited with 0`, detail: '' }
    const how = exit === undefined ? 'ended with its container' : `exited with ${exit}`
    return { isHealthy: false, said: `${what} ${how}`, detail: excerpt.text() }
  }
  await waiting.end(running)
  const said = `${what} did not end in ${check.timeoutMs} ms`
  return { isHealthy: false, said, detail: excerpt.text() }
}
