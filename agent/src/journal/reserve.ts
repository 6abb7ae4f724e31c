// Disk space in reserve: a file that is deleted when the disk is full, so that the outbox can still take the states of
// what runs. It holds random bytes, because some file systems store zeros without using space.
import { randomFillSync } from 'node:crypto'
import { closeSync, fsyncSync, openSync, rmSync, statfsSync, statSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { EVENTS, TASKS } from '@berth/shared'

const PIECE = 1_048_576

export class DiskReserve {
  readonly #file: string
  readonly #bytes: number

  constructor(file: string, bytes: number = EVENTS.reserveBytes) {
    this.#file = file
    this.#bytes = bytes
  }

  /** Creates the file (again) when the disk has space for it and for what tasks need. */
  hold(): void {
    try {
      if (statSync(this.#file, { throwIfNoEntry: false })?.size === this.#bytes) return
      const { bavail, bsize } = statfsSync(dirname(this.#file))
      if (bavail * bsize < this.#bytes + TASKS.acceptFreeBytes) return
      this.#fill()
    } catch {
      // no space after all: the daemon works without the reserve
      rmSync(this.#file, { force: true })
    }
  }

  /** True when space was freed, so that a write that failed on a full disk can be retried. */
  release(): boolean {
    const size = statSync(this.#file, { throwIfNoEntry: false })?.size ?? 0
    rmSync(this.#file, { force: true })
    return size > 0
  }

  #fill(): void {
    const piece = randomFillSync(Buffer.alloc(Math.min(PIECE, this.#bytes)))
    const fd = openSync(this.#file, 'w', 0o600)
    try {
      for (let done = 0; done < this.#bytes; done += piece.length) {
        writeSync(fd, piece, 0, Math.min(piece.length, this.#bytes - done))
      }
      fsyncSync(fd)
    } finally {
      closeSync(fd)
    }
  }
}
