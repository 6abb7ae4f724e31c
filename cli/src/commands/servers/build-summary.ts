// What builds may use of a server, in words.
import type { Server, ServerSettings } from '@berth/shared/api'
import { formatBytes, formatDuration } from '../../terminal/format.ts'

/** `4.0 GB memory, 4 CPU, 30 min, 2 slots`; what is not set shows its default. */
export function describeBuilds({ settings, default_settings: usual }: Server): string {
  const of = (key: keyof ServerSettings): number | undefined =>
    settings[key] ?? usual?.[key] ?? undefined
  const memory = of('build_memory_bytes')
  const cpus = of('build_cpus')
  const timeout = of('build_timeout_ms')
  const slots = of('build_slots')
  return [
    ...(memory === undefined ? [] : [`${formatBytes(memory)} memory`]),
    ...(cpus === undefined ? [] : [`${cpus} CPU`]),
    ...(timeout === undefined ? [] : [formatDuration(timeout)]),
    ...(slots === undefined ? [] : [`${slots} at a time`]),
  ].join(', ')
}
