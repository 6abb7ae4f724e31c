// Files on their way in, beside their targets. Their names say of which process on which machine they are: what one that was
// killed left behind is removed by the next that comes to the same folder. Invariants: nobody else's file is opened or
// removed; when the client ends in a way that it can notice, none of them stays.
import { createHash, randomBytes } from 'node:crypto'
import { constants, lstatSync, opendirSync, openSync, rmSync } from 'node:fs'
import { hostname } from 'node:os'
import { sep } from 'node:path'
import { CLIENT } from '@berth/shared/client-limits'
import { isAlive } from '../ssh/ssh.ts'

const MACHINE = createHash('sha256').update(hostname()).digest('hex').slice(0, 8)
const PROCESS = `${MACHINE}-${process.pid}-${randomBytes(8).toString('hex')}`
const NAME = /^\.berth-([0-9a-f]{8})-(\d{1,10})-[0-9a-f]{16}-\d+\.part$/

let made = 0
const lying = new Set<string>()

/** A new file beside its target, open. */
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

/** It has its own name now. */
export const forgetPart = (path: string): boolean => lying.delete(path)

export function removePart(path: string): void {
  rmSync(path, { force: true })
  forgetPart(path)
}

/** For an end that waits for nobody. */
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

/** Of clients that were killed and could not clean up. Only a help: what cannot be looked at or removed stays. */
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
    // it is not ours to look at, or another client was quicker
  }
}
