// Answers CollectFacts: a few numbers about the server for its page and for diagnostics.
import { existsSync } from 'node:fs'
import { freemem, loadavg, totalmem, uptime } from 'node:os'
import { TASKS } from '@berth/shared'
import { Ledger, ledgerFile } from '../../journal/ledger.ts'
import type { EnvironmentUsage } from '../../journal/usage.ts'
import { MAINTENANCE } from '../../limits/maintenance.ts'
import type { Host } from '../../maintenance/host.ts'
import type { AgentSettings } from '../../settings.ts'

/** As of the last hourly measurement. */
function largest(settings: AgentSettings): EnvironmentUsage[] {
  if (!existsSync(ledgerFile(settings))) return []
  const ledger = new Ledger(settings)
  try {
    return ledger.usage.list().slice(0, MAINTENANCE.factEnvironments)
  } finally {
    ledger.close()
  }
}

export function collectFacts(host: Host, settings: AgentSettings) {
  const info = host.info()
  const fact = (name: string, value: unknown, warning = '') => ({
    name,
    value: String(value),
    isWarning: warning !== '',
    message: warning,
  })
  const free = Number(info.diskFreeBytes)
  const full = free < TASKS.acceptFreeBytes ? 'The disk is nearly full: new tasks are refused.' : ''
  return {
    facts: [
      fact('disk.free_bytes', free, full),
      fact('disk.bytes', info.diskBytes),
      fact('memory.bytes', totalmem()),
      fact('memory.free_bytes', freemem()),
      fact('cpus', info.cpus),
      fact('load.1m', loadavg()[0]?.toFixed(2) ?? ''),
      fact('uptime.seconds', Math.round(uptime())),
      ...info.parts.map((p) => fact(`${p.name}.version`, p.version, p.reason)),
      ...largest(settings).map(({ name, bytes }) => fact(`environment.${name}.bytes`, bytes)),
    ],
  }
}
