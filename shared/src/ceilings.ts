// Computes what one environment may use of a server: ceilings that administrators set for a server and for a project,
// with defaults from the size of the server. PURE. The lower of the two ceilings counts.
import { GiB, MiB } from './limits/units.ts'

/** Ceilings of one environment. Null: derived from the server's size. */
interface Ceilings {
  memory_bytes: number | null
  /** Processors. */
  cpus: number | null
  /** Processes and threads. */
  pids: number | null
  disk_bytes: number | null
}

interface ServerSize {
  cpus: number
  memoryBytes: number
  diskBytes: number
}

export const CEILINGS = {
  /** Part of the memory; the rest is for the system, the proxy and other environments. */
  memoryPart: 0.75,
  /** No service starts with less; also applies to a server that has less. */
  memoryMinBytes: 512 * MiB,
  pids: 4_096,
  /** Part of the disk. */
  diskPart: 0.5,
  diskMinBytes: 5 * GiB,
  /** The least memory for a service that requests none; with less it would not start. */
  serviceMemoryBytes: 32 * MiB,
  /** Processors; with less it would not answer in time. */
  serviceCpus: 0.05,
  /** The lowest values that may be set. */
  lowest: { memory_bytes: 64 * MiB, cpus: 0.1, pids: 64, disk_bytes: 100 * MiB },
  highest: { memory_bytes: 4_096 * GiB, cpus: 256, pids: 1_000_000, disk_bytes: 1_048_576 * GiB },
} as const

/** Null if the server has not reported it. */
export const knownSize = <T extends ServerSize>(size: T | null | undefined): T | null =>
  size && size.memoryBytes > 0 && size.cpus > 0 && size.diskBytes > 0 ? size : null

export const NO_CEILINGS: Ceilings = {
  memory_bytes: null,
  cpus: null,
  pids: null,
  disk_bytes: null,
}

export const defaultCeilings = (size: ServerSize): { [K in keyof Ceilings]: number } => ({
  memory_bytes: Math.max(
    CEILINGS.memoryMinBytes,
    Math.floor((size.memoryBytes * CEILINGS.memoryPart) / MiB) * MiB,
  ),
  cpus: Math.max(1, size.cpus),
  pids: CEILINGS.pids,
  disk_bytes: Math.max(
    CEILINGS.diskMinBytes,
    Math.floor((size.diskBytes * CEILINGS.diskPart) / MiB) * MiB,
  ),
})

/** Parses the stored ceilings; unknown keys are left out. */
export function readCeilings(json: string): Ceilings {
  const kept = JSON.parse(json) as Partial<Ceilings>
  return {
    memory_bytes: kept.memory_bytes ?? null,
    cpus: kept.cpus ?? null,
    pids: kept.pids ?? null,
    disk_bytes: kept.disk_bytes ?? null,
  }
}

type Asked = { [K in keyof Ceilings]?: Ceilings[K] | undefined }

/** Changes only the given values. */
export const changeCeilings = (json: string, asked: Asked): string =>
  JSON.stringify({
    ...readCeilings(json),
    ...Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== undefined)),
  })

/**
 * Returns what an environment of the project may use on the server; null lets the server decide by its size. Processors
 * without a ceiling stay unbounded, because the machine shares them by itself.
 */
export function effectiveCeilings(
  size: ServerSize | null,
  server: Ceilings,
  project: Ceilings,
): Ceilings {
  const given = size && { ...defaultCeilings(size), cpus: null }
  const lower = (key: keyof Ceilings): number | null => {
    const all = [server[key] ?? given?.[key] ?? null, project[key]].filter((one) => one !== null)
    return all.length > 0 ? Math.min(...all) : null
  }
  return {
    memory_bytes: lower('memory_bytes'),
    cpus: lower('cpus'),
    pids: lower('pids'),
    disk_bytes: lower('disk_bytes'),
  }
}
