// Appends whole blocks to the files of a spool: segments one after the other, and the two alternating tail files.
// Invariant: a write that finds no space leaves nothing of its block in the file, so a full disk never damages earlier
// blocks. Does not know the content of a block.
import {
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { LOGS } from '@berth/shared'
import { FileSyncs } from '../machine/file-syncs.ts'
import { segmentPath, TAIL_FILES } from './format.ts'

/** The system call a spool writes with; tests pass one whose disk is full. */
export type WriteCall = (
  fd: number,
  bytes: Buffer,
  from: number,
  length: number,
  position: number,
) => number

export const isDiskFull = (error: unknown): boolean =>
  ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException).code ?? '')

/** Some file systems report a full disk only now; then the checksums show the damage. */
function syncNow(fd: number): void {
  try {
    fdatasyncSync(fd)
  } catch (error) {
    if (!isDiskFull(error)) throw error
  }
}

/** Writes all or nothing; false when the disk is full. */
function writeBlock(write: WriteCall, fd: number, block: Buffer, position: number): boolean {
  try {
    for (let done = 0; done < block.length; ) {
      done += write(fd, block, done, block.length - done, position + done)
    }
    return true
  } catch (error) {
    ftruncateSync(fd, position)
    if (isDiskFull(error)) return false
    throw error
  }
}

export class SegmentFiles {
  readonly #folder: string
  readonly #segmentBytes: number
  readonly #write: WriteCall
  readonly #folderFd: number
  #segment: number
  #fd: number | undefined
  #bytes = 0
  /** Full segments that may not be on the disk yet. */
  #full: number[] = []
  #hasNewNames = true
  #isDirty = false
  #isClosed = false
  readonly #syncs = new FileSyncs()
  #lastSync: Promise<void> = Promise.resolve()

  /** Continues after the valid blocks of `segment`; 0 = there is none yet. */
  constructor(folder: string, segmentBytes: number, segment: number, write: WriteCall = writeSync) {
    this.#folder = folder
    this.#segmentBytes = segmentBytes
    this.#write = write
    this.#segment = segment
    this.#folderFd = openSync(folder, 'r')
    if (segment > 0) {
      this.#fd = openSync(segmentPath(folder, segment), 'r+')
      this.#bytes = fstatSync(this.#fd).size
    }
  }

  append(block: Buffer): boolean {
    if (this.#fd === undefined || this.#bytes + block.length > this.#segmentBytes) {
      if (!this.#openNext()) return false
    }
    const fd = this.#fd as number
    if (!writeBlock(this.#write, fd, block, this.#bytes)) return false
    this.#bytes += block.length
    this.#isDirty = true
    return true
  }

  #openNext(): boolean {
    if (this.#fd !== undefined && this.#bytes === 0) return true // created by the last try
    let fd: number
    try {
      fd = openSync(segmentPath(this.#folder, this.#segment + 1), 'wx', 0o600)
    } catch (error) {
      if (isDiskFull(error)) return false
      throw error
    }
    if (this.#fd !== undefined) this.#full.push(this.#fd)
    if (this.#full.length > LOGS.unsyncedSegments) this.#retire(this.#full[0] as number, syncNow)
    this.#segment++
    this.#fd = fd
    this.#bytes = 0
    this.#hasNewNames = true
    return true
  }

  /** Everything appended before the call is on the disk afterwards. */
  sync(): Promise<void> {
    const sync = this.#lastSync.then(() => this.#syncOnce())
    this.#lastSync = sync.catch(() => undefined)
    return sync
  }

  async #syncOnce(): Promise<void> {
    if (this.#isClosed) return
    const hadNewNames = this.#hasNewNames
    const wasDirty = this.#isDirty
    const fd = this.#fd
    this.#isDirty = false
    this.#hasNewNames = false
    for (const old of [...this.#full]) {
      if (!this.#full.includes(old)) continue // a slow disk: it was already synced synchronously
      await this.#syncs.data(old)
      if (this.#isClosed) return // closing has synced the rest
      this.#retire(old)
    }
    if (wasDirty && fd !== undefined) await this.#syncs.data(fd)
    if (hadNewNames && !this.#isClosed) await this.#syncs.names(this.#folderFd)
  }

  /** Closes a full segment. */
  #retire(fd: number, sync: (fd: number) => void = () => undefined): void {
    if (!this.#full.includes(fd)) return
    sync(fd)
    this.#full = this.#full.filter((other) => other !== fd)
    this.#syncs.close(fd)
  }

  /** Everything is on the disk when this returns. */
  close(): void {
    const fds = this.#fd === undefined ? this.#full : [...this.#full, this.#fd]
    for (const fd of fds) syncNow(fd)
    fsyncSync(this.#folderFd)
    for (const fd of [...fds, this.#folderFd]) this.#syncs.close(fd)
    this.#full = []
    this.#fd = undefined
    this.#isClosed = true
  }
}

/** The end of a long log: when one file is full, the other is overwritten from its beginning. */
export class TailFiles {
  readonly #fds: readonly [number, number]
  readonly #tailBytes: number
  readonly #write: WriteCall
  readonly #syncs = new FileSyncs()
  #isClosed = false
  #turn: 0 | 1 = 0
  #bytes = 0

  constructor(folder: string, tailBytes: number, write: WriteCall = writeSync) {
    const open = (name: string): number => openSync(join(folder, name), 'w', 0o600)
    this.#fds = [open(TAIL_FILES[0]), open(TAIL_FILES[1])]
    this.#tailBytes = tailBytes
    this.#write = write
  }

  append(block: Buffer): boolean {
    if (this.#bytes >= this.#tailBytes) {
      this.#turn = this.#turn === 0 ? 1 : 0
      ftruncateSync(this.#fds[this.#turn], 0)
      this.#bytes = 0
    }
    if (!writeBlock(this.#write, this.#fds[this.#turn], block, this.#bytes)) return false
    this.#bytes += block.length
    return true
  }

  async sync(): Promise<void> {
    for (const fd of this.#fds) if (!this.#isClosed) await this.#syncs.data(fd)
  }

  close(): void {
    this.#isClosed = true
    for (const fd of this.#fds) this.#syncs.close(fd)
  }
}

export function removeTailFiles(folder: string): void {
  for (const name of TAIL_FILES) {
    try {
      unlinkSync(join(folder, name))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  }
}
