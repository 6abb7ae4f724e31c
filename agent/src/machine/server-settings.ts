// What people set for this server: its name, what a build may use, and the numbers of slots. The daemon writes what the
// control plane sends; every process reads the file when it needs a value, so all of them follow a change. Without the
// file (an older control plane), the size of the machine decides, and the machine's own name is used.
import { readFileSync } from 'node:fs'
import { availableParallelism, hostname, totalmem } from 'node:os'
import { join } from 'node:path'
import { defaultServerSettings } from '@berth/shared'
import type { ServerSettings } from '@berth/shared/wire'
import { durationMs } from '@bufbuild/protobuf/wkt'
import type { AgentSettings } from '../settings.ts'
import { replaceFile } from './atomic-files.ts'

type Place = Pick<AgentSettings, 'stateDir'>

/** As they take effect: what is not set has its default. */
export interface OwnServer {
  name: string
  buildMemoryBytes: number
  buildCpus: number
  /** Null: not set. */
  buildTimeoutMs: number | null
  buildSlots: number
  taskSlots: number
  /** Organizations share it, so messages of one environment name no other. */
  isShared: boolean
}

/** As sent: zero or an empty name for what is not set. */
type Kept = { [Key in keyof OwnServer]: NonNullable<OwnServer[Key]> }

const fileOf = ({ stateDir }: Place): string => join(stateDir, 'server.json')

export function saveServerSettings(settings: Place, given: ServerSettings): void {
  const kept: Kept = {
    name: given.name,
    buildMemoryBytes: Number(given.buildMemoryBytes),
    buildCpus: given.buildCpuMillis / 1_000,
    buildTimeoutMs: given.buildTimeout ? durationMs(given.buildTimeout) : 0,
    buildSlots: given.buildSlots,
    taskSlots: given.taskSlots,
    isShared: given.shared,
  }
  const text = `${JSON.stringify(kept)}\n`
  if (readText(settings) !== text) replaceFile(fileOf(settings), text)
}

function readText(settings: Place): string {
  try {
    return readFileSync(fileOf(settings), 'utf8')
  } catch {
    return ''
  }
}

function readKept(settings: Place): Partial<Kept> {
  try {
    return JSON.parse(readText(settings)) as Partial<Kept>
  } catch {
    return {} // not sent yet, or damaged; the next session sends it again
  }
}

export function readServerSettings(settings: Place): OwnServer {
  const kept = readKept(settings)
  const size = { cpus: availableParallelism(), memoryBytes: totalmem() }
  const usual = defaultServerSettings(size)
  return {
    name: kept.name || hostname(),
    buildMemoryBytes: kept.buildMemoryBytes || usual.build_memory_bytes,
    buildCpus: kept.buildCpus || usual.build_cpus,
    buildTimeoutMs: kept.buildTimeoutMs || null,
    buildSlots: kept.buildSlots || usual.build_slots,
    taskSlots: kept.taskSlots || usual.task_slots,
    isShared: kept.isShared ?? false,
  }
}

/** For messages: those whose names everyone on this server may read. */
export const nameable = <T>(settings: Place, shares: readonly T[]): readonly T[] =>
  readServerSettings(settings).isShared ? [] : shares

/** For messages: the name that people gave this server. */
export const serverName = (settings: Place): string => readServerSettings(settings).name
