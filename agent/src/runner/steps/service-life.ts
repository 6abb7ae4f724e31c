// Phase start: processes that Berth keeps running. `start` hands a process to its supervisor, `health` waits until it
// answers. With `port: auto` the old version goes on serving beside it; otherwise the old one is paused, and comes
// back (undo.ts) when anything fails afterwards.

import { join } from 'node:path'
import { PROCESSES } from '@berth/shared'
import type { ManualService } from '@berth/shared/service-file'
import { FailureCode } from '@berth/shared/wire'
import { Cgroup, detectCgroups, listCgroups } from '../../exec/cgroups.ts'
import { baseEnvironment, dropRights } from '../../exec/confinement.ts'
import { insideFolder } from '../../exec/files.ts'
import { findSocketListeners } from '../../exec/ports.ts'
import { type ProbeTarget, probe } from '../../exec/probes.ts'
import { runProgram } from '../../exec/programs.ts'
import type { ProcessRow } from '../../journal/ledger.ts'
import { type HealthCheck, judgeHealth } from '../../recipes/health.ts'
import { replacementOf } from '../../recipes/manual.ts'
import { serviceAdditions } from '../../recipes/variables.ts'
import { proofMs } from '../../settings.ts'
import { instructionsOf, startService, stopService } from '../../supervise/control.ts'
import {
  type Instructions,
  isSupervised,
  readState,
  type ServiceEnd,
  type ServiceState,
  serviceDir,
} from '../../supervise/instructions.ts'
import { readLastLines } from '../../supervise/service-log.ts'
import { type Attempt, accountOf, environmentName, need } from '../attempt.ts'
import { StepFailure } from '../failure.ts'
import { newScene, placesOf } from './command.ts'
import { environmentFacts, sectionOf } from './configure.ts'

export function serviceOf(attempt: Attempt, name: string): ManualService {
  const found = sectionOf(attempt).services.find((service) => service.name === name)
  if (!found) throw new Error(`no service ${name} in the file`)
  return found
}

export const socketPath = (attempt: Attempt, path: string): string =>
  join(attempt.places.sockets, path)

/** Where the service can be asked; undefined for one without an address. */
export function targetOf(attempt: Attempt, service: ManualService): ProbeTarget | undefined {
  const port = need(attempt, 'ports').get(service.name)
  if (port !== undefined) return { port }
  const { target } = service
  return target?.kind === 'socket' ? { socket: socketPath(attempt, target.path) } : undefined
}

function makeInstructions(attempt: Attempt, service: ManualService): Instructions {
  const { run, name, target } = service
  if (!run) throw new Error(`service ${name} has no command`)
  const directory = insideFolder(attempt.releaseDir, run.dir ?? '.')
  if (!directory) {
    throw new StepFailure(
      FailureCode.HEALTH_CHECK_FAILED,
      `The folder ${run.dir} of service ${name} is not in the checkout.`,
    )
  }
  const variables = need(attempt, 'variables')
  const allowed =
    Number(attempt.spec.environment?.limits?.memoryBytes ?? 0) || Number.MAX_SAFE_INTEGER
  const port = need(attempt, 'ports').get(name)
  return {
    format: 1,
    environmentId: attempt.assignment.environmentId,
    environmentName: environmentName(attempt),
    service: name,
    taskId: attempt.assignment.taskId,
    commit: need(attempt, 'commit').sha,
    command: run.command,
    directory,
    account: accountOf(attempt) ?? null,
    variablesFile: attempt.variablesFile,
    env: baseEnvironment(placesOf(attempt, newScene(attempt))),
    additions: serviceAdditions(variables, run.env, { port, isAuto: target?.kind === 'auto' }),
    secretKeys: variables.secretKeys,
    port: port ?? null,
    socket: target?.kind === 'socket' ? socketPath(attempt, target.path) : null,
    logDir: join(attempt.places.logs, name),
    stopTimeoutMs: run.stopTimeoutMs,
    memoryBytes: Math.min(run.memoryBytes ?? PROCESSES.serviceMemoryBytes, allowed),
    cpus: run.cpus ?? PROCESSES.serviceCpus,
  }
}

const rowsOf = (attempt: Attempt): ProcessRow[] =>
  attempt.ledger.listProcesses(attempt.assignment.environmentId)

/** Commands of attempts whose runner was killed: nobody else runs in this environment now. */
async function endForgottenCommands(attempt: Attempt): Promise<void> {
  const host = detectCgroups()
  const prefix = `${environmentName(attempt)}-`
  for (const name of listCgroups(host, prefix)) {
    if (!/^[0-9]+$/.test(name.slice(prefix.length))) continue
    const group = Cgroup.create(host, name)
    await group?.kill()
    group?.remove()
  }
}

/**
 * What attempts that are over left behind: their commands and half-started processes end, paused processes count as
 * serving again.
 */
export async function settleLeftovers(attempt: Attempt): Promise<void> {
  const { attemptId } = attempt.assignment
  await endForgottenCommands(attempt)
  for (const row of rowsOf(attempt).filter((found) => found.attemptId !== attemptId)) {
    if (row.state === 'paused') attempt.ledger.setProcessState(row, 'serving', row.attemptId)
    if (row.state !== 'starting' && row.state !== 'retired') continue
    attempt.output.say(`Ending ${row.service} of deployment ${row.taskId}, which was left over.`)
    await stopService(attempt.settings, instructionsOf(row))
    attempt.ledger.removeProcess(row)
  }
}

