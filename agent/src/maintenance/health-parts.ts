// What can be asked of a running container or process, from the plan of its deployment: the same check as during the
// deployment, less often. An HTTP or TCP check starts no process; a command starts one, so it runs rarely.
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { STEPS } from '@berth/shared'
import type { DockerService, ManualService } from '@berth/shared/service-file'
import type { ProcessRow } from '../journal/ledger.ts'
import { HEALTH } from '../limits/maintenance.ts'
import { type Observed, restartContainer } from '../machine/docker/containers.ts'
import type { Engine } from '../machine/docker/engine.ts'
import type { ImageHealthcheck } from '../machine/docker/images.ts'
import { nameReplica } from '../machine/docker/names.ts'
import {
  type AskingCheck,
  askingCheck,
  type CommandCheck,
  type HealthSample,
} from '../machine/process/health.ts'
import { probe } from '../machine/process/probes.ts'
import {
  endTree,
  listTree,
  type ProcessTree,
  signalMembers,
} from '../machine/process/process-tree.ts'
import { findStopped, isSameProcess } from '../machine/process/processes.ts'
import { openSocket } from '../machine/process/sockets.ts'
import { execCheck } from '../runner/docker/health-command.ts'
import type { DockerPlan, ManualPlan, RunningContainer } from '../runner/plan/plan.ts'
import type { AgentSettings } from '../settings.ts'
import { instructionsOf, listServiceProcesses } from '../supervise/control.ts'
import type { ServiceState } from '../supervise/instructions.ts'
import { runCheck } from './health-command.ts'
import type { WatchedPart } from './health-watch.ts'

const WELL: HealthSample = { isHealthy: true, said: '', detail: '' }

function everyMs({ kind, intervalMs }: AskingCheck): number {
  const isWritten = intervalMs !== STEPS.healthIntervalMs
  if (isWritten) return Math.max(HEALTH.leastMs, intervalMs)
  return kind === 'command' ? HEALTH.commandEveryMs : HEALTH.everyMs
}

const ruleOf = (check: AskingCheck | undefined): WatchedPart['rule'] => ({
  retries: check?.retries ?? STEPS.healthRetries,
  startPeriodMs: check?.startPeriodMs ?? STEPS.healthStartMs,
})

function describeFrozen(pid: number | undefined): string | undefined {
  const stopped = pid === undefined ? undefined : findStopped(pid)
  if (!stopped) return undefined
  return `it is frozen, because its process ${stopped.pid} (${stopped.name}) was stopped by a signal. SIGCONT continues it`
}

/** Undefined: `health: false`. */
export function containerPart(
  engine: Engine,
  of: {
    plan: DockerPlan
    service: DockerService
    running: RunningContainer
    seen: Observed
    image: ImageHealthcheck | undefined
  },
): WatchedPart | undefined {
  const { plan, service, running, seen, image } = of
  const { name, health, stopTimeoutMs } = service
  if (health.kind === 'none') return undefined
  const { replica = 1 } = running
  const count = plan.services.filter((other) => other.service === name).length
  const route = plan.routes.find((found) => found.service === name)
  const own = askingCheck(health)
  const host = route?.host ?? plan.routes[0]?.host ?? 'localhost'
  const isUp = seen.state === 'running'
  const ofImage = service.asksImage ? image : undefined
  const once = async (): Promise<HealthSample> => {
    // the engine runs the image's check itself, but without the variables, so its bad news are verified
    if (ofImage && seen.health === 'unhealthy') {
      const sample = await checkInContainer(engine, seen.id, imageCheck(ofImage))
      if (!sample.isHealthy) return sample
    }
    if (!own) return WELL
    if (own.kind === 'command') return checkInContainer(engine, seen.id, own)
    const port = own.port ?? service.port ?? 0
    return probe({ address: seen.address ?? '', port }, own, host)
  }
  return {
    service: name,
    replica,
    shown: nameReplica(name, replica, count),
    isUp,
    of: `${seen.id} ${seen.startedAt}`,
    startedAt: seen.startedAt ? Date.parse(seen.startedAt) : 0,
    rule: ruleOf(own),
    findFrozen: () =>
      seen.isPaused
        ? 'it is frozen, because its container was paused. `docker unpause` continues it'
        : describeFrozen(seen.pid),
    ask: own || ofImage ? { everyMs: own ? everyMs(own) : HEALTH.everyMs, once } : undefined,
    balancedId: route && count > 1 ? seen.id : undefined,
    restart: service.restartsUnhealthy
      ? () => restartContainer(engine, seen.id, stopTimeoutMs)
      : undefined,
  }
}

