// Decides whether a deployment may begin: is there space on the disks it grows? Uses the growth of this environment's
// last deployments from the ledger, and collects garbage before it refuses.

import type { Ledger } from '../journal/ledger.ts'
import {
  type DiskSpaceMeter,
  findShortage,
  measureDiskSpace,
  needOf,
  openMeter,
} from '../machine/disk-space.ts'
import { nameable, serverName } from '../machine/server-settings.ts'
import type { AgentSettings } from '../settings.ts'

interface DiskSpaceRequest {
  environmentId: number
  /** As users see it: pr-42. */
  name: string
  /** The engine's data root, when the deployment uses it. */
  dataRoot?: string | undefined
  /** Removes garbage; tried once before a refusal. */
  collect?: (() => Promise<unknown>) | undefined
}

type DiskSpaceAnswer = { ok: true; meter: DiskSpaceMeter } | { ok: false; message: string }

const measuredFolders = (settings: AgentSettings, dataRoot?: string): string[] =>
  dataRoot ? [settings.stateDir, dataRoot] : [settings.stateDir]

/** The meter counts what the deployment uses from here on; `recordGrowth` stores it for the next one. */
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
      largest: nameable(settings, ledger.usage.list()),
      server: serverName(settings),
    })
  let message = look()
  if (message !== undefined && collect) {
    await collect()
    message = look()
  }
  return message === undefined ? { ok: true, meter: openMeter(folders) } : { ok: false, message }
}

/** Called after the deployment succeeded. */
export function recordGrowth(
  ledger: Ledger,
  deployment: { environmentId: number; taskId: number },
  meter: DiskSpaceMeter,
): void {
  for (const { folder, bytes } of meter.grown()) {
    ledger.usage.addGrowth(deployment.environmentId, deployment.taskId, folder, bytes)
  }
}
