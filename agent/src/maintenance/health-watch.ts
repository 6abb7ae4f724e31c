// Asks every running service, for as long as it runs, whether it is well: a look at its process every few seconds, and
// its own check where it has one. Three failures in a row make it unhealthy; the environment is then degraded, the edge
// leaves the replica out, and `restart: unhealthy` starts it again. drift.ts says what runs; this file never asks it.
import { HEALTH } from '../limits/maintenance.ts'
import { describeError, type Log } from '../log.ts'
import type { HealthSample } from '../machine/process/health.ts'
import type { EdgeClient } from '../proxy/client.ts'
import {
  describeHealth,
  firstMemory,
  type HealthMemory,
  type HealthRule,
  type HealthState,
  nextRestart,
  noteLook,
  noteRestart,
  type Restarts,
} from './health-rules.ts'

/** One container or process of the running version. */
export interface WatchedPart {
  service: string
  replica: number
  /** As messages name it. */
  shown: string
  /** False: it has ended, and may come back. */
  isUp: boolean
  /** Changes with each start. */
  of: string
  /** Wall clock. */
  startedAt: number
  rule: HealthRule
  /** Why it cannot answer at all (a stopped process), found without asking it; undefined: it can. */
  findFrozen(): string | undefined
  /** Undefined: it has nothing to ask. */
  ask: { everyMs: number; once(): Promise<HealthSample> } | undefined
  /** A container of a service with an address and further replicas. */
  balancedId: string | undefined
  /** `restart: unhealthy`. */
  restart: (() => Promise<void>) | undefined
}

interface Entry {
  part: WatchedPart
  memory: HealthMemory
  restarts: Restarts | undefined
  healthySince: number
  /** Monotonic. */
  nextAt: number
  askAt: number
  isAsking: boolean
}

interface HealthOptions {
  edge: Pick<EdgeClient, 'setAvoided'>
  manager: {
    isBusy(environmentId: number): boolean
    occupy(environmentId: number): boolean
    vacate(environmentId: number): void
  }
  log: Log
  /** Wall clock. */
  now: () => number
  onChange: (environmentId: number) => void
}

const keyOf = ({ service, replica }: Pick<WatchedPart, 'service' | 'replica'>): string =>
  `${service} ${replica}`

export class HealthWatch {
  readonly #o: HealthOptions
  readonly #entries = new Map<number, Map<string, Entry>>()
  /** What the edge was told last, by environment; absent: it must be told. */
  readonly #avoided = new Map<number, { text: string; at: number }>()
  readonly #timer: NodeJS.Timeout

  constructor(options: HealthOptions) {
    this.#o = options
    this.#timer = setInterval(() => this.#tick(), HEALTH.tickMs)
    this.#timer.unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /** All that runs of an environment now; what is not named is forgotten. */
  set(environmentId: number, parts: readonly WatchedPart[]): void {
    const before = this.#entries.get(environmentId)
    if (parts.length === 0) {
      this.#entries.delete(environmentId)
      this.#avoided.delete(environmentId)
      return
    }
    const now = performance.now()
    const entries = parts.map((part): [string, Entry] => {
      const key = keyOf(part)
      const known = before?.get(key)
      if (!known) return [key, this.#begin(part, now)]
      const isAgain = known.memory.of !== part.of
      known.part = part
      known.memory = noteRestart(known.memory, part.of)
      if (isAgain) known.nextAt = now
      return [key, known]
    })
    this.#entries.set(environmentId, new Map(entries))
    this.#tellEdge(environmentId)
  }

  /** Services of many environments are not all asked in the same moment. */
  #begin(part: WatchedPart, now: number): Entry {
    const nextAt = now + Math.random() * HEALTH.everyMs
    return {
      part,
      memory: firstMemory(part.of),
      restarts: undefined,
      healthySince: this.#o.now(),
      nextAt,
      askAt: nextAt,
      isAsking: false,
    }
  }

  /** The engine reports its end before anything else is known: no request goes there until it answers again. */
  noteEnd(environmentId: number, containerId: string): void {
    for (const entry of this.#entries.get(environmentId)?.values() ?? []) {
      if (entry.part.balancedId !== containerId) continue
      entry.memory = { ...entry.memory, of: '', state: 'starting', failures: 0 }
      this.#tellEdge(environmentId)
    }
  }

  /** The worst state of a service's parts; undefined: it has none. */
  stateOf(environmentId: number, service: string): HealthState | undefined {
    const states = this.#of(environmentId, service).map(({ memory }) => memory.state)
    return (['unhealthy', 'starting', 'healthy'] as const).find((state) => states.includes(state))
  }

  /** Parts that run, but do not answer as they should. */
  countUnhealthy(environmentId: number, service: string): number {
    return this.#of(environmentId, service).filter(
      ({ part, memory }) => part.isUp && memory.state === 'unhealthy',
    ).length
  }

  /** Why the service is not well, in one sentence; empty: it is. */
  reasonOf(environmentId: number, service: string): string {
    for (const { part, memory, restarts } of this.#of(environmentId, service)) {
      const reason = describeHealth(part.shown, memory, restarts)
      if (reason !== '') return reason
    }
    return ''
  }

