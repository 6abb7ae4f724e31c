// Ends replaced containers and processes that still answered requests when their deployment was over: as soon as no
// request is left, or their time is. The rows are in the ledger, so a restarted daemon continues. It never waits inside
// an environment, so the next deployment can begin at once.
import type { Draining, Ledger, ProcessRow } from '../journal/ledger.ts'
import type { ObjectRow } from '../journal/objects.ts'
import { describeError, type Log } from '../log.ts'
import { inspectOwned } from '../machine/docker/containers.ts'
import type { Engine } from '../machine/docker/engine.ts'
import type { EdgeClient } from '../proxy/client.ts'
import { endContainer } from '../resources/garbage.ts'
import type { Upstream } from '../runner/routing.ts'
import { countBusy } from '../runner/steps/route.ts'
import type { AgentSettings } from '../settings.ts'
import { instructionsOf, stopService } from '../supervise/control.ts'

interface DrainingOptions {
  settings: AgentSettings
  engine: Engine
  edge: Pick<EdgeClient, 'countRequests'>
  isBusy: (environmentId: number) => boolean
  now: () => number
  log: Log
}

const nameOf = ({ environmentId, service, taskId }: Draining): string =>
  `${environmentId} ${service} ${taskId}`

export class DrainingWatch {
  readonly #o: DrainingOptions
  /** Being looked at; a slow end of one does not delay the others. */
  readonly #active = new Set<string>()

  constructor(options: DrainingOptions) {
    this.#o = options
  }

  look(ledger: Ledger): void {
    for (const draining of ledger.listDraining()) {
      const name = nameOf(draining)
      // a removal ends them itself
      if (this.#active.has(name) || this.#o.isBusy(draining.environmentId)) continue
      this.#active.add(name)
      this.#drain(ledger, draining)
        .catch((error: unknown) => {
          const { environmentId, service } = draining
          const about = { environmentId, service, ...describeError(error) }
          this.#o.log.warn(about, 'a replaced service could not be ended yet')
        })
        .finally(() => this.#active.delete(name))
    }
  }

  async #drain(ledger: Ledger, draining: Draining): Promise<void> {
    const { environmentId, service, taskId } = draining
    const isOf = (row: { service: string; taskId: number; state: string }): boolean =>
      row.service === service && row.taskId === taskId && row.state === 'retired'
    const containers = ledger.objects.list({ environmentId, kind: 'container' }).filter(isOf)
    const processes = ledger.listProcesses(environmentId).filter(isOf)
    // replicas end one by one, each when its own requests have ended
    for (const row of containers) await this.#drainContainer(ledger, row, draining.until)
    for (const row of processes) await this.#drainProcess(ledger, row, draining.until)
    const isLeft =
      ledger.objects.list({ environmentId, kind: 'container' }).some(isOf) ||
      ledger.listProcesses(environmentId).some(isOf)
    if (!isLeft) ledger.removeDraining(draining)
  }

  async #isOver(upstream: Upstream | undefined, until: number): Promise<boolean> {
    if (!upstream || this.#o.now() >= until) return true
    return (await countBusy(this.#o.edge, upstream)) === 0
  }

  async #drainContainer(ledger: Ledger, row: ObjectRow, until: number): Promise<void> {
    const { engine, settings } = this.#o
    const seen = await inspectOwned(engine, settings, row.name)
    const { port } = row.facts
    const upstream =
      seen?.address && typeof port === 'number' ? { address: seen.address, port } : undefined
    if (!(await this.#isOver(upstream, until))) return
    const isRunning = seen?.state === 'running' || seen?.state === 'restarting'
    if (seen) await endContainer(engine, settings, row, { ...seen, isRunning })
    ledger.objects.remove(row)
  }

  async #drainProcess(ledger: Ledger, row: ProcessRow, until: number): Promise<void> {
    const { port } = row
    const upstream = port === undefined ? undefined : { address: '127.0.0.1', port }
    if (!(await this.#isOver(upstream, until))) return
    await stopService(this.#o.settings, instructionsOf(row))
    ledger.removeProcess(row)
  }
}
