// What the environment of an attempt may use on this server: the limits that administrators set and the control plane
// sends, or else limits derived from the size of the machine.
import { statfsSync } from 'node:fs'
import { availableParallelism, hostname, totalmem } from 'node:os'
import { defaultCeilings } from '@berth/shared'
import { FailureCode } from '@berth/shared/wire'
import { PROCESSES } from '../limits/machine.ts'
import type { Attempt } from './attempt.ts'
import { StepFailure } from './failure.ts'
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

const USUAL: Limits = {
  memoryBytes: PROCESSES.serviceMemoryBytes,
  cpus: PROCESSES.serviceCpus,
  pids: PROCESSES.pids,
}

/** Limits by service; a file that asks for more than its environment has is refused before anything changes. */
export function shareCeiling(attempt: Attempt, services: readonly Ask[]): Map<string, Limits> {
  const shares = shareOut(services, ceilingOf(attempt), USUAL, hostname())
  if (!shares.ok) throw new StepFailure(FailureCode.CONFIG_INVALID, shares.message)
  return shares.limits
}
