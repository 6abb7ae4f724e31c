// May a deployment begin: is there room for it on the disks it grows? Asks the ledger what this environment's last
// deployments took; collects what nobody needs before it refuses.

import type { Ledger } from '../journal/ledger.ts'
import {
  type DiskSpaceMeter,
  findShortage,
  measureDiskSpace,
  needOf,
  openMeter,
} from '../machine/disk-space.ts'
import type { AgentSettings } from '../settings.ts'

export interface DiskSpaceRequest {
  environmentId: number
  /** As people know it: pr-42. */
  name: string
  /** The engine's data root, when the deployment uses it. */
  dataRoot?: string | undefined
  /** Removes what nobody needs; tried once before the answer is no. */
  collect?: (() => Promise<unknown>) | undefined
}

export type DiskSpaceAnswer = { ok: true; meter: DiskSpaceMeter } | { ok: false; message: string }

export const measuredFolders = (settings: AgentSettings, dataRoot?: string): string[] =>
  dataRoot ? [settings.stateDir, dataRoot] : [settings.stateDir]

/** The meter counts what the deployment takes from here on; `recordGrowth` keeps it for the next one. */
export async function judgeDiskSpace(
  settings: AgentSettings,
  ledger: Ledger,
  request: DiskSpaceRequest,
): Promise<DiskSpaceAnswer> {
  const { environmentId, name, dataRoot, collect } = request
  const { development } = settings
  const folders = measuredFolders(settings, dataRoot)
  ledger.usage.setName(environmentId, name)
  const look = (): string | undefined =>
    findShortage({
      disks: measureDiskSpace(folders),
      needOn: ({ folder }) => needOf(ledger.usage.growths(environmentId, folder), development),
      development,
      largest: ledger.usage.list(),
    })
  let message = look()
  if (message !== undefined && collect) {
    await collect()
    message = look()
  }
  return message === undefined ? { ok: true, meter: openMeter(folders) } : { ok: false, message }
}

/** Once the deployment succeeded. */
export function recordGrowth(
  ledger: Ledger,
  deployment: { environmentId: number; taskId: number },
  meter: DiskSpaceMeter,
): void {
  for (const { folder, bytes } of meter.grown()) {
    ledger.usage.addGrowth(deployment.environmentId, deployment.taskId, folder, bytes)
  }
}
