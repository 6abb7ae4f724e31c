// Phase start: processes that Berth keeps running. `start` hands a process to its supervisor, `health` waits until it
// answers. With `port: auto` the old version serves beside it; otherwise the old one is paused and started again
// (undo.ts) when anything fails afterwards.

import { join } from 'node:path'
import { STEPS } from '@berth/shared'
import type { CheckTiming, ManualService } from '@berth/shared/service-file'
import { FailureCode } from '@berth/shared/wire'
import type { ProcessRow } from '../../journal/ledger.ts'
import { PROCESSES } from '../../limits/machine.ts'
import { insideFolder } from '../../machine/files.ts'
import { Cgroup, detectCgroups, listCgroups } from '../../machine/process/cgroups.ts'
import { baseEnvironment, toolPath } from '../../machine/process/confinement.ts'
import { askingCheck, type HealthCheck, type HealthSample } from '../../machine/process/health.ts'
import { explainListening, listListening } from '../../machine/process/listening.ts'
import { type ProbeTarget, probe } from '../../machine/process/probes.ts'
import { readSocketInodes } from '../../machine/process/processes.ts'
import { openSocket } from '../../machine/process/sockets.ts'
import { readLastLines } from '../../service-logs/writer.ts'
import { proofMs } from '../../settings.ts'
import {
  instructionsOf,
  listServiceProcesses,
  startService,
  stopService,
} from '../../supervise/control.ts'
import {
  type Instructions,
  isUp,
  readState,
  type ServiceEnd,
  type ServiceState,
  serviceDir,
} from '../../supervise/instructions.ts'
import { type Attempt, accountOf, environmentName, need } from '../attempt.ts'
import { StepFailure } from '../failure.ts'
import { neededMemory } from '../plan/ceilings.ts'
import { isManualPlan } from '../plan/plan.ts'
import { serviceAdditions } from '../plan/variables.ts'
import { type Retired, routeOf } from '../routing.ts'
import { awaitAnswer } from '../steps/await-health.ts'
import { newCommandContext, pathsOf } from '../steps/command.ts'
import { environmentFacts } from '../steps/configure.ts'
import { sectionOf, serviceVariablesFile } from './configure.ts'
import { probeByCommand } from './health-command.ts'
import { replacementOf } from './plan.ts'

export function serviceOf(attempt: Attempt, name: string): ManualService {
  const found = sectionOf(attempt).services.find((service) => service.name === name)
  if (!found) throw new Error(`no service ${name} in the file`)
  return found
}

export const socketPath = (attempt: Attempt, path: string): string =>
  join(attempt.paths.sockets, path)

/** Where the service can be probed; undefined for one without an address. */
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
  const own = attempt.results.serviceVariables?.get(name)
  const variables = own ?? need(attempt, 'variables')
  const variablesFile = own ? serviceVariablesFile(attempt, name) : attempt.variablesFile
  const context = newCommandContext(attempt)
  const env = baseEnvironment(pathsOf(attempt, { ...context, variablesFile }))
  const limits = need(attempt, 'limits').get(name)
  if (!limits) throw new Error(`service ${name} has no limits`)
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
    temporary: attempt.paths.temporary,
    account: accountOf(attempt) ?? null,
    variablesFile,
    // another service of this account may pass it a value that it does not get itself
    ...(own ? { secretsFile: attempt.variablesFile } : {}),
    env,
    additions: {
      ...toolPath(env, context.toolPaths),
      ...serviceAdditions(variables, run.env, { port, isAuto: target?.kind === 'auto' }),
    },
    secretKeys: need(attempt, 'variables').secretKeys,
    port: port ?? null,
    socket: target?.kind === 'socket' ? socketPath(attempt, target.path) : null,
    logDir: join(attempt.paths.logs, name),
    stopTimeoutMs: run.stopTimeoutMs,
    ...limits,
  }
}

/** Addresses of the processes that are about to end; a port that the new version took over is no longer theirs. */
export function retiredProcesses(attempt: Attempt): Retired[] {
  const taken = new Set(attempt.results.ports?.values())
  const { last } = attempt.results
  return rowsOf(attempt).flatMap(({ state, port, service, taskId }) => {
    if (state !== 'retired' || port === undefined || taken.has(port)) return []
    const services = isManualPlan(last) ? last.section.services : []
    const run = services.find(({ name }) => name === service)?.run
    const drainMs = run?.drainMs ?? STEPS.drainMs
    return [{ address: '127.0.0.1', port, service, taskId, drainMs }]
  })
}