/** Nobody unlinks a Unix socket for a process that was ended, and the next one could not listen there. */
async function removeStaleSocket(attempt: Attempt, socket: string): Promise<void> {
  if (findSocketListeners(socket).length > 0) return
  await runProgram([...dropRights(accountOf(attempt)), '/bin/rm', '-f', '--', socket])
}

export async function startProcess(attempt: Attempt, name: string): Promise<void> {
  const { ledger, settings, output, assignment } = attempt
  const service = serviceOf(attempt, name)
  const instructions = makeInstructions(attempt, service)
  const old = rowsOf(attempt).find((row) => row.service === name && row.state === 'serving')
  if (old && replacementOf(service) === 'after') {
    output.say(`Stopping ${name} of deployment ${old.taskId}: from here to its start it is away.`)
    ledger.setProcessState(old, 'paused', assignment.attemptId)
    const tookMs = await stopService(settings, instructionsOf(old))
    output.say(`${name} of deployment ${old.taskId} stopped after ${Math.round(tookMs)} ms.`)
  }
  if (instructions.socket) await removeStaleSocket(attempt, instructions.socket)
  ledger.putProcess({
    environmentId: assignment.environmentId,
    service: name,
    taskId: assignment.taskId,
    attemptId: assignment.attemptId,
    state: 'starting',
    port: instructions.port ?? undefined,
    instructions: JSON.stringify(instructions),
  })
  await startService(settings, instructions, { isVerified: false })
  const where = instructions.port === null ? '' : ` on port ${instructions.port}`
  output.say(`${name} was started${where}.`)
}

export function stateOf(attempt: Attempt, service: string): ServiceState | undefined {
  const { environmentId, taskId } = attempt.assignment
  return readState(serviceDir(attempt.settings, { environmentId, service, taskId }))
}

const describeEnd = (end: ServiceEnd): string =>
  end.signal ? `was ended by ${end.signal}` : `stopped with exit code ${end.code}`

/** The last lines of the service go to the output; the last one also into the message. */
function withLastLines(
  attempt: Attempt,
  name: string,
  code: FailureCode,
  text: string,
): StepFailure {
  const lines = readLastLines(join(attempt.places.logs, name), attempt.assignment.taskId)
  if (lines.length > 0) {
    attempt.output.say(`Last ${lines.length} lines of ${name}:\n${lines.join('\n')}`)
  }
  const last = lines.filter((line) => line.trim() !== '').at(-1)
  const quoted = last ? ` Its last line: ${last.slice(0, 300)}` : ` ${name} wrote nothing.`
  return new StepFailure(code, `${text}${quoted}`)
}

/** A process that ended fails the deployment at once: nothing is restarted before it was verified. */
export function requireAlive(attempt: Attempt, name: string): ServiceState {
  const state = stateOf(attempt, name)
  if (state && isSupervised(state) && !state.lastEnd) return state
  if (state?.lastEnd) {
    const { lastEnd } = state
    const after = `${(lastEnd.upMs / 1_000).toFixed(1)} s`
    if (lastEnd.isOutOfMemory) {
      const text = `${name} was stopped by the kernel after ${after}: it needed more memory than it may have.`
      throw withLastLines(attempt, name, FailureCode.OUT_OF_MEMORY, text)
    }
    const text = `${name} ${describeEnd(lastEnd)} after ${after}.`
    throw withLastLines(attempt, name, FailureCode.HEALTH_CHECK_FAILED, text)
  }
  const text = `The supervisor of ${name} is gone.`
  throw withLastLines(attempt, name, FailureCode.HEALTH_CHECK_FAILED, text)
}

/** `isAlive` throws when there is no use in asking further. */
export async function awaitHealthy(
  attempt: Attempt,
  name: string,
  target: ProbeTarget,
  check: HealthCheck,
  isAlive: () => void,
): Promise<void> {
  const since = performance.now()
  const host = environmentFacts(attempt).domain
  let failures = 0
  for (;;) {
    isAlive()
    const sample = await probe(target, check, host)
    isAlive()
    attempt.interruption.throwIfFired()
    const verdict = judgeHealth(check, sample, performance.now() - since, failures)
    if (verdict.kind === 'healthy') return
    if (verdict.kind === 'unhealthy') {
      throw withLastLines(attempt, name, FailureCode.HEALTH_CHECK_FAILED, verdict.message)
    }
    failures = verdict.failures
    await attempt.interruption.wait(verdict.waitMs)
  }
}

export async function awaitHealth(attempt: Attempt, name: string): Promise<void> {
  const service = serviceOf(attempt, name)
  const { health } = service
  const isAlive = (): void => void requireAlive(attempt, name)
  isAlive()
  if (health.kind === 'none') return attempt.output.say(`${name} has no health check.`)
  const target = targetOf(attempt, service)
  if (health.kind === 'stays-up' || !target) {
    const until = performance.now() + proofMs(attempt.settings)
    while (performance.now() < until) {
      await attempt.interruption.wait(PROCESSES.endPollMs)
      isAlive()
    }
    return attempt.output.say(`${name} has stayed up for ${proofMs(attempt.settings) / 1_000} s.`)
  }
  await awaitHealthy(attempt, name, target, health, isAlive)
  attempt.output.say(`${name} is healthy.`)
}
