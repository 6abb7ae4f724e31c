// Reads what services of an environment wrote, from the files on this server: a range, the last lines, and live. Merges
// several services by time. Invariants: memory is bounded for any size of the logs (lines are read in pieces, on
// demand); removed days are named; a live reader continues across days, full parts, redeployments and new services.
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { SERVICE_LOGS } from '@berth/shared'
import { environmentPaths } from '../machine/files.ts'
import type { AgentSettings } from '../settings.ts'
import {
  compareParts,
  type LogPart,
  listLoggedServices,
  listParts,
  nextSeq,
  readGone,
} from './days.ts'
import { type PartLine, type PartReader, plainTime, readPart, timeOf } from './lines.ts'
import type { Cursor, LogPosition } from './positions.ts'
import type { ServiceLine } from './writer.ts'

export interface ServiceRecord {
  t: string
  s: 'out' | 'err'
  /** `web`; `web.2` is a replica. */
  service: string
  task: number
  text: string
}

export interface GoneRecord {
  kind: 'gone'
  service: string
  /** `2026-11-01`, or `2026-11-01 to 2026-11-03`. */
  days: string
}

interface ServiceLogQuery {
  environmentId: number
  /** Null for all of them, including those that begin to write during the read. */
  services: string[] | null
  since?: Date | undefined
  until?: Date | undefined
  /** Per service. */
  tail?: number | undefined
  /** Where each service continues; one that it does not name is read from its beginning. */
  after?: Cursor | undefined
  /** Which texts are wanted; absent: all of them. */
  accept?: ((text: string) => boolean) | undefined
  follow: boolean
  signal: AbortSignal
}

export interface Range {
  since: string
  /** Exclusive. */
  until: string
}

const FOR_EVER = '9999'

export function toRange({ since, until }: Pick<ServiceLogQuery, 'since' | 'until'>): Range {
  const text = (date: Date | undefined, otherwise: string): string =>
    date ? plainTime(date.toISOString()) : otherwise
  return { since: text(since, ''), until: text(until, FOR_EVER) }
}

const isIn = (range: Range, line: Buffer): boolean => {
  const t = timeOf(line)
  return t !== undefined && t >= range.since && t < range.until
}

/** Removed days of a service in the range. */
export function findGone(dir: string, service: string, range: Range): GoneRecord | undefined {
  const gone = readGone(dir)
  const firstDay = range.since.slice(0, 10)
  if (!gone || gone.to < firstDay || gone.from >= range.until) return undefined
  const [from = ''] = [gone.from, firstDay].sort().slice(-1)
  const days = from === gone.to ? from : `${from} to ${gone.to}`
  return { kind: 'gone', service, days }
}

/** Reads the log of one service continuously. */
class ServiceReader {
  readonly #dir: string
  readonly #service: string
  readonly #range: Range
  readonly #accept: ServiceLogQuery['accept']
  #lines: PartLine[] = []
  /** The part that they are in; undefined for the last lines of several. */
  #of: LogPart | undefined
  #at = 0
  #part: LogPart | undefined
  #reader: PartReader | undefined
  #position: LogPosition | undefined

  constructor(environmentLogs: string, service: string, range: Range, query: ServiceLogQuery) {
    this.#dir = join(environmentLogs, service)
    this.#service = service
    this.#range = range
    this.#accept = query.accept
    this.#position = query.after?.get(service)
  }

  get service(): string {
    return this.#service
  }

  /** After the line that was read last. */
  get position(): LogPosition | undefined {
    return this.#position
  }

  close(): void {
    this.#reader?.close()
    this.#reader = undefined
  }

