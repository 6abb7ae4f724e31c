// Answers CollectFacts: a few numbers about the server for its page and for diagnostics.
import { freemem, loadavg, totalmem, uptime } from 'node:os'
import { TASKS } from '@berth/shared'
import type { Host } from './host.ts'

export function collectFacts(host: Host) {
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
    ],
  }
}
