// Reads how busy this machine is, and what single control groups use, from a few files of the kernel. Nothing here
// waits or starts a process. A figure that the kernel does not report is 0.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { findCgroupMounts } from './process/cgroups.ts'

const read = (file: string): string => {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}

/** Since boot, in ticks, over all processors. */
interface CpuTicks {
  busy: number
  all: number
}

export function readCpuTicks(text = read('/proc/stat')): CpuTicks {
  const fields = /^cpu +([\d ]+)/.exec(text)?.[1]?.split(' ').map(Number) ?? []
  const [user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0] = fields
  const busy = user + nice + system + irq + soft + steal
  return { busy, all: busy + idle + wait }
}

/** Per mille; the load of all processors together between two samples. */
export function busyPermille(before: CpuTicks, now: CpuTicks): number {
  const all = now.all - before.all
  return all > 0 ? Math.round((1_000 * Math.max(0, now.busy - before.busy)) / all) : 0
}

export function readMemory(text = read('/proc/meminfo')): { used: number; all: number } {
  const kilobytes = (name: string): number =>
    Number(new RegExp(`^${name}: +(\\d+) kB`, 'm').exec(text)?.[1] ?? 0)
  const all = kilobytes('MemTotal') * 1_024
  return { used: all - kilobytes('MemAvailable') * 1_024, all }
}

export const readLoad = (text = read('/proc/loadavg')): number => Number(text.split(' ')[0]) || 0

/** Folders of the control group of a process, by controller, without the root groups of the machine. */
export interface GroupFolders {
  memory?: string
  cpu?: string
  isUnified: boolean
}

let mounts: Map<string, string> | undefined

export function findGroup(pid: number): GroupFolders {
  mounts ??= findCgroupMounts()
  const folders: GroupFolders = { isUnified: false }
  for (const line of read(`/proc/${pid}/cgroup`).split('\n')) {
    const [, controllers = '', path = '/'] = /^\d+:([^:]*):(.*)$/.exec(line) ?? []
    if (path === '/') continue
    const names = controllers.split(',')
    const folderOf = (mount: string): string | undefined => {
      const root = mounts?.get(mount)
      return root === undefined ? undefined : join(root, path)
    }
    const memory = names.includes('memory') ? folderOf('memory') : undefined
    const cpu = names.includes('cpuacct') ? folderOf('cpuacct') : undefined
    if (memory) folders.memory = memory
    if (cpu) folders.cpu = cpu
    if (controllers !== '') continue
    const unified = folderOf('unified')
    if (unified === undefined || read(join(unified, 'memory.current')) === '') continue
    return { memory: unified, cpu: unified, isUnified: true }
  }
  return folders
}

/** Without the file cache, which the kernel can reclaim immediately. */
export function readGroupMemory({ memory, isUnified }: GroupFolders): number {
  if (memory === undefined) return 0
  const used = Number(read(join(memory, isUnified ? 'memory.current' : 'memory.usage_in_bytes')))
  const name = isUnified ? 'inactive_file' : 'total_inactive_file'
  const stat = read(join(memory, 'memory.stat'))
  const cached = Number(new RegExp(`^${name} (\\d+)`, 'm').exec(stat)?.[1] ?? 0)
  return Math.max(0, (used || 0) - cached)
}

/** Milliseconds of processor time since the group was made. */
export function readGroupCpu({ cpu, isUnified }: GroupFolders): number {
  if (cpu === undefined) return 0
  if (!isUnified) return Number(read(join(cpu, 'cpuacct.usage'))) / 1e6 || 0
  return Number(/^usage_usec (\d+)/.exec(read(join(cpu, 'cpu.stat')))?.[1] ?? 0) / 1_000
}
