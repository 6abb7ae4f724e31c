// Owns the table, the pending changes and their order. A change that leaves Caddy's configuration the same takes effect
// immediately; concurrent others share one push. Invariants: the table is on disk before a call is answered; a refused
// configuration changes nothing; changes of one environment happen in the order in which they came.
import { PROXY } from '../../limits/proxy.ts'
import type { Pushes } from '../caddy/pushes.ts'
import { containerIds, EdgeError, type SetAvoided, type SetRoutes } from '../protocol.ts'
import type { Table } from '../table.ts'
import type { Addresses } from './addresses.ts'
import { Answers } from './answers.ts'
import type { Upstream } from './name-server.ts'
import { isOurName, listNames, namesOf, upstreamsOf } from './resolution.ts'

interface RouteSwitcherOptions {
  table: Table
  addresses: Addresses
  /** Undefined in mode 'ports', without Caddy. */
  pushes: Pushes | undefined
  render: (table: Table) => string
  /** Prepares names that only the new configuration uses. */
  prepare: (table: Table) => void
  /** Writes the table, then updates what depends on it. */
  commit: (table: Table) => void
  pageAt: () => Upstream
}

interface Change {
  environmentId: number
  apply: (table: Table) => Table
  /** Without Caddy the change fails; a removal does not need Caddy. */
  needsCaddy: boolean
  resolve: () => void
  reject: (error: Error) => void
}

export class RouteSwitcher {
  readonly #o: RouteSwitcherOptions
  #table: Table
  #names: ReturnType<typeof listNames>
  /** Names of a table that is being pushed; they resolve already. */
  #coming: ReturnType<typeof listNames> | undefined
  readonly #answers = new Answers()
  /** By environment; the daemon repeats them, so a new edge soon has them again. */
  readonly #avoided = new Map<number, string[]>()
  #avoidedIds: ReadonlySet<string> = new Set()
  #waiting: Change[] = []
  #isPushing = false

  constructor(options: RouteSwitcherOptions) {
    this.#o = options
    this.#table = options.table
    this.#names = listNames(options.table)
  }

  get table(): Table {
    return this.#table
  }

  /** At the start: serves this table, also when it cannot be written. */
  adopt(table: Table): void {
    this.#take(table)
    this.#o.commit(table)
  }

  /** For the name server; undefined when the name is not one of ours. */
  answer(name: string): Upstream[] | undefined {
    const upstreams = this.find(name)
    if (upstreams) this.#answers.note(name, upstreams)
    return upstreams
  }

  /** Waits until Caddy no longer uses former answers for this environment's routes. */
  settle(environmentId: number): Promise<void> {
    return this.#answers.settle(namesOf(this.#table, environmentId), (name) => this.find(name))
  }

