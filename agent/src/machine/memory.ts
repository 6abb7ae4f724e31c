// Tells why the kernel ended a process for its memory: it reached the limit of its cgroup, or the whole machine had none
// left. The counters of a cgroup say it; where they went with their cgroup, the memory that was left says it.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export type MemoryCause = 'limit' | 'server'

export interface MemoryCounters {
  /** How often the group reached its limit and found nothing to free. */
  hits: number
  /** Processes of the group that the kernel ended, for either reason. */
  kills: number
  /** Version 1, where new kernels do not count: the group has had as much as it may. */
  isFull: boolean
}

const read = (file: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

const numberIn = (text: string, name: string): number =>
  Number(new RegExp(`^${name} ([0-9]+)$`, 'm').exec(text)?.[1] ?? 0)

/** Of a folder of either version; zeros where it has no memory controller, or is gone. */
export function readMemoryCounters(folder: string): MemoryCounters {
  const events = read(join(folder, 'memory.events'))
  if (events !== '') {
    return { hits: numberIn(events, 'oom'), kills: numberIn(events, 'oom_kill'), isFull: false }
  }
  const value = (file: string): number => Number(read(join(folder, file)).trim() || 0)
  const limit = value('memory.limit_in_bytes')
  return {
    hits: value('memory.failcnt') + value('memory.memsw.failcnt'),
    kills: numberIn(read(join(folder, 'memory.oom_control')), 'oom_kill'),
    isFull: limit > 0 && value('memory.max_usage_in_bytes') >= limit,
  }
}

/** Undefined: the kernel ended none. */
export function memoryCause(
  before: MemoryCounters,
  after: MemoryCounters,
): MemoryCause | undefined {
  if (after.kills <= before.kills) return undefined
  return after.hits > before.hits || after.isFull ? 'limit' : 'server'
}

/** Memory that programs can still get, as a part of all. */
export function readAvailableMemory(meminfo = read('/proc/meminfo')): number {
  const of = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+([0-9]+) kB$`, 'm').exec(meminfo)?.[1] ?? 0)
  const total = of('MemTotal')
  return total > 0 ? of('MemAvailable') / total : 1
}
