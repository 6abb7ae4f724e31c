// The `backup` and `restore` commands of a service, inside its running container: what one writes to its standard output
// the other reads from its standard input. Both streams are bounded by what the other side takes.
import { PassThrough, type Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { LogSource } from '@berth/shared/wire'
import { findRunning } from '../../machine/docker/containers.ts'
import { type TalkingExec, talkToExec } from '../../machine/docker/exec-session.ts'
import { type Attempt, hasMarkerOf } from '../attempt.ts'
import { dockerOf } from '../docker/docker-context.ts'
import { Interrupted, type StepFailure } from '../failure.ts'
import type { DockerPlan } from '../plan/plan.ts'
import { LAUNCH } from '../plan/variable-files.ts'
import { endExec } from '../steps/action.ts'
import { awaitEnding, shown } from '../steps/command.ts'
import type { ServiceWithCommand } from './plan.ts'
import { backupFailed, restoreFailed } from './stored.ts'

type Fail = (message: string) => StepFailure

async function talk(
  attempt: Attempt,
  plan: DockerPlan,
  service: ServiceWithCommand,
  command: string,
  fail: Fail,
  onOutput: (chunk: Buffer) => Promise<void>,
): Promise<TalkingExec> {
  const { engine } = dockerOf(attempt)
  const replicas = plan.services.filter((found) => found.service === service.name)
  const running = await findRunning(engine, replicas)
  if (!running) throw fail(`${service.name} does not run, so \`${shown(command)}\` cannot.`)
  attempt.interruption.throwIfFired()
  return talkToExec(engine, running.containerId, {
    argv: ['/bin/sh', LAUNCH, '/bin/sh', '-eu', '-c', command],
    env: [hasMarkerOf(attempt)],
    terminal: null,
    async onOutput(stream, chunk) {
      if (stream === 'out') await onOutput(chunk)
      else attempt.output.write(LogSource.STDERR, chunk)
    },
  })
}

/** Throws unless it exits with 0 in time. */
async function requireSuccess(
  attempt: Attempt,
  exec: TalkingExec,
  { name, backup }: ServiceWithCommand,
  command: string,
  fail: Fail,
): Promise<void> {
  const ending = await awaitEnding(attempt, exec.exited, backup.timeoutMs)
  if (ending.kind !== 'exit') {
    await endExec(attempt, exec, hasMarkerOf(attempt))
    if (ending.kind === 'interrupted') throw new Interrupted('It was interrupted.')
    const seconds = Math.round((backup.timeoutMs ?? 0) / 1_000)
    throw fail(`\`${shown(command)}\` of ${name} took longer than ${seconds} s.`)
  }
  if (ending.exit === 0) return
  const why =
    ending.exit === undefined ? 'was ended with its container' : `exited with ${ending.exit}`
  throw fail(`\`${shown(command)}\` of ${name} ${why}.`)
}

export async function backUpByCommand(
  attempt: Attempt,
  plan: DockerPlan,
  service: ServiceWithCommand,
  consume: (output: Readable) => Promise<void>,
): Promise<void> {
  const { command } = service.backup
  const output = new PassThrough()
  const take = async (chunk: Buffer): Promise<void> => {
    if (output.destroyed || output.write(chunk)) return
    await new Promise<void>((resolve) => {
      output.once('drain', resolve)
      output.once('close', resolve)
    })
  }
  const exec = await talk(attempt, plan, service, command, backupFailed, take)
  exec.input.end() // it reads nothing
  const judged = requireSuccess(attempt, exec, service, command, backupFailed).then(
    () => output.end(),
    (error: Error) => output.destroy(error),
  )
  try {
    await consume(output)
  } catch (error) {
    output.destroy()
    await endExec(attempt, exec, hasMarkerOf(attempt))
    throw error
  } finally {
    await judged
  }
}

export async function restoreByCommand(
  attempt: Attempt,
  plan: DockerPlan,
  service: ServiceWithCommand,
  content: Readable,
): Promise<void> {
  const { restore } = service.backup
  const write = async (chunk: Buffer): Promise<void> =>
    attempt.output.write(LogSource.STDOUT, chunk)
  const exec = await talk(attempt, plan, service, restore, restoreFailed, write)
  // a command that ends early closes its input; its exit code says more than the closed pipe
  const sent = pipeline(content, exec.input, { end: true }).catch((error: Error) => error)
  await requireSuccess(attempt, exec, service, restore, restoreFailed)
  const problem = await sent
  if (problem && content.errored) throw problem
}
