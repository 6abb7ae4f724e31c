// The daemon's upkeep of this server: recovers environments after a dead runner or a restart of the machine or engine,
// collects garbage hourly, compares what runs with what was deployed. Triggers mark what is due; one worker does it, so
// nothing is checked twice concurrently. Invariants: it and a runner never work in one environment together; a problem
// with one environment is retried and does not block the others.
import { existsSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { DAEMON } from '@berth/shared'
import { AttemptState } from '@berth/shared/wire'
import type { AttemptManager } from '../attempts/attempt-manager.ts'
import type { Clock } from '../clock.ts'
import { expireArtifacts } from '../files/store.ts'
import type { Journal } from '../journal/journal.ts'
import { Ledger, ledgerFile } from '../journal/ledger.ts'
import { MAINTENANCE } from '../limits/maintenance.ts'
import { describeError, type Log } from '../log.ts'
import { listOwnedContainers } from '../machine/docker/containers.ts'
import { isEngineUp, openEngine } from '../machine/docker/engine.ts'
import { type EngineEvent, events } from '../machine/docker/events.ts'
import { listOwnedImages } from '../machine/docker/images.ts'
import { LABELS } from '../machine/docker/names.ts'
import { openEdge } from '../proxy/client.ts'
import { readTable } from '../proxy/table.ts'
import { collectCache, isEngineExclusive } from '../resources/cache.ts'
import { readPlan } from '../resources/garbage.ts'
import { measureEnvironments } from '../resources/measure.ts'
import { recoverDocker } from '../runner/docker/recover.ts'
import { recoverManual } from '../runner/manual/recover.ts'
import { isDockerPlan } from '../runner/plan/plan.ts'
import { LogFollowers } from '../service-logs/followers.ts'
import type { AgentSettings } from '../settings.ts'
import { DrainingWatch } from './draining.ts'
import { DriftWatch } from './drift.ts'
import { HealthWatch } from './health-watch.ts'
import type { Host } from './host.ts'
import type { Observations } from './observations.ts'
import { endBuildOrphans } from './orphans.ts'

interface MaintenanceParts {
  settings: AgentSettings
  manager: Pick<AttemptManager, 'occupy' | 'vacate' | 'isBusy' | 'onChange'>
  journal: Pick<Journal, 'attempts'>
  host: Pick<Host, 'noteEngine' | 'look'> & Partial<Pick<Host, 'usage'>>
  observations: Observations
  clock: Clock
  log: Log
}

/** Events after which a container is checked; exec and health-check events come by the thousand. */
const TELLING = new Set([
  ...['start', 'die', 'oom', 'stop', 'destroy', 'rename', 'update', 'pause', 'unpause'],
  ...['health_status: healthy', 'health_status: unhealthy'],
])

class Maintenance {
  readonly #p: MaintenanceParts
  readonly #engine
  readonly #edge
  readonly #drift: DriftWatch
  readonly #health: HealthWatch
  readonly #draining: DrainingWatch
  readonly #logs: LogFollowers
  readonly #ending = new AbortController()
  readonly #timers: NodeJS.Timeout[] = []
  readonly #unlisten: () => void
  /** What is due. */
  readonly #toRecover = new Set<number>()
  readonly #toLook = new Set<number>()
  #allToRecover = false
  /** After a restart of the machine or the daemon; also needed without an engine. */
  #routedToRecover = true
  #allToLook = false
  #tidiedAt: number | undefined
  #isEngineUp = false
  /** By environment: services that ran when the engine went down, until the environment is recovered. */
  #ran = new Map<number, string[]>()
  #soon: NodeJS.Timeout | undefined
  #again: NodeJS.Timeout | undefined
  #working: Promise<void> | undefined
  #ledger: Ledger | undefined

  constructor(parts: MaintenanceParts) {
    this.#p = parts
    this.#engine = openEngine(parts.settings)
    this.#edge = openEdge(parts.settings)
    const { settings, observations, clock, host } = parts
    const now = (): number => clock.now()
    const { usage } = host
    this.#health = new HealthWatch({
      edge: this.#edge,
      manager: parts.manager,
      log: parts.log,
      now,
      onChange: (id) => this.#due(() => this.#toLook.add(id)),
    })
    const { health, engine } = { health: this.#health, engine: this.#engine }
    this.#drift = new DriftWatch({ settings, engine, observations, health, usage, now })
    const isBusy = (id: number): boolean => parts.manager.isBusy(id)
    const { log } = parts
    this.#draining = new DrainingWatch({ settings, engine, edge: this.#edge, isBusy, now, log })
    const ledger = (): Ledger | undefined => this.#openLedger()
    this.#logs = new LogFollowers({ engine: this.#engine, settings, log: parts.log, ledger })
    this.#unlisten = parts.manager.onChange((id) => this.#attemptChanged(id))
    this.#every(DAEMON.servicesMs, () => this.#lookAtProcesses())
    this.#every(MAINTENANCE.driftMs, () => this.#everyMinute())
    this.#every(MAINTENANCE.drainMs, () => this.#drain())
    void this.#followEngine()
  }

  close(): void {
    this.#ending.abort()
    this.#logs.close()
    this.#health.close()
    this.#unlisten()
    clearTimeout(this.#soon)
    clearTimeout(this.#again)
    for (const timer of this.#timers) clearInterval(timer)
    this.#ledger?.close()
    this.#ledger = undefined
  }

  #every(ms: number, act: () => void): void {
    const timer = setInterval(act, ms)
    timer.unref()
    this.#timers.push(timer)
  }

  get #isClosed(): boolean {
    return this.#ending.signal.aborted
  }

  /** Undefined: nothing was ever deployed here. */
  #openLedger(): Ledger | undefined {
    if (this.#isClosed || (!this.#ledger && !existsSync(ledgerFile(this.#p.settings)))) {
      return undefined
    }
    this.#ledger ??= new Ledger(this.#p.settings)
    return this.#ledger
  }

  #due(mark: () => void): void {
    mark()
    if (this.#isClosed) return
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined
      this.#working ??= this.#work().finally(() => {
        this.#working = undefined
      })
    }, MAINTENANCE.eventsMs)
  }

  #everyMinute(): void {
    const now = this.#p.clock.mono()
    if (this.#isEngineUp) this.#logs.noteStart() // an event may have been missed
    const isHourOver = this.#tidiedAt === undefined || now - this.#tidiedAt >= MAINTENANCE.collectMs
    this.#due(() => {
      this.#allToLook = true
      if (isHourOver) this.#allToRecover = this.#isEngineUp
    })
    const ledger = isHourOver ? this.#openLedger() : undefined
    if (!ledger) return
    this.#tidiedAt = now
    // walks whole disks, so it runs beside the worker, which users wait for
    this.#tidy(ledger).catch((error: unknown) => {
      if (!this.#isClosed) this.#p.log.warn(describeError(error), 'sizes are not known')
    })
  }

  #attemptChanged(attemptId: string): void {
    const row = this.#p.journal.attempts.find(attemptId)
    if (!row || row.state < AttemptState.SUCCEEDED) return
    this.#due(() => this.#toRecover.add(row.environmentId))
  }

  #noteEvent({ kind, action, id, labels, exitCode }: EngineEvent): void {
    if (kind !== 'container' || labels[LABELS.agent] !== this.#p.settings.owner) return
    const environmentId = Number(labels[LABELS.environment])
    if (!TELLING.has(action) || !Number.isSafeInteger(environmentId)) return
    if (action === 'start') {
      this.#drift.noteStart(id)
      this.#logs.noteStart(id)
    }
    if (action === 'oom') this.#drift.noteEnd(id, { outOfMemory: true })
    if (action === 'die') {
      this.#drift.noteEnd(id, { exitCode: exitCode ?? null })
      this.#health.noteEnd(environmentId, id)
    }
    this.#due(() => this.#toLook.add(environmentId))
  }

  /** The engine comes and goes; each time it comes up, everything is checked again. */
  async #followEngine(): Promise<void> {
    const { signal } = this.#ending
    while (!signal.aborted) {
      try {
        this.#isEngineUp = await isEngineUp(this.#engine, DAEMON.probeMs)
        if (this.#isEngineUp && !signal.aborted) await this.#noteEngine()
        this.#due(() => {
          this.#allToLook = true
          this.#allToRecover = this.#isEngineUp
        })
        if (this.#isEngineUp) {
          const onOpen = (): void => this.#logs.noteStart()
          for await (const event of events(this.#engine, signal, onOpen)) this.#noteEvent(event)
        }
      } catch (error) {
        this.#p.log.debug(describeError(error), 'the engine went away')
      }
      const wasUp = this.#isEngineUp
      this.#isEngineUp = false
      if (wasUp) this.#ran = this.#p.observations.listRunning()
      if (wasUp && !signal.aborted) await this.#p.host.look()
      await delay(MAINTENANCE.eventsAgainMs, undefined, { signal }).catch(() => undefined)
    }
  }

  async #work(): Promise<void> {
    const { log, observations } = this.#p
    try {
      const ledger = this.#openLedger()
      if (ledger) await this.#workThrough(ledger)
    } catch (error) {
      if (!this.#isClosed) log.error(describeError(error), 'housekeeping')
    }
    observations.setReady()
    const isMore = this.#toRecover.size + this.#toLook.size > 0
    if (isMore || this.#allToLook || this.#allToRecover) this.#due(() => undefined)
  }

  async #workThrough(ledger: Ledger): Promise<void> {
    if (this.#allToRecover) {
      this.#allToRecover = false
      for (const id of await this.#listDocker(ledger)) this.#toRecover.add(id)
    }
    if (this.#routedToRecover) {
      this.#routedToRecover = false
      for (const id of listRouted(this.#p.settings)) this.#toRecover.add(id)
    }
    if (this.#allToLook) {
      this.#allToLook = false
      for (const { environmentId } of ledger.listPlans()) this.#toLook.add(environmentId)
    }
    const unsettled: number[] = []
    for (const id of take(this.#toRecover)) {
      this.#toLook.add(id)
      if (!(await this.#recover(ledger, id))) unsettled.push(id)
    }
    for (const id of take(this.#toLook)) await this.#look(ledger, id)
    // the edge may be restarting or the engine under load: retry in a minute
    if (unsettled.length > 0 && !this.#isClosed) this.#later(unsettled)
  }

  #later(ids: number[]): void {
    clearTimeout(this.#again)
    this.#again = setTimeout(
      () =>
        this.#due(() => {
          for (const id of ids) this.#toRecover.add(id)
        }),
      MAINTENANCE.againMs,
    )
    this.#again.unref()
  }

  #isDocker(ledger: Ledger, environmentId: number): boolean {
    if (!this.#isEngineUp) return false
    const hasRows = ledger.objects.list({ environmentId }).length > 0
    return hasRows || isDockerPlan(readPlan(ledger, environmentId))
  }

  /** Found by rows, by plans, and by labels alone (a lost ledger). */
  async #listDocker(ledger: Ledger): Promise<Set<number>> {
    const { settings } = this.#p
    const labelled = [
      ...(await listOwnedContainers(this.#engine, settings)),
      ...(await listOwnedImages(this.#engine, settings)),
    ]
    const ids = [
      ...ledger.objects.list().map(({ environmentId }) => environmentId),
      ...ledger.listPlans().map(({ environmentId }) => environmentId),
      ...labelled.map(({ labels }) => Number(labels[LABELS.environment])),
    ]
    return new Set(ids.filter((id) => Number.isSafeInteger(id) && id > 0))
  }

  /** False: retry later. */
  async #recover(ledger: Ledger, environmentId: number): Promise<boolean> {
    const { manager, settings, log } = this.#p
    const isDocker = this.#isDocker(ledger, environmentId)
    if (!isDocker && isDockerPlan(readPlan(ledger, environmentId))) return true // the engine is down
    if (this.#isClosed || !manager.occupy(environmentId)) return true // the end of that work triggers this again
    try {
      const context = { engine: this.#engine, edge: this.#edge, ledger, settings }
      const request = { environmentId, ran: this.#ran.get(environmentId) ?? [] }
      const notes = isDocker ? await recoverDocker(context, request) : []
      if (isDocker) this.#ran.delete(environmentId)
      notes.push(...(await recoverManual(context, { environmentId })))
      if (notes.length > 0) log.info({ environmentId, notes }, 'environment was recovered')
      return true
    } catch (error) {
      if (!this.#isClosed) {
        log.warn({ environmentId, ...describeError(error) }, 'environment could not be recovered')
      }
      return false
    } finally {
      if (!this.#isClosed) manager.vacate(environmentId)
    }
  }

  async #look(ledger: Ledger, environmentId: number): Promise<void> {
    if (this.#isClosed || this.#p.manager.isBusy(environmentId)) return // the end of that work triggers this again
    try {
      const isDocker = isDockerPlan(readPlan(ledger, environmentId))
      if (!isDocker || this.#isEngineUp) await this.#drift.look(ledger, environmentId)
    } catch (error) {
      if (!this.#isClosed) {
        this.#p.log.warn({ environmentId, ...describeError(error) }, 'what runs is not known')
      }
    }
  }

  #drain(): void {
    const ledger = this.#openLedger()
    if (ledger) this.#draining.look(ledger)
  }

  /** Polls the supervisors' files often, because they send no notifications. */
  #lookAtProcesses(): void {
    const ledger = this.#openLedger()
    const rows = ledger?.listProcesses() ?? []
    if (rows.length === 0) return
    this.#due(() => {
      for (const { environmentId } of rows) this.#toLook.add(environmentId)
    })
  }

  /**
   * An engine that just came up may have been killed before; what it left is removed before anything else is judged.
   */
  async #noteEngine(): Promise<void> {
    const { settings, host, manager, log } = this.#p
    this.#ledger ??= new Ledger(settings)
    const isExclusive = await isEngineExclusive(this.#engine, this.#ledger, settings)
    host.noteEngine({ isExclusive })
    await host.look()
    const ledger = this.#openLedger()
    if (!ledger) return
    const isBusy = (id: number): boolean => manager.isBusy(id)
    const count = await endBuildOrphans(this.#engine, ledger, { isExclusive, isBusy })
    if (count > 0) log.info({ count }, 'commands of builds outlived their engine and were ended')
  }

  async #tidy(ledger: Ledger): Promise<void> {
    const { settings, log, clock } = this.#p
    if (this.#isEngineUp) {
      const bytes = await collectCache(this.#engine, ledger, settings)
      if (bytes > 0) log.info({ bytes }, 'the build cache was pruned')
    }
    const expired = await expireArtifacts(settings, ledger, clock.now())
    if (expired > 0) log.info({ expired }, 'artifacts were over their retention')
    await measureEnvironments(this.#engine, ledger, settings)
  }
}

/** Environments in the edge's table; works without a running edge. */
const listRouted = (settings: AgentSettings): number[] =>
  Object.entries(readTable(settings).environments)
    .filter(([, { routes }]) => routes.length > 0)
    .map(([id]) => Number(id))

function* take(due: Set<number>): Generator<number> {
  for (const id of [...due]) {
    due.delete(id)
    yield id
  }
}

/** Begins immediately; returns a function that stops it. */
export function maintain(parts: MaintenanceParts): () => void {
  const context = new Maintenance(parts)
  return () => context.close()
}
