// What one build or manual step may use of a server, and how many of them run together: settings that administrators
// make for a server, with defaults from its size. PURE.
import { GiB, HOUR, MINUTE, MiB } from './limits/units.ts'

/** Null: derived from the server's size. */
interface ServerSettings {
  /** Of one build or step. */
  build_memory_bytes: number | null
  /** Processors. */
  build_cpus: number | null
  build_timeout_ms: number | null
  /** Builds that run together. */
  build_slots: number | null
  /** Actions, removals, and deployments outside of their build that run together. */
  task_slots: number | null
}

export type SettledServerSettings = { [K in keyof ServerSettings]: number }

interface Size {
  cpus: number
  memoryBytes: number
}

export const SERVER_SETTINGS = {
  /** Part of the memory; the rest is for what runs already. */
  memoryPart: 0.5,
  /** Hardly a build succeeds with less; also applies to a server that has less. */
  memoryMinBytes: 512 * MiB,
  buildTimeoutMs: 30 * MINUTE,
  /** A build keeps about two cores busy. */
  coresPerBuild: 2,
  taskSlotsMin: 2,
  /** The rest of a deployment may take this long beside its build. */
  besidesBuildMs: 30 * MINUTE,
  lowest: {
    build_memory_bytes: 64 * MiB,
    build_cpus: 0.1,
    build_timeout_ms: MINUTE,
    build_slots: 1,
    task_slots: 1,
  },
  highest: {
    build_memory_bytes: 4_096 * GiB,
    build_cpus: 256,
    build_timeout_ms: 5 * HOUR,
    build_slots: 64,
    task_slots: 256,
  },
} as const

export const NO_SERVER_SETTINGS: ServerSettings = {
  build_memory_bytes: null,
  build_cpus: null,
  build_timeout_ms: null,
  build_slots: null,
  task_slots: null,
}

export const defaultServerSettings = ({ cpus, memoryBytes }: Size): SettledServerSettings => ({
  build_memory_bytes: Math.max(
    SERVER_SETTINGS.memoryMinBytes,
    Math.floor((memoryBytes * SERVER_SETTINGS.memoryPart) / MiB) * MiB,
  ),
  build_cpus: Math.max(1, cpus),
  build_timeout_ms: SERVER_SETTINGS.buildTimeoutMs,
  build_slots: Math.max(1, Math.floor(cpus / SERVER_SETTINGS.coresPerBuild)),
  task_slots: Math.max(SERVER_SETTINGS.taskSlotsMin, cpus),
})

const KEYS = Object.keys(NO_SERVER_SETTINGS) as (keyof ServerSettings)[]

/** Parses the stored settings; unknown keys are left out. */
export function readServerSettings(json: string): ServerSettings {
  const kept = JSON.parse(json) as Partial<ServerSettings>
  return { ...NO_SERVER_SETTINGS, ...Object.fromEntries(KEYS.map((k) => [k, kept[k] ?? null])) }
}

type Asked = { [K in keyof ServerSettings]?: number | null | undefined }

/** Changes only the given values. */
export const changeServerSettings = (json: string, asked: Asked): string =>
  JSON.stringify({
    ...readServerSettings(json),
    ...Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== undefined)),
  })

/** Time for a whole deployment, so that its build can take all of the time that it may. */
export const deploymentTimeoutMs = (buildTimeoutMs: number | null, usualMs: number): number =>
  Math.max(usualMs, (buildTimeoutMs ?? 0) + SERVER_SETTINGS.besidesBuildMs)

interface Problem {
  field: keyof ServerSettings
  code: 'too_large'
  message: string
}

const inGibibytes = (bytes: number): string => `${Number((bytes / GiB).toFixed(1))} GiB`

/** More than the server has would be a limit that never takes effect. Null: its size is not known yet. */
export function findServerSettingsProblems(
  asked: Asked,
  size: Size | null,
  server: string,
): Problem[] {
  if (!size) return []
  const problems: Problem[] = []
  const { build_memory_bytes: memory, build_cpus: cpus } = asked
  if (memory && memory > size.memoryBytes) {
    problems.push({
      field: 'build_memory_bytes',
      code: 'too_large',
      message: `A build cannot get ${inGibibytes(memory)} of memory: ${server} has ${inGibibytes(size.memoryBytes)}.`,
    })
  }
  if (cpus && cpus > size.cpus) {
    problems.push({
      field: 'build_cpus',
      code: 'too_large',
      message: `A build cannot get ${cpus} processors: ${server} has ${size.cpus}.`,
    })
  }
  return problems
}
