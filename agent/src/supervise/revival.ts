// Keeps the services of all environments up while the daemon runs: restarts them when it starts (after a reboot), when
// a supervisor was killed, and when a runner died that had paused the previous version. Invariant: it never acts in an
// environment where a runner works, and no runner starts where it acts.
import { existsSync } from 'node:fs'
import { DAEMON } from '@berth/shared'
import { Ledger, ledgerFile } from '../journal/ledger.ts'
import { describeError, type Log } from '../log.ts'
import type { AgentSettings } from '../settings.ts'
import { type Revival, reviveServices } from './control.ts'

interface RevivalParts {
  settings: AgentSettings
  manager: Pick<Revival, 'occupy' | 'vacate'>
  log: Log
  /** Restores the routes after a dead runner (maintenance). */
  recover: (ledger: Ledger, environmentId: number) => Promise<void>
}

/** Begins immediately; returns how to end it. */
export function keepServicesUp({ settings, manager, log, recover }: RevivalParts): () => void {
  const known = new Set<number>()
  let isBusy = false
  let isClosed = false
  const revival: Revival = {
    occupy: (id) => !isClosed && manager.occupy(id),
    vacate(id) {
      known.add(id)
      if (!isClosed) manager.vacate(id)
    },
    isFirst: (id) => !known.has(id),
    onTrouble: ({ environmentId, service }, error) =>
      log.error(
        { environmentId, service, ...describeError(error) },
        'a service could not be started again',
      ),
  }
  // kept open, because opening one every few seconds was most of an idle daemon's work
  let ledger: Ledger | undefined
  const letGo = (): void => {
    ledger?.close()
    ledger = undefined
  }
  const look = async (): Promise<void> => {
    if (isBusy || (!ledger && !existsSync(ledgerFile(settings)))) return // nothing was ever deployed here
    isBusy = true
    try {
      ledger ??= new Ledger(settings)
      const opened = ledger
      const prepare = (id: number): Promise<void> => recover(opened, id)
      const revived = await reviveServices(settings, opened, { ...revival, prepare })
      if (revived.length > 0) log.info({ services: revived }, 'services were started again')
    } catch (error) {
      log.error(describeError(error), 'services could not be started again')
      letGo()
    } finally {
      isBusy = false
      if (isClosed) letGo()
    }
  }
  const timer = setInterval(() => void look(), DAEMON.servicesMs)
  void look()
  return () => {
    isClosed = true
    clearInterval(timer)
    if (!isBusy) letGo()
  }
}
