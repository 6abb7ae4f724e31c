// Observes what runs and keeps the newest view of each environment: containers through the engine, processes through
// their supervisors. Only observes; maintenance/drift-rules.ts judges. Ends are remembered between checks and from the
// engine's events, because a restarted container does not show how it ended.

import type { Ledger, ProcessRow, StoredPlan } from '../journal/ledger.ts'
import { MAINTENANCE } from '../limits/maintenance.ts'
import { describeExcess } from '../machine/disk-space.ts'
import { inspectContainer, type Observed } from '../machine/docker/containers.ts'
import type { Engine } from '../machine/docker/engine.ts'
import { inspectImage } from '../machine/docker/images.ts'
import { nameReplica } from '../machine/docker/names.ts'
import { type Listener, listListeners, nameHolder } from '../machine/process/ports.ts'
import { openSocket } from '../machine/process/sockets.ts'
import { serverName } from '../machine/server-settings.ts'
import {
  type DockerPlan,
  isDockerPlan,
  type LastPlan,
  type ManualPlan,
  type RunningContainer,
} from '../runner/plan/plan.ts'
import type { AgentSettings } from '../settings.ts'
import { instructionsOf } from '../supervise/control.ts'
import { isSupervised, readState, serviceDir } from '../supervise/instructions.ts'
import {
  degradedReason,
  type End,
  type Ends,
  mergeReplicas,
  noteEnds,
  type SeenProcess,
  type ServiceView,
  viewContainer,
  viewProcess,
  viewStopped,
} from './drift-rules.ts'
import { containerPart, processPart } from './health-parts.ts'
import type { HealthWatch, WatchedPart } from './health-watch.ts'
import type { Observations } from './observations.ts'
import type { ServicePid, UsageMeter } from './usage-meter.ts'

interface DriftOptions {
  settings: AgentSettings
  engine: Engine
  observations: Observations
  /** Asks what runs whether it is well. */
  health?: Pick<HealthWatch, 'set' | 'stateOf' | 'reasonOf' | 'countUnhealthy'> | undefined
  /** Receives the running pids, to measure their usage. */
  usage?: Pick<UsageMeter, 'notePids'> | undefined
  /** Wall clock, because it is compared with the times of engine and supervisors. */
  now: () => number
}

const describe = (
  excess: Parameters<typeof describeExcess>[0] | undefined,
  settings: AgentSettings,
): string => (excess ? describeExcess(excess, serverName(settings)) : '')

const RULE = { ends: MAINTENANCE.crashEnds, windowMs: MAINTENANCE.crashWindowMs }

export class DriftWatch {
  readonly #o: DriftOptions
  /** By environment and service. */
  readonly #ends = new Map<string, Ends>()
  /** By container: how it last ended, as the engine reported it. */
  readonly #reported = new Map<string, End & { isOver: boolean }>()
  /** Services whose supervisor was missing at the last check; the daemon restarts it before the next one. */
  readonly #away = new Set<string>()
  #listeners: { at: number; byPort: Map<number, Listener[]> } | undefined

  constructor(options: DriftOptions) {
    this.#o = options
  }