  gone(): GoneRecord | undefined {
    return findGone(this.#dir, this.#service, this.#range)
  }

  /** Starts with the last lines of the range. False when there were fewer. */
  async seekTail(count: number): Promise<boolean> {
    const found: Buffer[][] = []
    let missing = Math.min(count, SERVICE_LOGS.tailLines)
    for (const part of this.#parts().reverse()) {
      if (missing === 0) break
      const reader = this.#open(part)
      if (!reader) continue
      const last = new Ring(missing)
      try {
        for (let lines = await reader.next(); lines; lines = await reader.next()) {
          for (const { bytes } of lines) if (isIn(this.#range, bytes)) last.add(bytes)
        }
      } finally {
        // live reading continues after the newest part
        if (this.#reader) reader.close()
        else {
          this.#part = part
          this.#reader = reader
        }
      }
      found.unshift(last.take())
      missing -= found[0]?.length ?? 0
    }
    this.#lines = found.flat().map((bytes) => ({ bytes, end: 0 }))
    return missing === 0
  }

  /** Undefined when there are no more for now. */
  async next(): Promise<ServiceRecord | undefined> {
    for (;;) {
      for (let line = this.#take(); line; line = this.#take()) {
        const record = isIn(this.#range, line) ? parseRecord(line, this.#service) : undefined
        if (record && (!this.#accept || this.#accept(record.text))) return record
      }
      if (!(await this.#fill())) return undefined
    }
  }

  #take(): Buffer | undefined {
    const line = this.#lines[this.#at++]
    if (line && this.#of) {
      const { day, seq } = this.#of
      this.#position = { day, seq, at: line.end }
    }
    return line?.bytes
  }

  async #fill(): Promise<boolean> {
    this.#lines = []
    this.#at = 0
    for (;;) {
      const lines = await this.#reader?.next()
      if (lines) {
        this.#lines = lines
        this.#of = this.#part
        return true
      }
      const next = this.#nextPart()
      if (!next) return false
      // lines written between the end of the part and the listing of the folder
      const rest = await this.#reader?.next()
      this.#of = this.#part
      this.#reader?.close()
      this.#reader = this.#open(next)
      if (this.#reader) this.#part = next
      if (rest) {
        this.#lines = rest
        return true
      }
      if (!this.#reader) return false
    }
  }

  #parts(): LogPart[] {
    const { since, until } = this.#range
    const isPossible = ({ day }: LogPart): boolean => day >= since.slice(0, 10) && day < until
    return listParts(this.#dir).filter(isPossible)
  }

  #nextPart(): LogPart | undefined {
    const current = this.#part
    const from = this.#position
    return this.#parts().find((part) => {
      if (!current) return !from || compareParts(part, from) >= 0
      const isOpen = !Number.isFinite(part.seq)
      if (isOpen && part.day === current.day) return this.#inodeOf(part) !== this.#reader?.inode
      return compareParts(part, current) > 0
    })
  }

  #inodeOf({ name }: LogPart): number | undefined {
    return statSync(join(this.#dir, name), { throwIfNoEntry: false })?.ino
  }

  /** The current part counts as the number it will get. Undefined when it was just set aside. */
  #open(part: LogPart): PartReader | undefined {
    try {
      const isOpen = !Number.isFinite(part.seq)
      const number = isOpen ? nextSeq(this.#dir, part.day) : part.seq
      const from = this.#position
      const isStart = !this.#part && from?.day === part.day && from.seq === number
      const file = join(this.#dir, part.name)
      const reader = readPart(file, part.isCompressed, isStart ? from.at : 0)
      if (isOpen) part.seq = nextSeq(this.#dir, part.day)
      if (part.seq === number) return reader
      reader.close()
      return undefined
    } catch {
      return undefined
    }
  }
}

/** The last of many lines, bounded in number and bytes. */
class Ring {
  readonly #most: number
  #lines: Buffer[] = []
  #first = 0
  #bytes = 0

  constructor(most: number) {
    this.#most = most
  }

  add(line: Buffer): void {
    this.#lines.push(Buffer.from(line)) // a slice would keep the whole chunk in memory
    this.#bytes += line.length
    while (
      this.#lines.length - this.#first > this.#most ||
      (this.#bytes > SERVICE_LOGS.tailBytes && this.#lines.length - this.#first > 1)
    ) {
      this.#bytes -= this.#lines[this.#first]?.length ?? 0
      this.#first += 1
    }
    if (this.#first > 2 * this.#most) this.#compact()
  }

  take(): Buffer[] {
    this.#compact()
    return this.#lines
  }

  #compact(): void {
    this.#lines = this.#lines.slice(this.#first)
    this.#first = 0
  }
}

export function parseRecord(line: Buffer, service: string): ServiceRecord | undefined {
  try {
    const { t, s, task, r, text } = JSON.parse(line.toString('utf8')) as ServiceLine
    return { t, s, service: r === undefined ? service : `${service}.${r}`, task, text }
  } catch {
    return undefined // a line that a crash cut; its writer repeated it
  }
}

class Readers {
  readonly #logs: string
  readonly #query: ServiceLogQuery
  readonly #range: Range
  readonly #open = new Map<string, ServiceReader>()

  constructor(settings: AgentSettings, query: ServiceLogQuery) {
    this.#logs = environmentPaths(settings, query.environmentId).logs
    this.#query = query
    this.#range = toRange(query)
  }

  get all(): ServiceReader[] {
    return [...this.#open.values()]
  }

  /** Services that wrote for the first time since the last call. */
  openNew(): ServiceReader[] {
    const { services } = this.#query
    const names = listLoggedServices(this.#logs)
    const fresh = names.filter((n) => !this.#open.has(n) && (!services || services.includes(n)))
    return fresh.map((name) => {
      const reader = new ServiceReader(this.#logs, name, this.#range, this.#query)
      this.#open.set(name, reader)
      return reader
    })
  }

  close(): void {
    for (const reader of this.all) reader.close()
  }
}

/** A record with the position after it, or the positions of all services while nothing is written. */
export type PlacedRecord =
  | { record: ServiceRecord; service: string; after: LogPosition | undefined }
  | { record: GoneRecord }
  | { positions: Cursor }

/** Everything that exists now, oldest first. */
async function* merge(readers: ServiceReader[], signal: AbortSignal) {
  type Head = { record: ServiceRecord; after: LogPosition | undefined; reader: ServiceReader }
  const heads: Head[] = []
  const pull = async (reader: ServiceReader): Promise<void> => {
    const record = await reader.next()
    if (record) heads.push({ record, after: reader.position, reader })
  }
  for (const reader of readers) await pull(reader)
  while (heads.length > 0 && !signal.aborted) {
    let first = 0
    for (let i = 1; i < heads.length; i += 1) {
      const [a, b] = [heads[i]?.record.t ?? '', heads[first]?.record.t ?? '']
      if (plainTime(a) < plainTime(b)) first = i
    }
    const [head] = heads.splice(first, 1)
    if (!head) return
    const { record, after, reader } = head
    yield { record, service: reader.service, after }
    await pull(reader)
  }
}

/** Where every service was read to; only between two records of all of them. */
function positionsOf(readers: ServiceReader[]): Cursor {
  const placed = readers.flatMap(({ service, position }) =>
    position ? [[service, position] as const] : [],
  )
  return new Map(placed)
}

export async function* readPlacedLogs(
  settings: AgentSettings,
  query: ServiceLogQuery,
): AsyncGenerator<PlacedRecord> {
  const { follow, signal, tail, until, after } = query
  const readers = new Readers(settings, query)
  try {
    for (const reader of readers.openNew()) {
      const isEnough = tail !== undefined && (await reader.seekTail(tail))
      const gone = isEnough || after ? undefined : reader.gone()
      if (gone) yield { record: gone }
    }
    yield* merge(readers.all, signal)
    if (!signal.aborted) yield { positions: positionsOf(readers.all) }
    let relistAt = performance.now() + SERVICE_LOGS.relistMs
    while (follow && !signal.aborted && !(until && Date.now() >= until.getTime())) {
      await delay(SERVICE_LOGS.followMs, undefined, { signal }).catch(() => undefined)
      if (performance.now() >= relistAt) {
        readers.openNew()
        relistAt = performance.now() + SERVICE_LOGS.relistMs
      }
      yield* merge(readers.all, signal)
      if (!signal.aborted) yield { positions: positionsOf(readers.all) }
    }
  } finally {
    readers.close()
  }
}

export async function* readServiceLogs(
  settings: AgentSettings,
  query: ServiceLogQuery,
): AsyncGenerator<ServiceRecord | GoneRecord> {
  for await (const placed of readPlacedLogs(settings, query)) {
    if ('record' in placed) yield placed.record
  }
}
