// The daemon's maintenance of logs on this disk: compresses past days, removes what is too old or too much, and copies
// what applications write to their own files. A problem with one environment does not affect others.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { SERVICE_LOGS } from '@berth/shared'
import { Ledger, ledgerFile } from '../journal/ledger.ts'
import { describeError, type Log } from '../log.ts'
import { listFolder } from '../machine/files.ts'
import { isManualPlan, type LastPlan } from '../runner/plan/plan.ts'
import type { AgentSettings } from '../settings.ts'
import { compressParts, keepWithinBounds, listLoggedServices } from './days.ts'
import { type ManualVersion, OwnLogs } from './own-log-copies.ts'

/** All environments that ever wrote here and still exist. */
export async function sweepLogs(settings: AgentSettings, log: Log, now: Date): Promise<void> {
  const root = join(settings.stateDir, 'logs')
  for (const name of listFolder(root)) {
    const environmentLogs = join(root, name)
    try {
      for (const service of listLoggedServices(environmentLogs)) {
        await compressParts(join(environmentLogs, service), now)
      }
      keepWithinBounds(environmentLogs, now)
    } catch (error) {
      log.warn({ environment: name, ...describeError(error) }, 'logs could not be tidied')
    }
  }
}

class OwnLogRetention {
  readonly #settings: AgentSettings
  readonly #log: Log
  readonly #own: OwnLogs
  /** The running version, by environment; null for another recipe. */
  readonly #versions = new Map<number, { taskId: number; manual: ManualVersion | null }>()
  #ledger: Ledger | undefined
  #isBusy = false
  #isClosed = false

  constructor(settings: AgentSettings, log: Log) {
    this.#settings = settings
    this.#log = log
    this.#own = new OwnLogs(settings)
  }

  close(): void {
    this.#isClosed = true
    this.#ledger?.close()
    this.#ledger = undefined
    this.#own.close()
  }

  async look(): Promise<void> {
    if (this.#isBusy || this.#isClosed) return
    this.#isBusy = true
    try {
      for (const version of this.#listVersions()) {
        if (this.#isClosed) return
        await this.#copy(version)
      }
    } finally {
      this.#isBusy = false
    }
  }

  async #copy(version: ManualVersion): Promise<void> {
    const { environmentId } = version
    try {
      await this.#own.copy(version)
    } catch (error) {
      if (this.#isClosed) return
      this.#log.debug({ environmentId, ...describeError(error) }, 'its log files were not read')
    }
  }

  /** Of environments with the manual recipe; each plan is read once. */
  #listVersions(): ManualVersion[] {
    if (!this.#ledger && !existsSync(ledgerFile(this.#settings))) return []
    this.#ledger ??= new Ledger(this.#settings)
    const tasks = this.#ledger.listVersions()
    for (const [id, { taskId }] of this.#versions) {
      if (tasks.get(id) === taskId) continue
      this.#versions.delete(id)
      if (!tasks.has(id)) this.#own.forget(id)
    }
    for (const [environmentId, taskId] of tasks) {
      if (this.#versions.has(environmentId)) continue
      const body = this.#ledger.findPlan(environmentId)?.body
      const plan = body === undefined ? null : (JSON.parse(body) as LastPlan)
      const { secretKeys } = plan ?? {}
      const manual = isManualPlan(plan) ? { environmentId, taskId, secretKeys } : null
      this.#versions.set(environmentId, { taskId, manual })
    }
    return [...this.#versions.values()].flatMap(({ manual }) => manual ?? [])
  }
}

/** Begins immediately; returns how to end it. */
export function keepLogs({ settings, log }: { settings: AgentSettings; log: Log }): () => void {
  const own = new OwnLogRetention(settings, log)
  let isSweeping = false
  const sweep = (): void => {
    if (isSweeping) return
    isSweeping = true
    void sweepLogs(settings, log, new Date()).finally(() => {
      isSweeping = false
    })
  }
  const timers = [
    setInterval(sweep, SERVICE_LOGS.sweepMs),
    setInterval(() => void own.look(), SERVICE_LOGS.ownFileMs),
  ]
  const first = setTimeout(sweep, SERVICE_LOGS.quietMs)
  for (const timer of [...timers, first]) timer.unref()
  return () => {
    for (const timer of timers) clearInterval(timer)
    clearTimeout(first)
    own.close()
  }
}
