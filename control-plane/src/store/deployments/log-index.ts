// The index of a log: 24 bytes per record (time, offset of its data, line, step, source, flags), so a line or a step is
// found without reading the data. Files and blocks of the database hold the same entries. Allocates nothing per record.
import { forEachRecord, NO_STEP as WIRE_NO_STEP } from '@berth/shared/wire'

/** The length of a log. `lines` counts line ends, plus one if the last line has none. */
export interface LogPosition {
  records: number
  bytes: number
  lines: number
}

export interface StoredRecord {
  timeUs: number
  line: number
  /** Index in the plan; undefined if the record belongs to no step. */
  step: number | undefined
  source: number
  replacesPrevious: boolean
  data: Buffer
}

export interface RecordQuery {
  /** Records [from, to), from 0; `bytes` is the length of the log up to `to`. */
  from: number
  to: number
  bytes: number
  fromLine?: number
  untilLine?: number
  /** Only records of these steps. */
  steps?: ReadonlySet<number> | undefined
}

/** The stored log does not hold what its row says: it was deleted, or the rows were restored without it. */
export class LogGone extends Error {}

export const ENTRY_BYTES = 24
/** A record has at least two bytes in a region. */
export const mostEntryBytes = (region: Buffer): number => Math.ceil(region.length / 2) * ENTRY_BYTES
export const NEWLINE = 10
const NO_STEP = 0xffff
const REPLACES = 1

function writeEntry(
  target: Buffer,
  at: number,
  timeUs: number,
  offset: number,
  line: number,
  step: number,
  source: number,
  replaces: boolean,
): void {
  target.writeDoubleLE(timeUs, at)
  target.writeDoubleLE(offset, at + 8)
  target.writeUInt32LE(line >>> 0, at + 16)
  target.writeUInt16LE(step === WIRE_NO_STEP || step >= NO_STEP ? NO_STEP : step, at + 20)
  target.writeUInt8(source & 0xff, at + 22)
  target.writeUInt8(replaces ? REPLACES : 0, at + 23)
}

export const offsetAt = (entries: Buffer, n: number): number =>
  entries.readDoubleLE(n * ENTRY_BYTES + 8)
export const lineAt = (entries: Buffer, n: number): number =>
  entries.readUInt32LE(n * ENTRY_BYTES + 16)
const stepAt = (entries: Buffer, n: number): number => entries.readUInt16LE(n * ENTRY_BYTES + 20)

export function recordAt(entries: Buffer, n: number, data: Buffer): StoredRecord {
  const step = stepAt(entries, n)
  return {
    timeUs: entries.readDoubleLE(n * ENTRY_BYTES),
    line: lineAt(entries, n),
    step: step === NO_STEP ? undefined : step,
    source: entries.readUInt8(n * ENTRY_BYTES + 22),
    replacesPrevious: (entries.readUInt8(n * ENTRY_BYTES + 23) & REPLACES) !== 0,
    data,
  }
}

export function isWanted(entries: Buffer, n: number, query: RecordQuery): boolean {
  const line = lineAt(entries, n)
  if (line < (query.fromLine ?? 0) || line >= (query.untilLine ?? Number.POSITIVE_INFINITY)) {
    return false
  }
  return query.steps === undefined || query.steps.has(stepAt(entries, n))
}

/** Line numbers never decrease, so nothing after these entries is wanted. */
export const isPast = (entries: Buffer, query: RecordQuery): boolean =>
  query.untilLine !== undefined && lineAt(entries, 0) >= query.untilLine

export interface Indexed {
  end: LogPosition
  /** Bytes written to `data` and `entries`. */
  dataBytes: number
  entryBytes: number
  /** The last byte is no line end, so the next record continues that line. */
  unfinished: boolean
}

/** Writes the data and the index of encoded records that follow a position; both targets must be large enough. */
export function indexRegion(
  region: Buffer,
  at: LogPosition,
  wasUnfinished: boolean,
  data: Buffer,
  entries: Buffer,
): Indexed {
  let bytes = 0
  let records = 0
  let lines = at.lines
  let unfinished = wasUnfinished
  forEachRecord(region, (timeUs, source, step, start, end, replaces) => {
    const empty = start === end
    const line = empty || unfinished ? Math.max(lines, 1) : lines + 1
    const offset = at.bytes + bytes
    writeEntry(entries, records * ENTRY_BYTES, timeUs, offset, line, step, source, replaces)
    records += 1
    if (empty) return
    region.copy(data, bytes, start, end)
    bytes += end - start
    if (!unfinished) lines += 1
    unfinished = region[end - 1] !== NEWLINE
    for (let n = region.indexOf(NEWLINE, start); n >= 0 && n < end - 1; ) {
      lines += 1 // in a record of several lines, only the last line end was counted above
      n = region.indexOf(NEWLINE, n + 1)
    }
  })
  return {
    end: { records: at.records + records, bytes: at.bytes + bytes, lines },
    dataBytes: bytes,
    entryBytes: records * ENTRY_BYTES,
    unfinished,
  }
}
