// Control groups, one per command and per service where this machine allows it; a process cannot leave one by forking.
// Version 2 (`cgroup.kill`) and the hierarchies of version 1 are used together, since many machines have both: one is
// enough to end a tree, and memory and cpu are bounded where a controller exists.
// Deliberately absent: systemd. Without cgroups, processes.ts (findFamily) finds the processes instead.
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { PROCESSES } from '../../limits/machine.ts'
import { type MemoryCounters, readMemoryCounters } from '../memory.ts'
import { signalProcess } from './signals.ts'

export interface CgroupHost {
  /** Our folder in each usable hierarchy. */
  unified?: string
  freezer?: string
  pids?: string
  memory?: string
  cpu?: string
}

export interface CgroupBounds {
  memoryBytes: number
  cpus: number
  pids: number
}

type Hierarchy = keyof CgroupHost
const LEGACY = ['freezer', 'pids', 'memory', 'cpu'] as const
const OURS = 'berth'

const read = (file: string): string | undefined => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

const write = (file: string, text: string): boolean => {
  try {
    writeFileSync(file, text)
    return true
  } catch {
    return false
  }
}

const makeFolder = (folder: string): boolean => {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o755 })
    accessSync(folder, constants.W_OK) // it may exist and belong to another agent
    return true
  } catch {
    return false
  }
}

/** Mount point of each hierarchy, from /proc/self/mountinfo. */
export function findCgroupMounts(): Map<string, string> {
  const mounts = new Map<string, string>()
  for (const line of (read('/proc/self/mountinfo') ?? '').split('\n')) {
    const [left, right] = line.split(' - ')
    const point = left?.split(' ')[4]
    const [type, , options] = (right ?? '').split(' ')
    if (!point) continue
    if (type === 'cgroup2') mounts.set('unified', point)
    if (type !== 'cgroup') continue
    for (const option of (options ?? '').split(',')) {
      const isKnown = (LEGACY as readonly string[]).includes(option) || option === 'cpuacct'
      if (isKnown) mounts.set(option, point)
    }
  }
  return mounts
}

/**
 * The cgroup of this process in a hierarchy of version 1. Bounds go below it, so that bounds set from outside still
 * hold; the hierarchies that list members use one place for all processes of the agent.
 */
function ownPath(controller: string): string {
  if (controller === 'freezer' || controller === 'pids') return '/'
  for (const line of (read('/proc/self/cgroup') ?? '').split('\n')) {
    const [, controllers, path] = line.split(':')
    if (controllers?.split(',').includes(controller)) return path ?? '/'
  }
  return '/'
}

let detected: CgroupHost | undefined

/** Checks once per process; makes our folder in each writable hierarchy. */
export function detectCgroups(): CgroupHost {
  if (detected) return detected
  const host: CgroupHost = {}
  const mounts = findCgroupMounts()
  const unified = mounts.get('unified')
  if (unified) {
    const folder = join(unified, OURS)
    if (makeFolder(folder) && existsSync(join(folder, 'cgroup.kill'))) {
      host.unified = folder
      for (const controller of ['memory', 'pids', 'cpu']) {
        write(join(folder, 'cgroup.subtree_control'), `+${controller}`)
      }
    }
  }
  for (const controller of LEGACY) {
    const mount = mounts.get(controller)
    if (!mount) continue
    const folder = join(mount, ownPath(controller), OURS)
    if (makeFolder(folder)) host[controller] = folder
  }
  detected = host
  return host
}

/** Names of our groups with this prefix, also those whose maker has exited. */
export function listCgroups(host: CgroupHost, prefix: string): string[] {
  const names = Object.values(host).flatMap((folder: string) => {
    try {
      return readdirSync(folder)
    } catch {
      return []
    }
  })
  return [...new Set(names)].filter((name) => name.startsWith(prefix))
}

export class Cgroup {
  readonly #folders = new Map<Hierarchy, string>()

  private constructor(folders: Map<Hierarchy, string>) {
    this.#folders = folders
  }

  /** `name` is ours: letters, digits, dashes. Returns undefined when this machine has no usable hierarchy. */
  static create(host: CgroupHost, name: string, bounds?: CgroupBounds): Cgroup | undefined {
    const folders = new Map<Hierarchy, string>()
    for (const [hierarchy, base] of Object.entries(host) as [Hierarchy, string][]) {
      const folder = join(base, name)
      if (makeFolder(folder)) folders.set(hierarchy, folder)
    }
    const made = new Cgroup(folders)
    if (!made.#holder()) {
      made.remove()
      return undefined
    }
    if (bounds) made.#bound(bounds)
    return made
  }

