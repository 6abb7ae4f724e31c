// Bounds the commands of a build. BuildKit has no limits (engine 20.10 reads neither `memory` nor `cgroupparent` for
// it), so one RUN could starve every live container, which by OOM score would be killed first. Each RUN has its own
// cgroup; we find it by a mark in its processes' environment and touch nothing unmarked. The mark is sent as NO_PROXY:
// of the variables that BuildKit gives to a RUN, only the proxy ones are part of neither the cache's key nor the image.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { BUILDS } from '../../../limits/docker.ts'
import {
  type MemoryCause,
  type MemoryCounters,
  memoryCause,
  readAvailableMemory,
  readMemoryCounters,
} from '../../memory.ts'
import { findCgroupMounts } from '../../process/cgroups.ts'

const markOf = (mark: string): string => `berth-build-${mark}.invalid`

/**
 * Adds the mark to the arguments. A Dockerfile that declares NO_PROXY itself would lose its cache, so the mark is then
 * FTP_PROXY. One that declares both loses its cache, because every build needs a mark.
 */
export function markArguments(
  args: Record<string, string>,
  mark: string,
  dockerfile: string,
): Record<string, string> {
  const declares = (name: string): boolean =>
    new RegExp(`^\\s*ARG\\s.*\\b${name}\\b`, 'im').test(dockerfile)
  if (declares('no_proxy') && !declares('ftp_proxy')) return { ...args, FTP_PROXY: markOf(mark) }
  const own = args.NO_PROXY ?? args.no_proxy
  return { ...args, NO_PROXY: own ? `${own},${markOf(mark)}` : markOf(mark) }
}

const read = (file: string): string => {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return '' // ended meanwhile
  }
}

interface BuildProcess {
  pid: number
  /** Lines of /proc/<pid>/cgroup. */
  cgroups: string
}

/**
 * Names of the cgroups of the build's RUN commands, from the engine's own files. A command can clear its environment,
 * but not these.
 */
function findMarkedGroups(mark: string, dataRoot: string | undefined): string[] {
  if (dataRoot === undefined) return []
  const folder = join(dataRoot, 'buildkit', 'executor')
  let names: string[] = []
  try {
    names = readdirSync(folder)
  } catch {
    return [] // this engine keeps them elsewhere
  }
  return names
    .filter((name) => /^[0-9a-z]{10,}$/.test(name))
    .slice(0, BUILDS.bundles)
    .filter((name) => read(join(folder, name, 'config.json')).includes(markOf(mark)))
}

/** Processes of the build's RUN commands, also when its engine is gone. */
export function findBuildProcesses(mark: string, dataRoot?: string): BuildProcess[] {
  const found: BuildProcess[] = []
  const groups = findMarkedGroups(mark, dataRoot)
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const cgroups = read(`/proc/${name}/cgroup`)
    if (!cgroups.includes('buildkit')) continue
    const isOurs = groups.some((group) => cgroups.includes(group))
    if (isOurs || read(`/proc/${name}/environ`).includes(markOf(mark))) {
      found.push({ pid: Number(name), cgroups })
    }
  }
  return found
}

/** False when it could not be written. */
function write(file: string, value: string | number): boolean {
  try {
    writeFileSync(file, String(value))
    return true
  } catch {
    return false
  }
}

/** Folders of a process's cgroups, by controller of version 1 or `unified`. */
function* foldersOf({ cgroups }: BuildProcess): Generator<[string, string]> {
  const mounts = findCgroupMounts()
  for (const line of cgroups.split('\n')) {
    const [, controllers, path] = /^\d+:([^:]*):(\/.*buildkit.*)$/.exec(line) ?? []
    if (path === undefined) continue
    for (const controller of controllers ? controllers.split(',') : ['unified']) {
      const mount = mounts.get(controller)
      if (mount) yield [controller, join(mount, path)]
    }
  }
}