  #of(environmentId: number, service: string): Entry[] {
    const entries = [...(this.#entries.get(environmentId)?.values() ?? [])]
    return entries.filter(({ part }) => part.service === service)
  }

  #tick(): void {
    const now = performance.now()
    for (const [environmentId, entries] of this.#entries) {
      const due = [...entries.values()].filter(
        (entry) => entry.part.isUp && !entry.isAsking && entry.nextAt <= now,
      )
      const isStale = this.#isStale(environmentId, now)
      if (due.length === 0 && !isStale) continue
      if (this.#o.manager.isBusy(environmentId)) {
        // a runner starts and stops services, and tells the edge itself
        this.#avoided.delete(environmentId)
        continue
      }
      for (const entry of due) void this.#look(environmentId, entry, now)
      if (isStale) this.#tellEdge(environmentId)
    }
  }

  /** A new edge knows nothing, so what it should avoid is repeated. */
  #isStale(environmentId: number, now: number): boolean {
    const told = this.#avoided.get(environmentId)
    return told === undefined || (told.text !== '' && now - told.at > HEALTH.repeatMs)
  }

  async #look(environmentId: number, entry: Entry, startedAt: number): Promise<void> {
    const { part, memory: before } = entry
    const isWell = before.state === 'healthy' && before.failures === 0
    entry.nextAt = startedAt + (before.state === 'starting' ? HEALTH.tickMs : HEALTH.everyMs)
    entry.isAsking = true
    try {
      const sample = await this.#sample(part, isWell && entry.askAt > startedAt)
      if (!sample) return
      if (!sample.isFrozen) entry.askAt = startedAt + (part.ask?.everyMs ?? 0)
      // it was started again, or replaced, while it was asked
      if (entry.part !== part || entry.memory.of !== before.of) return
      this.#note(environmentId, entry, sample)
    } catch (error) {
      this.#o.log.debug({ environmentId, ...describeError(error) }, 'a health check did not run')
    } finally {
      entry.isAsking = false
    }
  }

  /** Undefined: there is nothing to learn yet. */
  async #sample(part: WatchedPart, isEarly: boolean) {
    const frozen = part.findFrozen()
    if (frozen !== undefined) return { isHealthy: false, said: frozen, detail: '', isFrozen: true }
    if (!part.ask) return { isHealthy: true, said: '', detail: '', isFrozen: false }
    return isEarly ? undefined : { ...(await part.ask.once()), isFrozen: false }
  }

  #note(environmentId: number, entry: Entry, sample: HealthSample & { isFrozen: boolean }): void {
    const { part, memory: before } = entry
    const now = this.#o.now()
    entry.memory = noteLook(before, sample, part.rule, now - part.startedAt)
    const { state, reason } = entry.memory
    if (state !== before.state && state === 'healthy') entry.healthySince = now
    const isSteady = state === 'healthy' && now - entry.healthySince > HEALTH.forgetMs
    if (isSteady) entry.restarts = undefined
    if (state !== before.state || reason !== before.reason) {
      this.#tellEdge(environmentId)
      this.#o.onChange(environmentId)
    }
    if (state === 'unhealthy') void this.#restart(environmentId, entry)
  }

  async #restart(environmentId: number, entry: Entry): Promise<void> {
    const { part, restarts } = entry
    const now = this.#o.now()
    const bounds = { firstMs: HEALTH.restartMs, capMs: HEALTH.restartCapMs }
    if (!part.restart || now < nextRestart(restarts, bounds)) return
    if (!this.#o.manager.occupy(environmentId)) return // the next failure tries again
    entry.restarts = { count: (restarts?.count ?? 0) + 1, at: now }
    try {
      await part.restart()
      const { service, replica } = part
      const { reason } = entry.memory
      this.#o.log.info(
        { environmentId, service, replica, reason },
        'restarted, as it was unhealthy',
      )
    } catch (error) {
      this.#o.log.warn({ environmentId, ...describeError(error) }, 'could not be restarted')
    } finally {
      this.#o.manager.vacate(environmentId)
      this.#o.onChange(environmentId)
    }
  }

  #tellEdge(environmentId: number): void {
    const entries = [...(this.#entries.get(environmentId)?.values() ?? [])]
    const containers = entries.flatMap(({ part, memory }) =>
      part.balancedId !== undefined && memory.state !== 'healthy' ? [part.balancedId] : [],
    )
    const isBalanced = entries.some(({ part }) => part.balancedId !== undefined)
    const text = containers.toSorted().join(' ')
    const now = performance.now()
    const told = this.#avoided.get(environmentId)
    if (told?.text === text && now - told.at <= HEALTH.repeatMs) return
    this.#avoided.set(environmentId, { text, at: now })
    if (!isBalanced) return
    this.#o.edge.setAvoided({ environmentId, containers }).catch((error: unknown) => {
      this.#avoided.delete(environmentId)
      this.#o.log.debug({ environmentId, ...describeError(error) }, 'the edge was not told')
    })
  }
}