  find(name: string): Upstream[] | undefined {
    if (!isOurName(name)) return undefined
    const target = this.#names.get(name) ?? this.#coming?.get(name)
    const address = (id: string): string | undefined => this.#o.addresses.find(id)
    const found = target ? upstreamsOf(target, address, this.#avoidedIds) : []
    return found.length > 0 ? found : [this.#o.pageAt()]
  }

  get avoided(): ReadonlySet<string> {
    return this.#avoidedIds
  }

  avoid({ environmentId, containers }: SetAvoided): void {
    if (containers.length > 0) this.#avoided.set(environmentId, containers)
    else this.#avoided.delete(environmentId)
    this.#avoidedIds = new Set([...this.#avoided.values()].flat())
  }

  /** Runs `act` once a container of each route is known to run, because a route must never lead to stopped ones. */
  async withContainers<T>({ routes }: SetRoutes, act: () => Promise<T>): Promise<T> {
    const ids = routes.flatMap(({ target }) =>
      target.kind === 'container' ? containerIds(target) : [],
    )
    const release = this.#o.addresses.hold(ids)
    try {
      await this.#learn(routes)
      return await act()
    } finally {
      release()
    }
  }

  async #learn(routes: SetRoutes['routes']): Promise<void> {
    for (const { service, target } of routes) {
      if (target.kind !== 'container') continue
      const found = await Promise.all(
        containerIds(target).map((id) => this.#o.addresses.learn(id)),
      ).catch((error: Error) => {
        throw new EdgeError('unavailable', `The engine cannot be asked: ${error.message}`)
      })
      if (!found.some((address) => address !== undefined))
        throw new EdgeError('refused', `The container of service ${service} is not running.`)
    }
  }

  async change(
    environmentId: number,
    apply: (table: Table) => Table,
    needsCaddy: boolean,
  ): Promise<void> {
    apply(this.#table) // refuses a stale change without waiting
    if (needsCaddy) await this.#o.pushes?.ready()
    await new Promise<void>((resolve, reject) => {
      this.#waiting.push({ environmentId, apply, needsCaddy, resolve, reject })
      this.#pump()
    })
  }

  /** Performs changes that need no push; queues the others. */
  #pump(): void {
    const held = new Set<number>()
    const rest: Change[] = []
    for (const change of this.#waiting) {
      if (held.has(change.environmentId) || !this.#tryNow(change)) {
        held.add(change.environmentId)
        rest.push(change)
      }
    }
    this.#waiting = rest
    if (rest.length > 0 && !this.#isPushing) void this.#pushAll()
  }

  /** False when it needs a push. */
  #tryNow(change: Change): boolean {
    try {
      const next = change.apply(this.#table)
      const { pushes, render } = this.#o
      if (next === this.#table) {
        change.resolve()
        return true
      }
      if (pushes && render(next) !== render(this.#table)) return false
      this.#settle(next)
      change.resolve()
    } catch (error) {
      change.reject(error as Error)
    }
    return true
  }

  #settle(next: Table): void {
    this.#o.commit(next)
    this.#take(next)
  }

  #take(next: Table): void {
    this.#table = next
    this.#names = listNames(next)
    this.#o.addresses.forgetOthers()
  }

  async #pushAll(): Promise<void> {
    this.#isPushing = true
    try {
      await this.#o.pushes?.turn()
      const batch = this.#takeBatch()
      // one bad change must not fail the others
      const isDone = await this.#pushBatch(batch, batch.length > 1)
      if (!isDone) for (const change of batch) await this.#pushBatch([change], false)
    } finally {
      this.#isPushing = false
      this.#coming = undefined
    }
    this.#pump()
  }

  /** At most one change per environment, as the next one builds on its result. */
  #takeBatch(): Change[] {
    const seen = new Set<number>()
    const batch = this.#waiting.filter(({ environmentId }) => {
      if (seen.has(environmentId) || seen.size >= PROXY.pushBatch) return false
      seen.add(environmentId)
      return true
    })
    this.#waiting = this.#waiting.filter((change) => !batch.includes(change))
    return batch
  }

  /** False when Caddy refused; `isShared` says that each change is then tried alone. */
  async #pushBatch(batch: Change[], isShared: boolean): Promise<boolean> {
    const { draft, live } = this.#draft(batch)
    this.#coming = listNames(draft)
    try {
      this.#o.prepare(draft)
      await this.#o.pushes?.push(this.#o.render(draft))
    } catch (error) {
      const { kind } = error as EdgeError
      if (isShared && kind === 'refused') return false
      const lost = kind === 'unavailable' ? live.filter(({ needsCaddy }) => needsCaddy) : live
      for (const change of lost) change.reject(error as Error)
      this.#finish(live.filter((change) => !lost.includes(change)))
      return true
    }
    this.#finish(live)
    return true
  }

  /** Refuses changes that are not (or no longer) possible. */
  #draft(batch: Change[]): { draft: Table; live: Change[] } {
    let draft = this.#table
    const live: Change[] = []
    for (const change of batch) {
      try {
        draft = change.apply(draft)
        live.push(change)
      } catch (error) {
        change.reject(error as Error)
      }
    }
    return { draft, live }
  }

  /** The table may have changed during the push, so each change is applied to the current one. */
  #finish(changes: Change[]): void {
    for (const change of changes) {
      try {
        this.#settle(change.apply(this.#table))
        change.resolve()
      } catch (error) {
        change.reject(error as Error)
      }
    }
  }
}