  #holder(): [Hierarchy, string] | undefined {
    for (const hierarchy of ['unified', 'freezer', 'pids'] as const) {
      const folder = this.#folders.get(hierarchy)
      if (folder) return [hierarchy, folder]
    }
    return undefined
  }

  /** Sets each bound separately; when a controller is missing or refuses, the others still apply. */
  #bound(bounds: CgroupBounds): void {
    const memory = String(bounds.memoryBytes)
    const set = (hierarchy: Hierarchy, file: string, text: string): void => {
      const folder = this.#folders.get(hierarchy)
      if (folder && existsSync(join(folder, file))) write(join(folder, file), text)
    }
    set('unified', 'memory.max', memory)
    set('unified', 'memory.swap.max', '0')
    set('unified', 'pids.max', String(bounds.pids))
    set('unified', 'cpu.max', `${Math.round(bounds.cpus * 100_000)} 100000`)
    set('memory', 'memory.limit_in_bytes', memory)
    set('memory', 'memory.memsw.limit_in_bytes', memory)
    set('pids', 'pids.max', String(bounds.pids))
    set('cpu', 'cpu.cfs_period_us', '100000')
    set('cpu', 'cpu.cfs_quota_us', String(Math.round(bounds.cpus * 100_000)))
  }

  /** A process that writes 0 to each of these files joins, with its children. The first file lists the members. */
  joinFiles(): string[] {
    return [...this.#folders.values()].map((folder) => join(folder, 'cgroup.procs'))
  }

  members(): number[] {
    const [, folder] = this.#holder() ?? []
    if (!folder) return []
    const text = read(join(folder, 'cgroup.procs')) ?? ''
    return text.split('\n').filter(Boolean).map(Number)
  }

  /** How many processes of this group the kernel has killed for lack of memory. */
  memoryKills(): number {
    return this.memoryCounters().kills
  }

  /** Processes of this group that the kernel has killed for lack of memory, and how often its limit was reached. */
  memoryCounters(): MemoryCounters {
    const sum: MemoryCounters = { hits: 0, kills: 0, isFull: false }
    for (const hierarchy of ['unified', 'memory'] as const) {
      const folder = this.#folders.get(hierarchy)
      if (!folder) continue
      const { hits, kills, isFull } = readMemoryCounters(folder)
      sum.hits += hits
      sum.kills += kills
      sum.isFull ||= isFull
    }
    return sum
  }

  /** Ends every process inside, including those forked meanwhile. Returns true when none is left. */
  async kill(): Promise<boolean> {
    const [hierarchy, folder] = this.#holder() ?? []
    if (!hierarchy || !folder) return true
    for (let round = 0; round < PROCESSES.killRounds; round += 1) {
      if (this.members().length === 0) return true
      if (hierarchy === 'unified') write(join(folder, 'cgroup.kill'), '1')
      if (hierarchy === 'freezer') await this.#killFrozen(folder)
      if (hierarchy === 'pids') {
        write(join(folder, 'pids.max'), '0') // no member may fork meanwhile
        this.#signalAll()
      }
      await delay(PROCESSES.endPollMs)
    }
    return this.members().length === 0
  }

  async #killFrozen(folder: string): Promise<void> {
    const file = join(folder, 'freezer.state')
    write(file, 'FROZEN')
    const rounds = PROCESSES.freezeMs / PROCESSES.endPollMs
    for (let round = 0; round < rounds && read(file)?.trim() !== 'FROZEN'; round += 1) {
      await delay(PROCESSES.endPollMs)
    }
    this.#signalAll()
    write(file, 'THAWED')
  }

  #signalAll(): void {
    for (const pid of this.members()) signalProcess(pid, 'SIGKILL')
  }

  /** Moves surviving processes to another group; bounded, since they may fork while they move. */
  moveMembers(to: Cgroup): void {
    for (let round = 0; round < PROCESSES.killRounds; round += 1) {
      const pids = this.members()
      if (pids.length === 0) return
      for (const pid of pids) for (const file of to.joinFiles()) write(file, String(pid))
    }
  }

  /** Has no effect while the group has members, because the kernel refuses. */
  remove(): void {
    for (const folder of this.#folders.values()) {
      try {
        rmdirSync(folder)
      } catch {
        // in use, or removed already
      }
    }
  }
}

/**
 * Removes every group of ours with this prefix, wherever its maker was: in a version 1 hierarchy our folder is below the
 * group of the process that made it. Ends what is inside. Removes our folder too if no other agent uses it.
 */
export async function removeAllGroups(prefix: string, depth: number): Promise<void> {
  for (const mount of new Set(findCgroupMounts().values())) {
    for (const folder of findFolders(mount, depth)) {
      for (const name of listFolders(folder).filter((one) => one.startsWith(prefix))) {
        await removeGroup(join(folder, name))
      }
      removeFolder(folder)
    }
  }
}

async function removeGroup(folder: string): Promise<void> {
  for (let round = 0; round < PROCESSES.killRounds; round += 1) {
    const pids = (read(join(folder, 'cgroup.procs')) ?? '').split('\n').filter(Boolean)
    if (pids.length === 0) break
    for (const pid of pids) signalProcess(Number(pid), 'SIGKILL')
    await delay(PROCESSES.endPollMs)
  }
  removeFolder(folder)
}

function removeFolder(folder: string): void {
  try {
    rmdirSync(folder)
  } catch {
    // in use by another agent, or removed already
  }
}

const listFolders = (folder: string): string[] => {
  try {
    const found = readdirSync(folder, { withFileTypes: true })
    return found.filter((entry) => entry.isDirectory()).map(({ name }) => name)
  } catch {
    return []
  }
}

/** Our folders below this one. */
export function findFolders(folder: string, depth: number): string[] {
  return listFolders(folder).flatMap((name) => {
    const path = join(folder, name)
    if (name === OURS) return [path]
    return depth > 1 ? findFolders(path, depth - 1) : []
  })
}