const rowsOf = (attempt: Attempt): ProcessRow[] =>
  attempt.ledger.listProcesses(attempt.assignment.environmentId)

/** Ends commands of attempts whose runner was killed; no other attempt runs in this environment now. */
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
 * Ends what finished attempts left behind: their commands and half-started processes, then processes that they had
 * paused are started again.
 */
export async function endLeftovers(attempt: Attempt): Promise<void> {
  const { attemptId } = attempt.assignment
  await endForgottenCommands(attempt)
  const rows = rowsOf(attempt).filter((found) => found.attemptId !== attemptId)
  for (const row of rows.filter(({ state }) => state === 'starting' || state === 'retired')) {
    attempt.output.say(`Ending ${row.service} of deployment ${row.taskId}, which was left over.`)
    await stopService(attempt.settings, instructionsOf(row))
    attempt.ledger.removeProcess(row)
    attempt.ledger.removeDraining(row)
  }
  const stopped = attempt.ledger.listStopped(attempt.assignment.environmentId)
  for (const row of rows.filter(({ state }) => state === 'paused')) {
    const instructions = instructionsOf(row)
    const state = readState(serviceDir(attempt.settings, instructions))
    if (!isUp(state) && !stopped.has(row.service)) {
      await startService(attempt.settings, instructions, { isVerified: true })
      attempt.output.say(`${row.service} of deployment ${row.taskId} was started again.`)
    }
    attempt.ledger.setProcessState(row, 'serving', row.attemptId)
  }
}