  /** The engine reports one end in parts: first that memory ran out, then the exit code. */
  noteEnd(containerId: string, end: Partial<End>): void {
    const reported = this.#reported.get(containerId)
    const before = reported?.isOver ? undefined : reported
    this.#reported.delete(containerId) // re-inserted last, because the oldest entry is evicted first
    this.#reported.set(containerId, {
      exitCode: end.exitCode ?? before?.exitCode ?? null,
      signal: null,
      outOfMemory: end.outOfMemory ?? before?.outOfMemory ?? false,
      isOver: false,
    })
    const [oldest] = this.#reported.keys()
    if (this.#reported.size > MAINTENANCE.rememberedEnds && oldest) this.#reported.delete(oldest)
  }

  /** It runs again, so later reports belong to another end. */
  noteStart(containerId: string): void {
    const reported = this.#reported.get(containerId)
    if (reported) reported.isOver = true
  }

  /** Throws when the engine does not answer; the previous view stays. */
  async look(ledger: Ledger, environmentId: number): Promise<void> {
    const { observations } = this.#o
    const stored = ledger.findPlan(environmentId)
    if (!stored) {
      observations.clear(environmentId)
      this.#forget(environmentId)
      return
    }
    const plan = JSON.parse(stored.body) as LastPlan
    const views = isDockerPlan(plan)
      ? await this.#lookAtContainers(ledger, stored, plan)
      : this.#lookAtProcesses(ledger, stored, plan)
    if (!views) return
    const { health } = this.#o
    for (const view of views) view.reason ||= health?.reasonOf(environmentId, view.name) ?? ''
    observations.set({
      environmentId,
      commitSha: stored.commit,
      fence: stored.fence,
      services: views.map(({ name, state, restarts, outOfMemory, replicas }) => {
        const isRunning = state === 'running'
        const sick = isRunning ? health?.stateOf(environmentId, name) : undefined
        const counted = isRunning && replicas ? replicas : { wanted: 0, running: 0 }
        return {
          name,
          state,
          health: sick ?? 'none',
          restarts,
          outOfMemory,
          replicas: counted.wanted,
          replicasUp: Math.max(
            0,
            counted.running - (health?.countUnhealthy(environmentId, name) ?? 0),
          ),
        }
      }),
      degradedReason:
        degradedReason(views) || describe(ledger.usage.findExcess(environmentId), this.#o.settings),
    })
  }

  /** Nothing of the environment runs. */
  #forget(environmentId: number): void {
    this.#o.usage?.notePids(environmentId, [])
    this.#o.health?.set(environmentId, [])
    const isOf = (key: string): boolean => key.startsWith(`${environmentId}/`)
    for (const key of this.#ends.keys()) if (isOf(key)) this.#ends.delete(key)
    for (const key of this.#away) if (isOf(key)) this.#away.delete(key)
  }

  async #lookAtContainers(
    ledger: Ledger,
    stored: StoredPlan,
    plan: DockerPlan,
  ): Promise<ServiceView[]> {
    const { engine, now } = this.#o
    const stopped = ledger.listStopped(stored.environmentId)
    const views = new Map<string, ServiceView[]>()
    const pids: ServicePid[] = []
    const parts: WatchedPart[] = []
    for (const expected of plan.services) {
      const { service, container, replica = 1 } = expected
      const seen = await inspectContainer(engine, container)
      if (seen?.pid !== undefined) pids.push({ service, pid: seen.pid })
      const ofService = views.get(service) ?? []
      views.set(service, ofService)
      if (seen && stopped.has(service)) {
        ofService.push(viewStopped(service, seen.state === 'running'))
        continue
      }
      const part = seen && (await this.#containerPart(plan, expected, seen))
      if (part) parts.push(part)
      const key = `${stored.environmentId}/${service}/${replica}`
      const at = now()
      if (seen) this.#ends.set(key, noteEnds(this.#ends.get(key), this.#endsOf(seen), at, RULE))
      const shown = seen && { ...seen, startedAt: startOf(seen) }
      const look = { now: at, rule: RULE }
      const count = plan.services.filter((other) => other.service === service).length
      const named = { ...expected, service: nameReplica(service, replica, count) }
      ofService.push(viewContainer(named, stored, shown, this.#ends.get(key), look))
    }
    this.#o.usage?.notePids(stored.environmentId, pids)
    this.#o.health?.set(stored.environmentId, parts)
    return [...views].map(([service, replicas]) => mergeReplicas(service, replicas))
  }

  async #containerPart(
    plan: DockerPlan,
    running: RunningContainer,
    seen: Observed,
  ): Promise<WatchedPart | undefined> {
    const { engine } = this.#o
    const service = plan.section.services.find(({ name }) => name === running.service)
    if (!service) return undefined
    // without a state of the engine the image has no HEALTHCHECK
    const isAsked = service.asksImage && seen.health !== undefined
    const image = isAsked ? await inspectImage(engine, running.imageId) : undefined
    return containerPart(engine, { plan, service, running, seen, image: image?.healthcheck })
  }

  #endsOf(seen: Observed) {
    const isUp = seen.state === 'running'
    const shown = { exitCode: seen.exitCode, signal: null, outOfMemory: seen.outOfMemory }
    return {
      of: seen.id,
      restarts: seen.restarts,
      last: this.#reported.get(seen.id) ?? (isUp ? undefined : shown),
      isUnsteady: seen.state === 'restarting' || this.#isYoung(startOf(seen)),
    }
  }

  #isYoung(startedAt: number): boolean {
    return this.#o.now() - startedAt < RULE.windowMs / RULE.ends
  }

  /** The kernel's tables are long on a busy server, so one read serves all services for a while. */
  #listenersOf(row: ProcessRow | undefined): Listener[] {
    if (row?.port === undefined) return []
    const now = performance.now()
    if (!this.#listeners || now - this.#listeners.at > MAINTENANCE.listenersMs) {
      this.#listeners = { at: now, byPort: listListeners() }
    }
    return this.#listeners.byPort.get(row.port) ?? []
  }

  /** Undefined: a supervisor is missing at the moment; the next check knows more. */
  #lookAtProcesses(
    ledger: Ledger,
    { environmentId }: StoredPlan,
    plan: ManualPlan,
  ): ServiceView[] | undefined {
    const rows = ledger.listProcesses(environmentId).filter(({ state }) => state === 'serving')
    const views: ServiceView[] = []
    const pids: ServicePid[] = []
    const parts: WatchedPart[] = []
    const stopped = ledger.listStopped(environmentId)
    let isEarly = false
    for (const service of plan.section.services) {
      const { name, run } = service
      const key = `${environmentId}/${name}`
      if (!run && stopped.has(name)) {
        views.push(viewStopped(name, false))
        continue
      }
      if (!run) {
        const reason = socketProblem(plan, name)
        views.push({ name, state: 'unmanaged', restarts: 0, outOfMemory: false, reason })
        continue
      }
      const row = rows.find(({ service }) => service === name)
      const state = row && readState(serviceDir(this.#o.settings, instructionsOf(row)))
      const seen = isSupervised(state) ? toSeenProcess(state) : undefined
      if (stopped.has(name)) {
        views.push(viewStopped(name, seen !== undefined))
        continue
      }
      if (seen) this.#away.delete(key)
      else if (!this.#away.has(key)) {
        this.#away.add(key)
        isEarly = true
      }
      const at = this.#o.now()
      if (state && state.pid > 0) pids.push({ service: name, pid: state.pid })
      if (seen && state) {
        const isUnsteady =
          seen.condition === 'waiting' || this.#isYoung(Date.parse(state.startedAt))
        const seenEnds = { of: `${state.taskId}`, isUnsteady, ...seen }
        this.#ends.set(key, noteEnds(this.#ends.get(key), seenEnds, at, RULE))
      }
      if (seen && state && row) {
        const isForeign = (): boolean => portProblem(row, this.#listenersOf(row)) !== ''
        const of = { plan, service, row, state, isForeign }
        const part = processPart(this.#o.settings, of)
        if (part) parts.push(part)
      }
      const view = viewProcess(name, seen, this.#ends.get(key), { now: at, rule: RULE })
      const reason =
        view.reason || socketProblem(plan, name) || portProblem(row, this.#listenersOf(row))
      views.push({ ...view, reason })
    }
    this.#o.usage?.notePids(environmentId, pids)
    this.#o.health?.set(environmentId, parts)
    return isEarly ? undefined : views
  }
}

/** Another account listens on the service's port, so requests reach neither of them. */
function portProblem(row: ProcessRow | undefined, listeners: Listener[]): string {
  const account = row && instructionsOf(row).account
  const others = account ? listeners.filter(({ uid }) => uid !== account.uid) : []
  if (!row || others.length === 0) return ''
  return `Port ${row.port} (service ${row.service}) is held by ${nameHolder(others)}, which does not belong to this environment.`
}

/** Another file has the name of a service's socket, so the proxy does not dial it. */
function socketProblem({ routes = [] }: ManualPlan, name: string): string {
  const target = routes.find(({ service }) => service === name)?.target
  if (target?.kind !== 'socket') return ''
  const socket = openSocket(target.path, target.uid)
  if (typeof socket === 'object') socket.close()
  return socket === 'wrong'
    ? `${target.path} (service ${name}) is not a socket of this environment any more.`
    : ''
}

const startOf = ({ startedAt }: Observed): number => (startedAt ? Date.parse(startedAt) : 0)

function toSeenProcess(state: NonNullable<ReturnType<typeof readState>>): SeenProcess {
  const { condition, restarts, lastEnd } = state
  const last = lastEnd && {
    exitCode: lastEnd.code,
    signal: lastEnd.signal,
    outOfMemory: lastEnd.isOutOfMemory,
  }
  return { condition, restarts, last: last ?? undefined }
}
