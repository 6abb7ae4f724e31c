// Which Caddy this agent runs: the pinned one that ships beside its Node.js, or the distribution's where the agent came
// without one.
import { accessSync, constants } from 'node:fs'
import { dirname, join } from 'node:path'
import { PROCESSES } from '../limits/machine.ts'
import type { AgentSettings } from '../settings.ts'
import { askVersion } from './process/program-version.ts'
import { locateProgram, SYSTEM_PATH } from './process/programs.ts'

type Settings = Pick<AgentSettings, 'proxy'>

export interface CaddyProgram {
  file: string
  isShipped: boolean
  /** Empty when the program does not say. */
  version: string
}

const ships = (file: string): boolean => {
  if (SYSTEM_PATH.split(':').includes(dirname(file))) return false // the Node.js is the distribution's too
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** The file alone. Undefined: there is no Caddy. */
export function locateCaddy({ proxy }: Settings): Omit<CaddyProgram, 'version'> | undefined {
  const beside = join(dirname(process.execPath), 'caddy')
  if (proxy.caddy !== 'system' && ships(beside)) return { file: beside, isShipped: true }
  const file = locateProgram('caddy')
  return file === undefined ? undefined : { file, isShipped: false }
}

export async function findCaddy(settings: Settings): Promise<CaddyProgram | undefined> {
  const found = locateCaddy(settings)
  if (!found) return undefined
  // generous: everything that is routed depends on the answer, and a busy server is slow to start 50 MB
  const ms = PROCESSES.programMs
  const version = await askVersion([found.file, 'version'], /v?(\d+\.\d+\.\d+)/, ms)
  return { ...found, version }
}
