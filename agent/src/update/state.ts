// The update in progress, or the last one: a file that daemon and updater share. The daemon writes it before the switch,
// the updater writes the verdict, and the daemon that runs afterwards reports it.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { replaceFile } from '../machine/atomic-files.ts'
import type { AgentSettings } from '../settings.ts'

interface Place {
  slot: string
  version: string
}

export interface UpdateState {
  updateId: string
  from: Place
  to: Place
  /** `kept` and `returned` are verdicts; `reported`: the verdict is in the journal. */
  phase: 'switching' | 'kept' | 'returned' | 'reported'
  message: string
}

type StateFolder = Pick<AgentSettings, 'stateDir'>
const stateFile = (s: StateFolder): string => join(s.stateDir, 'update.json')

export function readUpdate(settings: StateFolder): UpdateState | undefined {
  try {
    return JSON.parse(readFileSync(stateFile(settings), 'utf8')) as UpdateState
  } catch {
    return undefined
  }
}

export const writeUpdate = (settings: StateFolder, state: UpdateState): void =>
  replaceFile(stateFile(settings), `${JSON.stringify(state)}\n`)

/** Made by the updater while it works; its lock on the update. */
export const updaterFile = (s: Pick<AgentSettings, 'runDir'>): string =>
  join(s.runDir, 'updater.json')