export async function startProcess(attempt: Attempt, name: string): Promise<void> {
  const { ledger, settings, output, assignment } = attempt
  const service = serviceOf(attempt, name)
  const instructions = makeInstructions(attempt, service)
  const old = rowsOf(attempt).find((row) => row.service === name && row.state === 'serving')
  if (old && replacementOf(service) === 'after') {
    output.say(`Stopping ${name} of deployment ${old.taskId}: from here to its start it is away.`)
    ledger.setProcessState(old, 'paused', assignment.attemptId)
    attempt.awaySince.set(name, performance.now())
    const tookMs = await stopService(settings, instructionsOf(old))
    output.say(`${name} of deployment ${old.taskId} stopped after ${Math.round(tookMs)} ms.`)
  }
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

const versionOf = ({ results, assignment }: Attempt): number =>
  results.processesOf ?? assignment.taskId

function stateOf(attempt: Attempt, service: string): ServiceState | undefined {
  const { environmentId } = attempt.assignment
  const taskId = versionOf(attempt)
  return readState(serviceDir(attempt.settings, { environmentId, service, taskId }))
}

const describeEnd = (end: ServiceEnd): string =>
  end.signal ? `was ended by ${end.signal}` : `stopped with exit code ${end.code}`

/** Writes the service's last lines to the output and the last one to the message. */
function withLastLines(
  attempt: Attempt,
  name: string,
  code: FailureCode,
  text: string,
): StepFailure {
  const lines = readLastLines(join(attempt.paths.logs, name), versionOf(attempt))
  if (lines.length > 0) {
    attempt.output.say(`Last ${lines.length} lines of ${name}:\n${lines.join('\n')}`)
  }
  const last = lines.filter((line) => line.trim() !== '').at(-1)
  const quoted = last ? ` Its last line: ${last.slice(0, 300)}` : ` ${name} wrote nothing.`
  return new StepFailure(code, `${text}${quoted}`)
}

/** A process that exited fails the deployment immediately; restarts begin only after verification. */
export function requireAlive(attempt: Attempt, name: string): ServiceState {
  const state = stateOf(attempt, name)
  if (isUp(state) && !state.lastEnd) return state
  if (state?.lastEnd) {
    const { lastEnd } = state
    const after = `${(lastEnd.upMs / 1_000).toFixed(1)} s`
    if (lastEnd.isOutOfMemory) {
      const why = neededMemory(name, attempt.results.limits?.get(name)?.memoryBytes)
      const text = `${name} was stopped by the kernel after ${after}: ${why}`
      throw withLastLines(attempt, name, FailureCode.OUT_OF_MEMORY, text)
    }
    const text = `${name} ${describeEnd(lastEnd)} after ${after}.`
    throw withLastLines(attempt, name, FailureCode.HEALTH_CHECK_FAILED, text)
  }
  const text = `The supervisor of ${name} is gone.`
  throw withLastLines(attempt, name, FailureCode.HEALTH_CHECK_FAILED, text)
}

export const noSocket = (path: string, service: string): StepFailure =>
  new StepFailure(
    FailureCode.HEALTH_CHECK_FAILED,
    `${path} (service ${service}) is not a socket of this environment.`,
  )

/** One probe. A socket is probed as root, so it must belong to the environment itself and must not be a link. */
export async function ask(
  attempt: Attempt,
  name: string,
  target: ProbeTarget,
  check: HealthCheck,
): Promise<HealthSample> {
  const host = routeOf(attempt, name)?.host ?? environmentFacts(attempt).domain
  if ('port' in target) return probe(target, check, host)
  const { socket: shown } = target
  const socket = openSocket(shown, accountOf(attempt)?.uid)
  if (socket === 'absent') return { isHealthy: false, said: `${shown} is not there`, detail: '' }
  if (socket === 'wrong') throw noSocket(shown, name)
  try {
    return await probe({ socket: socket.path, shown }, check, host)
  } finally {
    socket.close()
  }
}

/** Undefined: its owner keeps it running. */
const ownRow = (attempt: Attempt, service: string): ProcessRow | undefined =>
  rowsOf(attempt).find((row) => row.service === service && row.taskId === versionOf(attempt))

/** Undefined: the file wants no check, or the service has nothing to ask. */
function askOf(
  attempt: Attempt,
  service: ManualService,
): { check: CheckTiming; once: () => Promise<HealthSample> } | undefined {
  const { name, health } = service
  const check = askingCheck(health)
  if (!check) return undefined
  if (check.kind === 'command') {
    const row = ownRow(attempt, name)
    const env = row ? instructionsOf(row).additions : {}
    return { check, once: () => probeByCommand(attempt, check, env) }
  }
  const place = targetOf(attempt, service)
  return place && { check, once: () => ask(attempt, name, place, check) }
}

/** What the service's own processes listen on, if not on its port. */
function explainOwn(attempt: Attempt, service: ManualService): string | undefined {
  const port = need(attempt, 'ports').get(service.name)
  const row = ownRow(attempt, service.name)
  if (port === undefined || !row || askingCheck(service.health)?.kind === 'command')
    return undefined
  const members = listServiceProcesses(attempt.settings, instructionsOf(row))
  const inodes = new Set(members.flatMap(({ pid }) => [...readSocketInodes(pid)]))
  const own = listListening('self').filter(({ inode }) => inodes.has(inode))
  return explainListening(service.name, own, { port, fromOutside: false })
}

/** False when there is nothing to ask. `requireUp` throws when further probing is useless. */
export async function awaitHealthy(
  attempt: Attempt,
  service: ManualService,
  requireUp: () => void,
  timing: Partial<CheckTiming> = {},
): Promise<boolean> {
  const asked = askOf(attempt, service)
  if (!asked) return false
  requireUp()
  await awaitAnswer(attempt, {
    check: { ...asked.check, ...timing },
    once: asked.once,
    requireUp,
    explain: () => explainOwn(attempt, service),
    fail: (message) =>
      withLastLines(attempt, service.name, FailureCode.HEALTH_CHECK_FAILED, message),
  })
  return true
}

/**
 * For a service that cannot run twice: the time from the stop of the old process to the first answer of the new one.
 */
function reportGap(attempt: Attempt, name: string): void {
  const since = attempt.awaySince.get(name)
  if (since === undefined) return
  const ms = Math.round(performance.now() - since)
  attempt.output.say(`${name} was away for ${ms} ms.`)
}

export async function awaitHealth(attempt: Attempt, name: string): Promise<void> {
  const service = serviceOf(attempt, name)
  const { health, run } = service
  // a service that its owner keeps running can only be probed
  const isAlive = (): void => void (run && requireAlive(attempt, name))
  isAlive()
  if (health.kind === 'none') return attempt.output.say(`${name} has no health check.`)
  if (!(await awaitHealthy(attempt, service, isAlive))) {
    const until = performance.now() + proofMs(attempt.settings)
    while (performance.now() < until) {
      await attempt.interruption.wait(PROCESSES.endPollMs)
      isAlive()
    }
    return attempt.output.say(`${name} has stayed up for ${proofMs(attempt.settings) / 1_000} s.`)
  }
  attempt.output.say(`${name} is healthy.`)
  reportGap(attempt, name)
}