/** Of each RUN command. */
export interface BuildBounds {
  memoryBytes: number
  pids: number
  /** Undefined for all idle ones. */
  cpus?: number | undefined
}

/** In microseconds; the kernel's own default. */
const CPU_PERIOD = 100_000

/** Returns whether memory is bounded. */
function bound(member: BuildProcess, { memoryBytes, pids, cpus }: BuildBounds): boolean {
  const quota = cpus === undefined ? undefined : Math.ceil(cpus * CPU_PERIOD)
  let isBounded = false
  for (const [controller, folder] of foldersOf(member)) {
    if (controller === 'memory') {
      isBounded = write(join(folder, 'memory.limit_in_bytes'), memoryBytes)
      write(join(folder, 'memory.memsw.limit_in_bytes'), memoryBytes)
    } else if (controller === 'cpu') {
      write(join(folder, 'cpu.shares'), BUILDS.cpuShares)
      if (quota) write(join(folder, 'cpu.cfs_quota_us'), quota)
    } else if (controller === 'pids') write(join(folder, 'pids.max'), pids)
    else if (controller === 'unified' && write(join(folder, 'memory.max'), memoryBytes)) {
      isBounded = true
      write(join(folder, 'memory.swap.max'), 0)
      write(join(folder, 'cpu.weight'), BUILDS.cpuWeight)
      if (quota) write(join(folder, 'cpu.max'), `${quota} ${CPU_PERIOD}`)
      write(join(folder, 'pids.max'), pids)
    }
  }
  return isBounded
}

/**
 * What is known of a build whose RUN was killed. The engine removes its cgroup together with the counters, so they are
 * read while it lives; version 2 adds them to the folder above, which stays.
 */
class MemoryEvidence {
  readonly #folders = new Set<string>()
  readonly #above = new Map<string, MemoryCounters>()
  #isHit = false
  #leastAvailable = 1

  add(member: BuildProcess): void {
    for (const [controller, folder] of foldersOf(member)) {
      if (controller !== 'memory' && controller !== 'unified') continue
      this.#folders.add(folder)
      const above = dirname(folder)
      if (!this.#above.has(above)) this.#above.set(above, readMemoryCounters(above))
    }
  }

  sample(): void {
    this.#leastAvailable = Math.min(this.#leastAvailable, readAvailableMemory())
    for (const folder of this.#folders) {
      const { hits, isFull } = readMemoryCounters(folder)
      this.#isHit ||= hits > 0 || isFull
    }
  }

  cause(): MemoryCause {
    if (this.#isHit) return 'limit'
    for (const [folder, before] of this.#above) {
      const cause = memoryCause(before, readMemoryCounters(folder))
      if (cause) return cause
    }
    return this.#leastAvailable < BUILDS.scarceMemory ? 'server' : 'limit'
  }
}

export interface BuildFence {
  /** Whether the memory of at least one RUN was bounded. */
  readonly isEffective: boolean
  /** For a RUN that the kernel killed. */
  readonly memoryCause: MemoryCause
  stop(): void
}

/** Watches for new RUN commands of the build until it is stopped. */
export function fenceBuild(mark: string, bounds: BuildBounds, dataRoot?: string): BuildFence {
  const whole = { ...bounds, memoryBytes: Math.floor(bounds.memoryBytes) } // the kernel accepts no fractions
  const bounded = new Set<string>()
  const evidence = new MemoryEvidence()
  const look = () => {
    for (const member of findBuildProcesses(mark, dataRoot)) {
      if (!bounded.has(member.cgroups) && bound(member, whole)) {
        bounded.add(member.cgroups)
        evidence.add(member)
      }
      write(`/proc/${member.pid}/oom_score_adj`, BUILDS.oomScore)
    }
    evidence.sample()
  }
  const timer = setInterval(look, BUILDS.fenceMs)
  timer.unref()
  return {
    get isEffective() {
      return bounded.size > 0
    },
    get memoryCause() {
      return evidence.cause()
    },
    stop: () => clearInterval(timer),
  }
}
