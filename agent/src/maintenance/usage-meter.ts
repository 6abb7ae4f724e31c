// Measures once a minute how busy this server is and what each environment uses, for the heartbeat. Cheap by design:
// reads a handful of small files per running service when a heartbeat leaves anyway, without a process or an engine
// call.
import { statfsSync } from 'node:fs'
import { USAGE } from '@berth/shared'
import {
  busyPermille,
  findGroup,
  type GroupFolders,
  readCpuTicks,
  readGroupCpu,
  readGroupMemory,
  readLoad,
  readMemory,
} from '../machine/usage.ts'

interface Use {
  memoryBytes: number
  cpuPermille: number
}

interface ServiceUse extends Use {
  name: string
}

interface EnvironmentUse extends Use {
  environmentId: number
  diskBytes: number
  services: ServiceUse[]
}

/** A process whose control group is a service's, or one replica's. */
export interface ServicePid {
  service: string
  pid: number
}

interface HostUse {
  at: Date
  cpuPermille: number
  memoryUsedBytes: number
  memoryBytes: number
  diskUsedBytes: number
  diskBytes: number
  load: number
  environments: EnvironmentUse[]
}

interface Watched {
  group: GroupFolders
  cpuMs: number
  at: number
}

export class UsageMeter {
  readonly #folder: string
  /** Bytes on disk by environment, as of the last measurement. */
  readonly #disk: () => Map<number, number>
  readonly #pids = new Map<number, ServicePid[]>()
  readonly #watched = new Map<number, Watched>()
  #ticks = readCpuTicks()
  #takenAt = performance.now() - USAGE.everyMs

  constructor(folder: string, disk: () => Map<number, number>) {
    this.#folder = folder
    this.#disk = disk
  }

  /** The running pids of an environment at its last check; none: nothing runs. */
  notePids(environmentId: number, pids: ServicePid[]): void {
    if (pids.length > 0) this.#pids.set(environmentId, pids)
    else this.#pids.delete(environmentId)
  }

  /** Something changed that should not wait for the next minute. */
  hasten(): void {
    this.#takenAt -= USAGE.everyMs
  }

  /** Undefined: not due yet. */
  take(): HostUse | undefined {
    const now = performance.now()
    if (now - this.#takenAt < USAGE.everyMs) return undefined
    this.#takenAt = now
    const ticks = readCpuTicks()
    const cpuPermille = busyPermille(this.#ticks, ticks)
    this.#ticks = ticks
    const memory = readMemory()
    // blocks reserved for root count as used, because environments cannot write there
    const { blocks, bavail, bsize } = statfsSync(this.#folder)
    return {
      at: new Date(),
      cpuPermille,
      memoryUsedBytes: memory.used,
      memoryBytes: memory.all,
      diskUsedBytes: (blocks - bavail) * bsize,
      diskBytes: blocks * bsize,
      load: readLoad(),
      environments: this.#environments(now),
    }
  }

  #environments(now: number): EnvironmentUse[] {
    const disk = this.#disk()
    const live = new Set([...this.#pids.values()].flat().map(({ pid }) => pid))
    for (const pid of this.#watched.keys()) if (!live.has(pid)) this.#watched.delete(pid)
    const found = [...new Set([...this.#pids.keys(), ...disk.keys()])].map((environmentId) => {
      const services = this.#services(environmentId, now)
      return {
        environmentId,
        diskBytes: disk.get(environmentId) ?? 0,
        ...sum(services),
        services: services.slice(0, USAGE.services),
      }
    })
    return found.sort((a, b) => b.memoryBytes - a.memoryBytes).slice(0, USAGE.environments)
  }

  #services(environmentId: number, now: number): ServiceUse[] {
    const uses = new Map<string, Use[]>()
    for (const { service, pid } of this.#pids.get(environmentId) ?? []) {
      uses.set(service, [...(uses.get(service) ?? []), this.#look(pid, now)])
    }
    return [...uses].map(([name, of]) => ({ name, ...sum(of) }))
  }

  #look(pid: number, now: number): Use {
    const before = this.#watched.get(pid)
    const group = before?.group ?? findGroup(pid)
    const cpuMs = readGroupCpu(group)
    this.#watched.set(pid, { group, cpuMs, at: now })
    const share = before ? (1_000 * (cpuMs - before.cpuMs)) / (now - before.at) : 0
    const memoryBytes = readGroupMemory(group)
    return { memoryBytes, cpuPermille: Math.max(0, Math.round(share)) }
  }
}

const sum = (uses: Use[]): Use => ({
  memoryBytes: uses.reduce((all, { memoryBytes }) => all + memoryBytes, 0),
  cpuPermille: uses.reduce((all, { cpuPermille }) => all + cpuPermille, 0),
})
