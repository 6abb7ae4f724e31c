// Runs an action: with the manual recipe as a command in the release that serves, with docker inside the running
// container of its service. It gets the values of the running version, so it never sees a half-applied change.

import { setTimeout as delay } from 'node:timers/promises'
import type { Action } from '@berth/shared/service-file'
import { FailureCode, LogSource } from '@berth/shared/wire'
import { PROCESSES } from '../../limits/machine.ts'
import { findRunning } from '../../machine/docker/containers.ts'
import type { Engine } from '../../machine/docker/engine.ts'
import { type RunningExec, startExec } from '../../machine/docker/exec.ts'
import {
  endTree,
  listTree,
  type ProcessTree,
  signalMembers,
} from '../../machine/process/process-tree.ts'
import { serverName } from '../../machine/server-settings.ts'
import { type Attempt, hasMarkerOf } from '../attempt.ts'
import { dockerOf } from '../docker/docker-context.ts'
import { Interrupted, StepFailure } from '../failure.ts'
import { findAction, toStep } from '../plan/action.ts'
import { type DockerPlan, isDockerPlan, isManualPlan, type RunningContainer } from '../plan/plan.ts'
import { LAUNCH } from '../plan/variable-files.ts'
import { awaitEnding, type CommandResult, runListedStep, shown } from './command.ts'
import { runInLast } from './destroy.ts'

export function actionOf(attempt: Attempt): Action {
  const { kind, environment } = attempt.spec
  const name = kind.case === 'action' ? kind.value.name : ''
  const { last } = attempt.results
  if (!last) {
    throw new StepFailure(
      FailureCode.NOT_DEPLOYED,
      `Nothing of ${environment?.identifier} was ever deployed successfully on server ${serverName(attempt.settings)}. Deploy it first.`,
    )
  }
  const action = findAction(last, name)
  if (action) return action
  throw new StepFailure(
    FailureCode.ACTION_UNKNOWN,
    `The last deployment (${last.taskId}) has no action ${name}.`,
  )
}

export async function runAction(attempt: Attempt): Promise<CommandResult> {
  const action = actionOf(attempt)
  const { last } = attempt.results
  if (isManualPlan(last)) {
    return runInLast(attempt, (context) =>
      runListedStep(attempt, toStep(action), 'command', context),
    )
  }
  if (isDockerPlan(last)) return runInContainer(attempt, action, last)
  throw new Error('a plan of no recipe')
}

const failed = (code: FailureCode, message: string, exitCode?: number): StepFailure =>
  new StepFailure(code, message, { exitCode, isCheck: false })

/** Where the action runs. */
export const containerOf = (
  engine: Engine,
  { services }: DockerPlan,
  { service }: Action,
): Promise<RunningContainer | undefined> =>
  findRunning(
    engine,
    services.filter((found) => found.service === service),
  )

async function runInContainer(
  attempt: Attempt,
  action: Action,
  last: DockerPlan,
): Promise<CommandResult> {
  const { engine } = dockerOf(attempt)
  const row = await containerOf(engine, last, action)
  if (!row) {
    const service = action.service ?? 'Its service'
    throw failed(FailureCode.STEP_FAILED, `${service} does not run. Deploy the environment again.`)
  }
  attempt.interruption.throwIfFired()
  const marker = hasMarkerOf(attempt)
  const running = await startExec(engine, row.containerId, {
    argv: ['/bin/sh', LAUNCH, '/bin/sh', '-eu', '-c', action.run],
    directory: action.dir,
    env: [marker],
    onOutput: (stream, chunk) => {
      try {
        attempt.output.write(stream === 'err' ? LogSource.STDERR : LogSource.STDOUT, chunk)
      } catch (error) {
        attempt.interruption.fail(error)
      }
    },
  })
  const ending = await awaitEnding(attempt, running.exited, action.timeoutMs)
  if (ending.kind === 'exit') return judge(action, row.service, ending.exit)
  await endExec(attempt, running, marker)
  if (ending.kind === 'interrupted') throw new Interrupted('The action was interrupted.')
  const seconds = Math.round(action.timeoutMs / 1_000)
  throw failed(FailureCode.TIMEOUT, `${action.name} took longer than ${seconds} s.`)
}

function judge(action: Action, service: string, exitCode: number | undefined): CommandResult {
  if (exitCode === 0) return { exitCode, message: '' }
  if (exitCode === undefined) {
    throw failed(FailureCode.STEP_FAILED, `${service} was stopped while the action ran.`)
  }
  const command = shown(action.run)
  if (exitCode === 137) {
    const message = `\`${command}\` was killed (exit 137): probably the memory of ${service} was not enough.`
    throw failed(FailureCode.OUT_OF_MEMORY, message, exitCode)
  }
  throw failed(FailureCode.STEP_FAILED, `\`${command}\` exited with ${exitCode}.`, exitCode)
}

/** The engine has no call to end an exec, so its processes are killed on the machine; the container continues. */
export async function endExec(
  attempt: Attempt,
  running: RunningExec,
  marker: string,
): Promise<void> {
  const root = await running.pid()
  if (root === undefined) return
  const tree: ProcessTree = { root, marker, cgroup: undefined, spared: new Set() }
  const left = await endTree(tree, attempt.limits.killGraceMs, () =>
    signalMembers(listTree(tree), 'SIGTERM'),
  )
  await Promise.race([
    running.exited.catch(() => undefined),
    delay(PROCESSES.supervisorMs, undefined, { ref: false }),
  ])
  if (left > 0) attempt.output.say(`Warning: ${left} processes of the action could not be ended.`)
}
