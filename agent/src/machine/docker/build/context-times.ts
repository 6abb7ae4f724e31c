// The file times that builds report. The engine requests a file again when its size or time differs, and each checkout
// gives every file a new time; so a file keeps the time of the first build that saw this content. Invariant: two
// contents never have the same time. The fraction of a second is derived from the content, so lost or wrong stored
// times never hide a change, for any times that a checkout has.
import { createHash, type Hash, hash } from 'node:crypto'
import { mkdirSync, readFileSync, readSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { BUILDS } from '../../../limits/docker.ts'
import { replaceUnsynced } from '../../atomic-files.ts'

const SECOND = 1_000_000_000n

export interface ContextTimes {
  /** In nanoseconds. */
  timeOf: (path: string, digest: Buffer, mtimeNs: bigint) => bigint
  /** Stores the times for the next build. `isWhole` says that every existing file was seen. */
  save: (isWhole: boolean) => void
}

/** Path, content, second. */
type Row = [string, string, number]

/** Throws when the text is invalid. */
function parse(text: string): Map<string, Row> {
  const rows = JSON.parse(text) as Row[]
  return new Map(rows.map((row) => [String(row[0]), row]))
}

function readRows(file: string): Map<string, Row> {
  try {
    if (statSync(file).size > BUILDS.timesBytes) return new Map()
    return parse(readFileSync(file, 'utf8'))
  } catch {
    return new Map() // the first build, or a truncated file: every file is sent
  }
}

function writeRows(file: string, rows: Row[]): void {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    replaceUnsynced(file, JSON.stringify(rows))
  } catch {
    // a full disk: the next build sends more
  }
}

/** `file` stores the times; undefined to store none. */
export function openTimes(file: string | undefined): ContextTimes {
  const known = file === undefined ? new Map<string, Row>() : readRows(file)
  const seen = new Map<string, Row>()
  return {
    timeOf(path, digest, mtimeNs) {
      const content = digest.toString('base64url')
      const row = known.get(path)
      const isSame = row?.[1] === content && Number.isSafeInteger(row[2])
      const second = isSame ? BigInt(row[2]) : mtimeNs / SECOND
      seen.set(path, [path, content, Number(second)])
      return second * SECOND + (BigInt(digest.readUInt32BE(0)) % SECOND)
    },
    save(isWhole) {
      const rows = isWhole ? seen : new Map([...known, ...seen])
      if (file !== undefined && rows.size <= BUILDS.timesFiles) writeRows(file, [...rows.values()])
    },
  }
}

/** Of an open file; yields between pieces, as a large file takes seconds. */
export function* digestOf(handle: number, size: number): Generator<undefined, Buffer> {
  const piece = Buffer.allocUnsafe(Math.min(size, BUILDS.digestBytes))
  let whole: Hash | undefined
  for (let at = 0; at < size; ) {
    const length = readSync(handle, piece, 0, piece.length, at)
    if (length === 0) break // the sender notices that the file became shorter
    at += length
    if (length === size) return hash('sha256', piece, 'buffer')
    whole ??= createHash('sha256')
    whole.update(piece.subarray(0, length))
    yield undefined
  }
  return (whole ?? createHash('sha256')).digest()
}