const imageCheck = ({ command, timeoutMs }: ImageHealthcheck): CommandCheck => ({
  kind: 'command',
  command,
  intervalMs: HEALTH.commandEveryMs,
  timeoutMs: timeoutMs ?? STEPS.healthTimeoutMs,
  startPeriodMs: 0,
  retries: STEPS.healthRetries,
})

function checkInContainer(engine: Engine, id: string, check: CommandCheck): Promise<HealthSample> {
  const marker = `BERTH_HEALTH=${randomUUID()}`
  return execCheck(engine, id, check, {
    marker,
    async awaitEnd(exited) {
      const late = Symbol('late')
      const exit = await Promise.race([exited, delay(check.timeoutMs, late, { ref: false })])
      return exit === late
        ? { kind: 'timeout' }
        : { kind: 'exit', exit: exit as number | undefined }
    },
    async end(running) {
      const root = await running.pid()
      if (root === undefined) return
      const tree: ProcessTree = { root, marker, cgroup: undefined, spared: new Set() }
      await endTree(tree, HEALTH.killMs, () => signalMembers(listTree(tree), 'SIGTERM'))
    },
  })
}

/** Undefined: `health: false`. `isForeign`: another account listens on its port, so it must not be asked there. */
export function processPart(
  settings: AgentSettings,
  of: {
    plan: ManualPlan
    service: ManualService
    row: ProcessRow
    state: ServiceState
    isForeign: () => boolean
  },
): WatchedPart | undefined {
  const { plan, service, row, state, isForeign } = of
  const { name, health, run } = service
  if (health.kind === 'none' || !run) return undefined
  const check = askingCheck(health)
  const routes = plan.routes ?? []
  const host = routes.find((found) => found.service === name)?.host ?? 'localhost'
  const instructions = instructionsOf(row)
  const once = async (): Promise<HealthSample> => {
    if (!check) return WELL
    if (check.kind === 'command') return runCheck(settings, instructions, check)
    const { port, socket: shown, account } = instructions
    // what another account would answer must not reach this environment's users, so only the status is shown
    const bare = (sample: HealthSample): HealthSample => ({ ...sample, detail: '' })
    if (port !== null) return isForeign() ? WELL : bare(await probe({ port }, check, host))
    if (shown === null) return WELL
    const socket = openSocket(shown, account?.uid)
    if (typeof socket === 'string')
      return { ...WELL, isHealthy: false, said: `${shown} is ${socket}` }
    try {
      return bare(await probe({ socket: socket.path, shown }, check, host))
    } finally {
      socket.close()
    }
  }
  return {
    service: name,
    replica: 1,
    shown: name,
    isUp: state.condition === 'running',
    of: `${row.taskId} ${state.pid} ${state.startTicks}`,
    startedAt: Date.parse(state.startedAt),
    rule: ruleOf(check),
    findFrozen: () => describeFrozen(state.pid > 0 ? state.pid : undefined),
    ask: check && { everyMs: everyMs(check), once },
    balancedId: undefined,
    restart: run.restartsUnhealthy ? () => endProcesses(settings, row) : undefined,
  }
}

/** Its supervisor starts it again. A stopped process handles SIGTERM only once it continues. */
async function endProcesses(settings: AgentSettings, row: ProcessRow): Promise<void> {
  const instructions = instructionsOf(row)
  const members = listServiceProcesses(settings, instructions)
  signalMembers(members, 'SIGTERM')
  signalMembers(members, 'SIGCONT')
  const alive = () => members.filter(({ pid, startTicks }) => isSameProcess(pid, startTicks))
  const until = performance.now() + instructions.stopTimeoutMs
  while (alive().length > 0 && performance.now() < until) await delay(HEALTH.endPollMs)
  signalMembers(alive(), 'SIGKILL')
}
