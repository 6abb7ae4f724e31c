// Measures disk space on this server: how much a deployment needs, how much stays reserved, and whether both are free.
// A watch stops a step before it fills the disk for other environments. Every figure is measured now, never cached.
import { statfsSync, statSync } from 'node:fs'
import { STEPS } from '@berth/shared'
import { DISK_SPACE, PROCESSES } from '../limits/machine.ts'

/** One file system. */
export interface DiskSpace {
  /** The first of the given folders that is on it. */
  folder: string
  freeBytes: number
  sizeBytes: number
  freeInodes: number
}

interface Share {
  name: string
  bytes: number
}

/** Each file system once, in the order of the folders; a missing folder is left out. */
export function measureDiskSpace(folders: readonly string[]): DiskSpace[] {
  const devices = new Set<number>()
  const disks: DiskSpace[] = []
  for (const folder of folders) {
    const device = statSync(folder, { throwIfNoEntry: false })?.dev
    if (device === undefined || devices.has(device)) continue
    devices.add(device)
    const facts = statfsSync(folder)
    disks.push({
      folder,
      freeBytes: facts.bavail * facts.bsize,
      sizeBytes: facts.blocks * facts.bsize,
      // file systems that allocate inodes on demand (btrfs, some overlays) report 0 of 0
      freeInodes: facts.files === 0 ? PROCESSES.inodes : facts.ffree,
    })
  }
  return disks
}

/** Stays free for everything else on this server; 0 on a developer's machine. */
export function reserveOf(sizeBytes: number, development: boolean): number {
  if (development) return 0
  const part = Math.round(sizeBytes * STEPS.reservePart)
  return Math.min(STEPS.reserveBytesMax, Math.max(STEPS.reserveBytesMin, part))
}

/** `growths` are those of the environment's last deployments on this disk. */
export function needOf(growths: readonly number[], development: boolean): number {
  if (development) return STEPS.deploymentBytes
  if (growths.length === 0) return STEPS.firstDeploymentBytes
  const largest = Math.max(...growths.slice(0, DISK_SPACE.growths))
  return Math.max(STEPS.deploymentBytes, Math.round(largest * DISK_SPACE.growthFactor))
}

export const inGigabytes = (bytes: number): string => `${(bytes / 1_024 ** 3).toFixed(1)} GB`

const count = (n: number): string => n.toLocaleString('en-US')

/** " Largest: pr-31 4.1 GB, pr-12 2.7 GB."; leaves out shares of almost nothing. */
function nameLargest(shares: readonly Share[]): string {
  const named = shares
    .filter(({ bytes }) => bytes >= 0.05 * 1_024 ** 3)
    .toSorted((a, b) => b.bytes - a.bytes)
    .slice(0, DISK_SPACE.named)
  if (named.length === 0) return ''
  return ` Largest: ${named.map(({ name, bytes }) => `${name} ${inGigabytes(bytes)}`).join(', ')}.`
}

interface Demand {
  disks: readonly DiskSpace[]
  needOn: (disk: DiskSpace) => number
  development: boolean
  largest: readonly Share[]
  /** Its name. */
  server: string
}

/** Why a deployment may not begin, as a sentence with figures; undefined when there is enough space. */
export function findShortage(demand: Demand): string | undefined {
  const { disks, development } = demand
  const server = `Server ${demand.server}`
  for (const disk of disks) {
    const where = disks.length > 1 ? ` below ${disk.folder}` : ''
    const reserve = reserveOf(disk.sizeBytes, development)
    const need = demand.needOn(disk)
    if (disk.freeBytes < need + reserve) {
      return `${server} has ${inGigabytes(disk.freeBytes)} free${where}; this deployment needs about ${inGigabytes(need)} and ${inGigabytes(reserve)} stay reserved.${nameLargest(demand.largest)} Nothing was changed.`
    }
    if (disk.freeInodes < PROCESSES.inodes) {
      return `${server} has room for only ${count(disk.freeInodes)} more files${where}; ${count(PROCESSES.inodes)} stay reserved.${nameLargest(demand.largest)} Nothing was changed.`
    }
  }
  return undefined
}

/** The message for an environment that uses more of the disk than it may. */
export const describeExcess = (
  excess: { name: string; bytes: number; most: number },
  server: string,
): string =>
  `${excess.name} uses ${inGigabytes(excess.bytes)} of disk; an environment of this project may use ${inGigabytes(excess.most)} on ${server}. Remove what it does not need any more, or let an administrator raise the limit.`

/** Why a step must stop; undefined when it may continue. */
export function findDanger(
  demand: Pick<Demand, 'disks' | 'development' | 'largest' | 'server'>,
): string | undefined {
  for (const disk of demand.disks) {
    const kept = demand.development
      ? DISK_SPACE.developmentStopBytes
      : reserveOf(disk.sizeBytes, false) * DISK_SPACE.stopPart
    const isFull = disk.freeBytes < kept
    if (!isFull && disk.freeInodes >= PROCESSES.inodes * DISK_SPACE.stopPart) continue
    const left = isFull
      ? inGigabytes(disk.freeBytes)
      : `room for ${count(disk.freeInodes)} more files`
    return `Server ${demand.server} had only ${left} left below ${disk.folder}: the step was stopped before the disk was full.${nameLargest(demand.largest)}`
  }
  return undefined
}

/** Measures by how much the file systems filled up, at most, since it was opened. */
export interface DiskSpaceMeter {
  readonly folders: readonly string[]
  /** Measures now, and remembers the least free space seen. */
  sample(): DiskSpace[]
  grown(): { folder: string; bytes: number }[]
}

export function openMeter(folders: readonly string[]): DiskSpaceMeter {
  const first = measureDiskSpace(folders)
  const lowest = new Map(first.map(({ folder, freeBytes }) => [folder, freeBytes]))
  const sample = (): DiskSpace[] => {
    const disks = measureDiskSpace(folders)
    for (const { folder, freeBytes } of disks) {
      lowest.set(folder, Math.min(freeBytes, lowest.get(folder) ?? freeBytes))
    }
    return disks
  }
  return {
    folders,
    sample,
    grown() {
      sample()
      return first.map(({ folder, freeBytes }) => {
        return { folder, bytes: freeBytes - (lowest.get(folder) ?? freeBytes) }
      })
    },
  }
}

interface DiskSpaceWatch {
  /** Fires when the disk is nearly full, or together with the caller's signal. */
  readonly signal: AbortSignal
  /** The message of `disk_full`, once the signal fired for that reason. */
  readonly problem: string | undefined
  close(): void
}

interface WatchOptions {
  meter: DiskSpaceMeter
  development: boolean
  largest: readonly Share[]
  /** Its name. */
  server: string
  /** Stops the step for the caller's own reasons. */
  signal: AbortSignal
  everyMs?: number
}

/** For builds, pulls and copies. The caller passes them `signal`, and closes the watch when they are done. */
export function watchDiskSpace(options: WatchOptions): DiskSpaceWatch {
  const { meter, development, largest, server, everyMs = DISK_SPACE.watchMs } = options
  const full = new AbortController()
  let problem: string | undefined
  const look = (): void => {
    try {
      problem = findDanger({ disks: meter.sample(), development, largest, server })
    } catch {
      return // a folder was just removed; the step itself reports that
    }
    if (problem === undefined) return
    clearInterval(timer)
    full.abort(new Error(problem))
  }
  const timer = setInterval(look, everyMs)
  timer.unref()
  look()
  return {
    signal: AbortSignal.any([options.signal, full.signal]),
    get problem() {
      return problem
    },
    close: () => clearInterval(timer),
  }
}
