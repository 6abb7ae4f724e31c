// Reads copies out of the agent's store: one, from any byte on, or several in order. Invariants: a file that is not the
// recorded one (another inode, size or time, a link) is never read; when one of several is refused, those sent before
// it are complete.
import {
  type BigIntStats,
  closeSync,
  constants,
  createReadStream,
  existsSync,
  fstatSync,
  openSync,
  read,
  readSync,
} from 'node:fs'
import { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { ARTIFACTS } from '@berth/shared'
import type { ArtifactRow } from '../journal/artifact-table.ts'
import { Ledger, ledgerFile } from '../journal/ledger.ts'
import type { AgentSettings } from '../settings.ts'
import { copyOf } from './store.ts'

interface ArtifactQuestion {
  /** Undefined when the caller may read any artifact of this server (the control plane has checked). */
  environmentId?: number | undefined
  artifactId: string
  offset: number
  /** Absent to read to the end. */
  length?: number
}

interface Refused {
  kind: 'gone' | 'expired' | 'changed' | 'beyond'
  message: string
}

interface Opened<T> {
  kind: 'ok'
  path: string
  size: number
  sha256: string
  modifiedAt: Date
  /** From `offset` on. The caller destroys it when it is not needed. */
  stream: T
}

export type OpenedArtifact = Opened<Readable> | Refused
export type BorrowedArtifact = Opened<BorrowedPieces> | Refused

const GONE: Refused = { kind: 'gone', message: 'The file is no longer on the server.' }

/** Opens the copy of one artifact after comparing it with its record. */
export const openArtifact = (
  settings: AgentSettings,
  question: ArtifactQuestion,
  now = Date.now(),
): OpenedArtifact => openPart(settings, question, readPart, now)

/** The same, with a reused buffer. */
export const borrowArtifact = (
  settings: AgentSettings,
  question: ArtifactQuestion,
): BorrowedArtifact => openPart(settings, question, borrowPart, Date.now())

function openPart<T>(
  settings: AgentSettings,
  { environmentId, artifactId, offset, length }: ArtifactQuestion,
  read: (fd: number, from: number, to: number) => T,
  now: number,
): Opened<T> | Refused {
  const [row] = findRows(settings, [artifactId], environmentId)
  const fd = openCopy(settings, row, now)
  if (!row || typeof fd !== 'number') return fd as Refused
  if (!(offset >= 0 && offset <= row.size)) {
    closeSync(fd)
    return { kind: 'beyond', message: `${row.path} has ${row.size} bytes.` }
  }
  const end = length === undefined ? row.size : Math.min(row.size, offset + length)
  const stream = read(fd, offset, end)
  const { path, size, modifiedAt } = row
  const sha256 = row.sha256.toString('hex')
  return { kind: 'ok', path, size, sha256, modifiedAt: new Date(modifiedAt), stream }
}

/** Undefined when nothing was ever collected here. */
function inLedger<T>(settings: AgentSettings, use: (ledger: Ledger) => T): T | undefined {
  if (!existsSync(ledgerFile(settings))) return undefined
  const ledger = new Ledger(settings)
  try {
    return use(ledger)
  } finally {
    ledger.close()
  }
}

/** In the requested order; undefined for an artifact that does not exist, or not in this environment. */
function findRows(
  settings: AgentSettings,
  ids: readonly string[],
  environmentId: number | undefined,
): (ArtifactRow | undefined)[] {
  const isAsked = (row: ArtifactRow | undefined): boolean =>
    environmentId === undefined || row?.environmentId === environmentId
  const rows = inLedger(settings, ({ artifacts }) => artifacts.findAll(ids))
  return rows?.map((row) => (isAsked(row) ? row : undefined)) ?? ids.map(() => undefined)
}

/** Total bytes of those that exist. */
export const sumSizes = (
  settings: AgentSettings,
  ids: readonly string[],
  environmentId: number,
): number => inLedger(settings, ({ artifacts }) => artifacts.sumSizes(ids, environmentId)) ?? 0

/** Opens exactly the recorded file. */
function openCopy(
  settings: AgentSettings,
  row: ArtifactRow | undefined,
  now: number,
): number | Refused {
  if (!row) return GONE
  if (row.expiresAt <= now) {
    const message = `${row.path} was kept until ${new Date(row.expiresAt).toISOString()}. Run the action again.`
    return { kind: 'expired', message }
  }
  let fd: number
  try {
    fd = openSync(copyOf(settings, row), constants.O_RDONLY | constants.O_NOFOLLOW)
  } catch (error) {
    const isLink = (error as NodeJS.ErrnoException).code === 'ELOOP'
    return isLink ? changed(row) : GONE
  }
  if (isRecorded(fstatSync(fd, { bigint: true }), row)) return fd
  closeSync(fd)
  return changed(row)
}

function readPart(fd: number, from: number, to: number): Readable {
  const highWaterMark = ARTIFACTS.readBytes
  if (to > from) return createReadStream('', { fd, start: from, end: to - 1, highWaterMark })
  closeSync(fd)
  return Readable.from([])
}

/** Each piece is valid until the next one is requested. Closes its file at the end, or when it is destroyed. */
interface BorrowedPieces extends AsyncIterable<Buffer> {
  destroy(): void
}

const readFile = promisify(read)

function borrowPart(fd: number, from: number, to: number): BorrowedPieces {
  const pieces = readPieces(fd, from, to)
  let isFresh = true
  return {
    [Symbol.asyncIterator]() {
      isFresh = false
      return pieces
    },
    destroy() {
      if (isFresh) closeSync(fd) // a generator that never ran closes nothing
      isFresh = false
      void pieces.return(undefined)
    },
  }
}

/** Reads the next piece while the caller uses one. A new buffer for each would cost more than the read. */
async function* readPieces(fd: number, from: number, to: number): AsyncGenerator<Buffer> {
  const size = Math.min(ARTIFACTS.readBytes, to - from)
  const buffers = [Buffer.allocUnsafeSlow(size), Buffer.allocUnsafeSlow(size)] as const
  let at = from
  const fill = async (buffer: Buffer): Promise<Buffer> => {
    const { bytesRead } = await readFile(fd, buffer, 0, Math.min(size, to - at), at)
    at += bytesRead
    return buffer.subarray(0, bytesRead)
  }
  let next = fill(buffers[0])
  try {
    for (let turn = 1; ; turn += 1) {
      const piece = await next
      if (piece.length === 0) return
      next = fill(buffers[turn % 2 === 0 ? 0 : 1])
      next.catch(() => undefined) // reported when it is awaited
      yield piece
    }
  } finally {
    await next.catch(() => undefined) // a descriptor must stay open during a read
    closeSync(fd)
  }
}

const changed = (row: ArtifactRow): Refused => ({
  kind: 'changed',
  message: `The copy of ${row.path} is not the file that was collected. Run the action again.`,
})

const isRecorded = (found: BigIntStats, row: ArtifactRow): boolean =>
  found.isFile() &&
  found.uid === BigInt(process.getuid?.() ?? 0) &&
  found.nlink === 1n &&
  found.ino === row.storedIno &&
  found.size === BigInt(row.size) &&
  found.mtimeNs === row.storedMtimeNs

/** One of several is unavailable; those before it were sent completely. */
export class ArtifactRefused extends Error {
  override readonly name = 'ArtifactRefused'
  readonly kind: Refused['kind']

  constructor({ kind, message }: Refused) {
    super(message)
    this.kind = kind
  }
}

/** Small buffers, collected until they fill a piece. */
class Waiting {
  #buffers: Buffer[] = []
  bytes = 0

  add(...buffers: Buffer[]): void {
    for (const buffer of buffers) {
      this.#buffers.push(buffer)
      this.bytes += buffer.length
    }
  }

  take(): Buffer {
    const piece = Buffer.concat(this.#buffers, this.bytes)
    this.#buffers = []
    this.bytes = 0
    return piece
  }
}

const NOTHING = Buffer.alloc(0)

/** A large file, open, for callers with a faster way to copy it; closed when the next piece is requested. */
interface OpenFile {
  fd: number
  size: number
}

/**
 * Reads several in order, each after the header from `announce`. Small files are read as a whole and share a piece,
 * because the overhead per piece costs more than their bytes. Throws ArtifactRefused.
 */
export function readArtifacts(
  settings: AgentSettings,
  asked: ArtifactList,
  announce: (row: ArtifactRow) => Buffer,
): AsyncGenerator<Buffer> {
  return listPieces(settings, asked, announce, readLarge)
}

/** The same; each piece is valid until the next one is requested. */
export const borrowArtifacts = (
  settings: AgentSettings,
  asked: ArtifactList,
): AsyncGenerator<Buffer> => listPieces(settings, asked, () => NOTHING, borrowLarge)

/** The same, with large ones as open files. */
export const openArtifacts = (
  settings: AgentSettings,
  asked: ArtifactList,
  announce: (row: ArtifactRow) => Buffer,
): AsyncGenerator<Buffer | OpenFile> => listPieces(settings, asked, announce, openLarge)

interface ArtifactList {
  environmentId?: number
  artifactIds: readonly string[]
}

async function* listPieces<T>(
  settings: AgentSettings,
  asked: ArtifactList,
  announce: (row: ArtifactRow) => Buffer,
  large: (fd: number, row: ArtifactRow, waiting: Waiting) => AsyncGenerator<T | Buffer>,
): AsyncGenerator<T | Buffer> {
  const waiting = new Waiting()
  try {
    for (const row of findRows(settings, asked.artifactIds, asked.environmentId)) {
      const fd = openCopy(settings, row, Date.now())
      if (!row || typeof fd !== 'number') throw new ArtifactRefused(fd as Refused)
      if (row.size <= ARTIFACTS.smallBytes) waiting.add(announce(row), readWhole(fd, row))
      else {
        waiting.add(announce(row))
        yield* large(fd, row, waiting)
      }
      if (waiting.bytes < ARTIFACTS.pieceBytes) continue
      yield waiting.take()
      await turn() // lets other work of this process run
    }
  } catch (error) {
    if (waiting.bytes > 0) yield waiting.take()
    throw error
  }
  if (waiting.bytes > 0) yield waiting.take()
}

function readWhole(fd: number, row: ArtifactRow): Buffer {
  try {
    const bytes = Buffer.allocUnsafe(row.size)
    let at = 0
    for (let got = 1; got > 0 && at < bytes.length; at += got) {
      got = readSync(fd, bytes, at, bytes.length - at, at)
    }
    if (at < bytes.length) throw new ArtifactRefused(changed(row))
    return bytes
  } finally {
    closeSync(fd)
  }
}

async function* openLarge(
  fd: number,
  row: ArtifactRow,
  waiting: Waiting,
): AsyncGenerator<Buffer | OpenFile> {
  try {
    yield waiting.take()
    yield { fd, size: row.size }
    if (!isRecorded(fstatSync(fd, { bigint: true }), row)) throw new ArtifactRefused(changed(row))
  } finally {
    closeSync(fd)
  }
}

type Large = (fd: number, row: ArtifactRow, waiting: Waiting) => AsyncGenerator<Buffer>

const largeBy = (readAll: (fd: number, from: number, to: number) => AsyncIterable<Buffer>): Large =>
  async function* (fd, row, waiting) {
    let left = row.size
    for await (const chunk of readAll(fd, 0, row.size)) {
      if (waiting.bytes > 0) yield waiting.take()
      left -= chunk.length
      yield chunk
    }
    if (left > 0) throw new ArtifactRefused(changed(row))
  }

const readLarge = largeBy(readPart)
const borrowLarge = largeBy(borrowPart)
