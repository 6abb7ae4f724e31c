// Partial files beside their targets. Their names contain the process and the machine, so that the next client in the
// same folder removes what a killed one left. Invariants: files of others are never opened or removed; when the client
// can notice its own end, no partial file stays.
import { createHash, randomBytes } from 'node:crypto'
import { constants, lstatSync, opendirSync, openSync, rmSync } from 'node:fs'
import { hostname } from 'node:os'
import { sep } from 'node:path'
import { CLIENT } from '../../limits/client.ts'
import { isAlive } from '../ssh/ssh.ts'

const MACHINE = createHash('sha256').update(hostname()).digest('hex').slice(0, 8)
const PROCESS = `${MACHINE}-${process.pid}-${randomBytes(8).toString('hex')}`
const NAME = /^\.berth-([0-9a-f]{8})-(\d{1,10})-[0-9a-f]{16}-\d+\.part$/

let made = 0
const lying = new Set<string>()

/** A new, open file beside its target. */
export interface Part {
  path: string
  fd: number
}

export function makePart(folder: string): Part {
  made += 1
  const path = `${folder}${sep}.berth-${PROCESS}-${made}.part`
  const { O_RDWR, O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW = 0 } = constants
  const fd = openSync(path, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW, 0o666)
  lying.add(path)
  return { path, fd }
}

/** It was renamed to its target. */
export const forgetPart = (path: string): boolean => lying.delete(path)

export function removePart(path: string): void {
  rmSync(path, { force: true })
  forgetPart(path)
}

/** Synchronous, for an exit that cannot await. */
export function removeParts(): void {
  for (const path of lying) removePart(path)
}

function isLeft(folder: string, name: string, now: number): boolean {
  const [, machine, pid] = NAME.exec(name) ?? []
  if (machine !== MACHINE || isAlive(Number(pid))) return false
  const found = lstatSync(folder + sep + name, { throwIfNoEntry: false })
  const isMine = process.getuid === undefined || found?.uid === process.getuid()
  return found?.isFile() === true && isMine && now - found.mtimeMs > CLIENT.partStaleMs
}

/** Removes files of clients that were killed. Best effort: files that cannot be read or removed stay. */
export function sweepParts(folder: string, now: number): void {
  try {
    const entries = opendirSync(folder)
    try {
      for (let looked = 0; looked < CLIENT.sweptEntries; looked++) {
        const entry = entries.readSync()
        if (!entry) return
        if (isLeft(folder, entry.name, now)) rmSync(folder + sep + entry.name, { force: true })
      }
    } finally {
      entries.closeSync()
    }
  } catch {
    // no permission, or another client was faster
  }
}
