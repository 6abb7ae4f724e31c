// Keeps data unchanged while it is archived: containers are paused by the engine, processes of an account are stopped
// by a signal. Written to the ledger first, so that a recovery resumes them if this runner dies.
import { setTimeout as delay } from 'node:timers/promises'
import type { DataWork } from '../../journal/data-work.ts'
import { BACKUPS } from '../../limits/backups.ts'
import { PROCESSES } from '../../limits/machine.ts'
import { pauseContainer, resumeContainer } from '../../machine/docker/containers.ts'
import type { Engine } from '../../machine/docker/engine.ts'
import { type Belonging, listLeftovers } from '../../machine/process/leftovers.ts'
import { signalMembers } from '../../machine/process/process-tree.ts'
import { isHalted } from '../../machine/process/processes.ts'
import { backupFailed } from './stored.ts'

/** SIGSTOP cannot be handled. Repeated, because a process may fork while it is being stopped. */
async function freeze(of: Belonging): Promise<void> {
  for (let round = 0; round < BACKUPS.stopRounds; round += 1) {
    const running = listLeftovers(of).filter(({ pid }) => !isHalted(pid))
    if (running.length === 0) return
    signalMembers(running, 'SIGSTOP')
    await delay(PROCESSES.endPollMs)
  }
  throw backupFailed('Its processes could not be paused. Back it up with --live, or stop it first.')
}

export const thaw = (of: Belonging): void => signalMembers(listLeftovers(of), 'SIGCONT')

interface Quiet {
  engine: Engine
  /** Containers by name; none with the manual recipe. */
  containers: readonly string[]
  /** Processes on the machine itself; undefined with the docker recipe. */
  processes: Belonging | undefined
  work: DataWork
  /** Commits the work. */
  save: () => void
}

/** Returns how long everything stood still. */
export async function whileQuiet(quiet: Quiet, act: () => Promise<void>): Promise<number> {
  const { engine, containers, processes, work, save } = quiet
  work.paused = [...containers]
  work.isFrozen = processes !== undefined
  save()
  const startedAt = performance.now()
  try {
    for (const name of containers) await pauseContainer(engine, name)
    if (processes) await freeze(processes)
    await act()
  } finally {
    await resume({ engine, processes, work })
    save()
  }
  return Math.round(performance.now() - startedAt)
}

/** Idempotent. */
export async function resume({
  engine,
  processes,
  work,
}: Pick<Quiet, 'engine' | 'processes' | 'work'>): Promise<void> {
  for (const name of work.paused) await resumeContainer(engine, name)
  work.paused = []
  if (work.isFrozen && processes) thaw(processes)
  work.isFrozen = false
}
