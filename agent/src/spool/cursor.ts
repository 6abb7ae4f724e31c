// Walks the blocks of a growing spool from segment to segment. Invariant: a block is returned only when its checksum
// matches; unreadable bytes are skipped when a readable block follows them, and mean "not yet" at the end. Does not
// know what the numbers of the records mean (spool/reader.ts).
import { openSync, readSync } from 'node:fs'
import { LOGS } from '@berth/shared'
import { FileSyncs } from '../machine/file-syncs.ts'
import {
  type BlockHeader,
  blockBytes,
  findBlock,
  HEADER_BYTES,
  isWhole,
  listSegments,
  readHeader,
  readWhole,
  segmentPath,
} from './format.ts'

const READ_BYTES = 4 * (HEADER_BYTES + LOGS.blockBytes)

export class SpoolCursor {
  /** Segments were missing between the last block and this one. */
  hasSkippedSegments = false
  readonly #folder: string
  readonly #folderFd: number
  readonly #syncs = new FileSyncs()
  #segment = 1
  #fd: number | undefined
  /** Offset of the current block in the segment. */
  #at = 0
  #present: BlockHeader | undefined
  /** A piece of the segment. */
  readonly #buffer = Buffer.allocUnsafe(READ_BYTES)
  #bufferAt = 0
  #bufferBytes = 0
  /** The segment was read again after its successor appeared. */
  #isSealed = false
  /** Where the segment ended when a search after unreadable bytes found nothing. */
  #searchedEnd = -1
  /** Segments read since the last sync; all but the current one are closed after it. */
  readonly #unsynced = new Set<number>()
  #syncing: number | undefined
  #lastSync: Promise<void> = Promise.resolve()
  #hasNewNames = false
  #isClosed = false

  constructor(folder: string) {
    this.#folder = folder
    this.#folderFd = openSync(folder, 'r')
  }

  get segment(): number {
    return this.#segment
  }

  /** The current block's records; valid until the next call. */
  get region(): Buffer {
    const header = this.#present as BlockHeader
    const from = this.#at - this.#bufferAt + HEADER_BYTES
    return this.#buffer.subarray(from, from + header.regionBytes)
  }

  /** Moves to the beginning of this segment, or of the next existing one. */
  place(segment: number): void {
    this.#leave()
    this.#segment = segment
    this.hasSkippedSegments = false
  }

  /** The current block; undefined when the writer has not written it yet. */
  peek(): BlockHeader | undefined {
    while (this.#present === undefined) {
      if (this.#fd === undefined && !this.#enter()) return undefined
      this.#present = this.#load()
      if (this.#present === undefined && !this.#passUnreadable()) return undefined
    }
    return this.#present
  }

  /** Moves past the current block. */
  pass(): void {
    if (this.#present === undefined) return
    this.#at += blockBytes(this.#present)
    this.#present = undefined
    this.hasSkippedSegments = false
    this.#unsynced.add(this.#fd as number)
  }

  /** Everything passed before the call is on the disk afterwards. */
  sync(): Promise<void> {
    const sync = this.#lastSync.then(() => this.#syncOnce())
    this.#lastSync = sync.catch(() => undefined)
    return sync
  }

  async #syncOnce(): Promise<void> {
    for (const fd of [...this.#unsynced]) {
      if (this.#isClosed) return
      this.#unsynced.delete(fd)
      this.#syncing = fd
      await this.#syncs.data(fd)
      this.#syncing = undefined
      const isDone = fd !== this.#fd && !this.#unsynced.has(fd)
      if (isDone && !this.#isClosed) this.#syncs.close(fd)
    }
    if (!this.#hasNewNames || this.#isClosed) return
    this.#hasNewNames = false
    await this.#syncs.names(this.#folderFd)
  }

  close(): void {
    const open = [...this.#unsynced, this.#fd, this.#syncing, this.#folderFd]
    for (const fd of new Set(open)) if (fd !== undefined) this.#syncs.close(fd)
    this.#unsynced.clear()
    this.#fd = undefined
    this.#isClosed = true
  }

  #leave(): void {
    const fd = this.#fd
    const isNeeded = fd === undefined || this.#unsynced.has(fd) || fd === this.#syncing
    if (!isNeeded) this.#syncs.close(fd)
    this.#fd = undefined
    this.#present = undefined
    this.#at = 0
    this.#bufferBytes = 0
    this.#isSealed = false
    this.#searchedEnd = -1
  }

  #enter(): boolean {
    try {
      this.#fd = openSync(segmentPath(this.#folder, this.#segment), 'r')
      this.#hasNewNames = true
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      return this.#enterNext()
    }
  }

  #enterNext(): boolean {
    const next = listSegments(this.#folder).find((segment) => segment > this.#segment)
    if (next === undefined) return false
    const isMissing = next > this.#segment + 1 || this.#fd === undefined
    this.#leave()
    this.#segment = next
    this.hasSkippedSegments ||= isMissing
    return this.#enter()
  }

  /**
   * The valid block at `#at`; refills the buffer when it does not hold the block, and once more before it counts as
   * bad.
   */
  #load(): BlockHeader | undefined {
    return this.#inBuffer() ?? (this.#fill() ? this.#inBuffer() : undefined)
  }

  #inBuffer(): BlockHeader | undefined {
    const at = this.#at - this.#bufferAt
    if (at < 0 || at >= this.#bufferBytes) return undefined
    const bytes = this.#buffer.subarray(0, this.#bufferBytes)
    const header = readHeader(bytes, at)
    return header !== undefined && isWhole(bytes, at, header) ? header : undefined
  }

  #fill(): boolean {
    this.#bufferAt = this.#at
    this.#bufferBytes = readSync(this.#fd as number, this.#buffer, 0, READ_BYTES, this.#at)
    return this.#bufferBytes > 0
  }

  /** Nothing is readable at `#at`. True when the cursor moved (or should retry), false for "not yet". */
  #passUnreadable(): boolean {
    const hasNext = listSegments(this.#folder).some((segment) => segment > this.#segment)
    if (hasNext && !this.#isSealed) {
      this.#isSealed = true // the writer may have appended just before it moved on, so read again
      return true
    }
    // Judged by the bytes already read, because the writer continues and a later read would differ.
    const isHalfThere = this.#isHalfThere()
    if (isHalfThere && !hasNext) return false
    // A writer that found the disk full writes at the same place again, so read once more before calling it damaged.
    this.#present = this.#load()
    if (this.#present !== undefined) return true
    const end = this.#bufferAt + this.#bufferBytes
    if (this.#bufferBytes > 0 && end !== this.#searchedEnd) {
      const found = findBlock(readWhole(segmentPath(this.#folder, this.#segment)), this.#at + 1)
      if (found >= 0) {
        this.#at = found
        return true
      }
      this.#searchedEnd = end
    }
    return hasNext && this.#enterNext()
  }

  /** The file ended inside the block (or before it) when it was last read. */
  #isHalfThere(): boolean {
    if (this.#bufferBytes < HEADER_BYTES) return true
    const header = readHeader(this.#buffer.subarray(0, this.#bufferBytes), 0)
    return header !== undefined && blockBytes(header) > this.#bufferBytes
  }
}
