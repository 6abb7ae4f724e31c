// The upgrade in progress, in a file beside the versions: a killed upgrade is completed or undone at the next start.
import {
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { isAlive, ownProcess, type Running } from './running.ts'

export interface UpgradeJournal {
  from: string
  to: string
  /** `prepared`: nothing has moved; `switched`: the new version is current; `returning`: the way back has begun. */
  phase: 'prepared' | 'switched' | 'returning'
  backup: string
  /** The upgrade's own process. */
  by: Pick<Running, 'pid' | 'startTicks'>
  /** Of the new version, after the upgrade was killed. */
  starts: number
}

const file = (root: string): string => join(root, 'upgrade.json')

export function readJournal(root: string): UpgradeJournal | undefined {
  try {
    return JSON.parse(readFileSync(file(root), 'utf8')) as UpgradeJournal
  } catch {
    return undefined
  }
}

export function writeJournal(root: string, journal: Omit<UpgradeJournal, 'by'>): void {
  const made = `${file(root)}.new`
  const fd = openSync(made, 'w', 0o600)
  try {
    writeFileSync(fd, `${JSON.stringify({ ...journal, by: ownProcess() })}\n`)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  renameSync(made, file(root))
}

export const endJournal = (root: string): void => rmSync(file(root), { force: true })

export const isInProgress = (root: string): boolean => {
  const journal = readJournal(root)
  return journal !== undefined && isAlive(journal.by)
}
