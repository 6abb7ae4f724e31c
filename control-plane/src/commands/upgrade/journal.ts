// The upgrade in progress, in a file beside the versions: a killed upgrade is completed or undone at the next start.
import {
  chmodSync,
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
  /** Undefined: other control planes use the database, so it is never restored. */
  backup?: string | undefined
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

/** The last upgrade, if it was undone: for the doctor, and for dpkg, which configures a package again and again. */
interface Undone {
  version: string
  why: string
  at: number
}

const undoneFile = (root: string): string => join(root, 'undone.json')

/** The account of the service reads it, also if root's mask would forbid that. */
export function noteUndone(root: string, undone: Undone): void {
  writeFileSync(undoneFile(root), `${JSON.stringify(undone)}\n`)
  chmodSync(undoneFile(root), 0o644)
}

export const forgetUndone = (root: string): void => rmSync(undoneFile(root), { force: true })

export function readUndone(root: string): Undone | undefined {
  try {
    return JSON.parse(readFileSync(undoneFile(root), 'utf8')) as Undone
  } catch {
    return undefined
  }
}

export const endJournal = (root: string): void => rmSync(file(root), { force: true })

export const isInProgress = (root: string): boolean => {
  const journal = readJournal(root)
  return journal !== undefined && isAlive(journal.by)
}
