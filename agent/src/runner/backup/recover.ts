// Takes back what a backup or a restore left unfinished: after a failure, and after its runner died. Services that run
// with restored data are stopped, the former data is put back, and what was paused continues. Idempotent.
import { existsSync } from 'node:fs'
import { STEPS } from '@berth/shared'
import type { DataWork } from '../../journal/data-work.ts'
import type { Ledger } from '../../journal/ledger.ts'
import { inspectOwned, stopContainer } from '../../machine/docker/containers.ts'
import { type Engine, openEngine } from '../../machine/docker/engine.ts'
import { environmentPaths, removeTree } from '../../machine/files.ts'
import type { Belonging } from '../../machine/process/leftovers.ts'
import { findAccount, isRoot } from '../../machine/users/users.ts'
import type { AgentSettings } from '../../settings.ts'
import { instructionsOf, stopService } from '../../supervise/control.ts'
import { resume } from './quiet.ts'
import { isSwapped, putBack } from './swap.ts'

interface DataContext {
  ledger: Ledger
  settings: AgentSettings
  engine?: Engine
}

async function belonging(settings: AgentSettings, environmentId: number): Promise<Belonging> {
  const name = `${settings.accountPrefix}${environmentId}`
  const paths = environmentPaths(settings, environmentId)
  const found = isRoot() ? await findAccount(name) : undefined
  const isOurs = found !== undefined && found.home === paths.dir && found.uid > 0
  return {
    name,
    uid: isOurs ? found.uid : undefined,
    marker: `BERTH_SHARED_DIR=${paths.shared}`,
  }
}

/** Marked as paused, so that the recovery that follows starts them with the former data. */
async function stopServices(context: DataContext, environmentId: number, engine: Engine) {
  const { ledger, settings } = context
  for (const row of ledger.objects.list({ environmentId, kind: 'container' })) {
    if (row.state !== 'serving' && row.state !== 'paused') continue
    const seen = await inspectOwned(engine, settings, row.name)
    if (seen?.state !== 'running') continue
    ledger.objects.setState(row, 'paused')
    await stopContainer(engine, seen.id, Number(row.facts.stopTimeoutMs ?? STEPS.stopTimeoutMs))
  }
  for (const row of ledger.listProcesses(environmentId)) {
    if (row.state !== 'serving' && row.state !== 'paused') continue
    ledger.setProcessState(row, 'paused', '')
    await stopService(settings, instructionsOf(row))
  }
}

/** Returns what was done, as sentences. `attemptId` names the attempt that works here now; its own work is left alone. */
export async function recoverData(
  context: DataContext,
  { environmentId, attemptId }: { environmentId: number; attemptId?: string | undefined },
): Promise<string[]> {
  const work = context.ledger.dataWork.find(environmentId)
  if (!work || work.attemptId === attemptId) return []
  return endWork(context, environmentId, work)
}

export async function endWork(
  context: DataContext,
  environmentId: number,
  work: DataWork,
): Promise<string[]> {
  const { ledger, settings, engine = openEngine(context.settings) } = context
  const notes: string[] = []
  await resume({ engine, processes: await belonging(settings, environmentId), work })
  const back = work.isComplete ? [] : work.swaps.filter(isSwapped)
  if (back.length > 0) {
    await stopServices(context, environmentId, engine)
    for (const swap of back) putBack(swap)
    notes.push('The data of before the restore is back.')
  }
  for (const folder of work.folders) if (existsSync(folder)) await removeTree(folder)
  ledger.dataWork.remove(environmentId)
  return notes
}
