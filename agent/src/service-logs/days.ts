// Files of a service's log: `2026-11-15.ndjson` is being written; a part that is full, or whose day is over, is set
// aside as `2026-11-15.1.ndjson`, 2, 3 … and compressed. Invariants: if a part exists plain and compressed, the
// compressed one is complete; only age and size remove parts, oldest first, and the removed days are recorded.
import {
  createReadStream,
  createWriteStream,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { SERVICE_LOGS } from '@berth/shared'
import { replaceUnsynced } from '../machine/atomic-files.ts'

export interface LogPart {
  name: string
  day: string
  /** Infinity for the one that is being written. */
  seq: number
  isCompressed: boolean
}

const NAME = /^(\d{4}-\d{2}-\d{2})(?:\.(\d{1,9}))?\.ndjson(\.gz)?$/
const GONE = 'gone.json'

const list = (folder: string): string[] => {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

export const compareParts = (a: Pick<LogPart, 'day' | 'seq'>, b: typeof a): number => {
  if (a.day !== b.day) return a.day < b.day ? -1 : 1
  return a.seq === b.seq ? 0 : a.seq - b.seq
}

/** Oldest first. */
export function listParts(dir: string): LogPart[] {
  const parts = new Map<string, LogPart>()
  for (const name of list(dir)) {
    const [, day, seq, gz] = NAME.exec(name) ?? []
    if (day === undefined) continue
    const key = `${day}.${seq ?? ''}`
    if (gz === undefined && parts.has(key)) continue
    const number = seq === undefined ? Number.POSITIVE_INFINITY : Number(seq)
    parts.set(key, { name, day, seq: number, isCompressed: gz !== undefined })
  }
  return [...parts.values()].sort(compareParts)
}

/** Names of all services that ever wrote here. */
export const listLoggedServices = (environmentLogs: string): string[] =>
  list(environmentLogs)
    .filter((name) => !name.startsWith('.'))
    .sort()

/** The number that the current part will get; never one that a removed part had, because positions name it. */
export function nextSeq(dir: string, day: string): number {
  const taken = listParts(dir).filter((part) => part.day === day && Number.isFinite(part.seq))
  const gone = readGone(dir)
  const removed = gone?.to === day ? (gone.seq ?? 0) : 0
  return Math.max(removed, ...taken.map(({ seq }) => seq)) + 1
}

/** The same, with the number that the current part will get. Oldest first. */
export const listNumberedParts = (dir: string): LogPart[] =>
  listParts(dir).map((part) =>
    Number.isFinite(part.seq) ? part : { ...part, seq: nextSeq(dir, part.day) },
  )

/** Writers then begin a new file. */
export function setAside(dir: string, day: string): void {
  const to = join(dir, `${day}.${nextSeq(dir, day)}.ndjson`)
  renameSync(join(dir, `${day}.ndjson`), to)
}

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0

/** False when it was written meanwhile; the next sweep retries. */
async function compress(dir: string, name: string): Promise<boolean> {
  const plain = join(dir, name)
  const temporary = join(dir, `.${name}.gz.tmp`)
  const before = sizeOf(plain)
  await pipeline(
    createReadStream(plain),
    createGzip(),
    createWriteStream(temporary, { mode: 0o600, flush: true }),
  )
  if (sizeOf(plain) !== before) {
    rmSync(temporary, { force: true })
    return false
  }
  renameSync(temporary, join(dir, `${name}.gz`))
  rmSync(plain, { force: true })
  return true
}

/** Sets past days aside and compresses parts that are no longer written. */
export async function compressParts(dir: string, now: Date): Promise<void> {
  const today = now.toISOString().slice(0, 10)
  const names = new Set(list(dir))
  for (const name of names) {
    // left by a process that died; a compressed part is complete once it has its final name
    if (name.endsWith('.gz.tmp')) rmSync(join(dir, name), { force: true })
    if (names.has(`${name}.gz`)) rmSync(join(dir, name), { force: true })
  }
  for (const { name, day, seq, isCompressed } of listParts(dir)) {
    if (isCompressed) continue
    const touched = statSync(join(dir, name), { throwIfNoEntry: false })?.mtimeMs ?? 0
    if (now.getTime() - touched < SERVICE_LOGS.quietMs) continue
    if (Number.isFinite(seq)) await compress(dir, name)
    else if (day < today) {
      const set = `${day}.${nextSeq(dir, day)}.ndjson`
      setAside(dir, day)
      await compress(dir, set)
    }
  }
}

interface GoneDays {
  from: string
  to: string
  /** The highest number of a removed part of the last day. */
  seq?: number
}

/** Undefined when no line was ever removed. */
export function readGone(dir: string): GoneDays | undefined {
  try {
    const gone = JSON.parse(readFileSync(join(dir, GONE), 'utf8')) as GoneDays
    return typeof gone.from === 'string' && typeof gone.to === 'string' ? gone : undefined
  } catch {
    return undefined
  }
}

function noteGone(dir: string, { day, seq }: Pick<LogPart, 'day' | 'seq'>): void {
  const known = readGone(dir)
  const number = Number.isFinite(seq) ? seq : nextSeq(dir, day)
  const isNoted = known?.to === day ? (known.seq ?? 0) >= number : (known?.to ?? '') > day
  if (known && known.from <= day && isNoted) return
  const from = known && known.from < day ? known.from : day
  const isLater = known !== undefined && known.to > day
  const last = isLater ? { to: known.to, seq: known.seq } : { to: day, seq: number }
  replaceUnsynced(join(dir, GONE), `${JSON.stringify({ from, ...last })}\n`)
}

/** Removes what is too old or too much, oldest first, over all services of an environment; keeps the current part. */
export function keepWithinBounds(
  environmentLogs: string,
  now: Date,
  most: number = SERVICE_LOGS.environmentBytes,
): void {
  const today = now.toISOString().slice(0, 10)
  const oldest = new Date(now.getTime() - SERVICE_LOGS.keptMs).toISOString().slice(0, 10)
  const parts = listLoggedServices(environmentLogs).flatMap((service) => {
    const dir = join(environmentLogs, service)
    return listParts(dir).map((part) => ({ ...part, dir, bytes: sizeOf(join(dir, part.name)) }))
  })
  let total = parts.reduce((sum, { bytes }) => sum + bytes, 0)
  for (const part of parts.sort(compareParts)) {
    const isOver = total > most && !(part.day >= today && !Number.isFinite(part.seq))
    if (part.day >= oldest && !isOver) continue
    noteGone(part.dir, part)
    rmSync(join(part.dir, part.name), { force: true })
    total -= part.bytes
  }
}
