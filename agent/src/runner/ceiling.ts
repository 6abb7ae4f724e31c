// What the environment of an attempt may use on this server: the limits that administrators set and the control plane
// sends, or else limits derived from the size of the machine.
import { statfsSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { defaultCeilings } from '@berth/shared'
import { FailureCode } from '@berth/shared/wire'
import { PROCESSES } from '../limits/machine.ts'
import { readServerSettings, serverName } from '../machine/server-settings.ts'
import type { Attempt } from './attempt.ts'
import { StepFailure } from './failure.ts'
import {
  describeMemoryStop,
  describeSlowBuild,
  lowestLimit,
  type MemoryCause,
  type MemoryLimit,
} from './plan/build-limits.ts'
import { type Ask, type Ceiling, type Limits, shareOut } from './plan/ceilings.ts'

export function ceilingOf({ spec, settings }: Pick<Attempt, 'spec' | 'settings'>): Ceiling {
  const { blocks, bsize } = statfsSync(settings.stateDir)
  const own = defaultCeilings({
    cpus: availableParallelism(),
    memoryBytes: totalmem(),
    diskBytes: blocks * bsize,
  })
  const given = spec.environment?.limits
  const cpus = (given?.cpuMillis ?? 0) / 1_000
  return {
    memoryBytes: Number(given?.memoryBytes ?? 0n) || own.memory_bytes,
    cpus: cpus || own.cpus,
    isCpuBound: cpus > 0,
    pids: given?.pids || own.pids,
    diskBytes: Number(given?.diskBytes ?? 0n) || own.disk_bytes,
  }
}

/** What a build, or a command of the repository, may use: the server's settings, and at most what its environment may. */
export function buildCeilingOf(attempt: Pick<Attempt, 'spec' | 'settings'>): {
  memory: MemoryLimit
  cpus: number
  pids: number
} {
  const most = ceilingOf(attempt)
  const server = readServerSettings(attempt.settings)
  return {
    memory: lowestLimit({ server: server.buildMemoryBytes, environment: most.memoryBytes }),
    cpus: Math.min(server.buildCpus, most.cpus),
    pids: most.pids,
  }
}

/** Says that the kernel ended a build or command, which limit it was, and who can change it. */
export function describeMemory(
  { settings }: Pick<Attempt, 'settings'>,
  what: string,
  limit: MemoryLimit,
  cause: MemoryCause,
): string {
  const server = serverName(settings)
  return describeMemoryStop({ what, cause, limit, server, serverBytes: totalmem() })
}

/** Says that a build or command took longer than this server allows. */
export const describeTime = (
  { settings }: Pick<Attempt, 'settings'>,
  what: string,
  ms: number,
): string => describeSlowBuild(what, Number((ms / 60_000).toFixed(1)), serverName(settings))

const USUAL: Limits = {
  memoryBytes: PROCESSES.serviceMemoryBytes,
  cpus: PROCESSES.serviceCpus,
  pids: PROCESSES.pids,
}

/** Limits by service; a file that asks for more than its environment has is refused before anything changes. */
export function shareCeiling(attempt: Attempt, services: readonly Ask[]): Map<string, Limits> {
  const shares = shareOut(services, ceilingOf(attempt), USUAL, serverName(attempt.settings))
  if (!shares.ok) throw new StepFailure(FailureCode.CONFIG_INVALID, shares.message)
  return shares.limits
}
