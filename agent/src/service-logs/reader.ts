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
import { type PartReader, plainTime, readPart, timeOf } from './lines.ts'
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
  follow: boolean
  signal: AbortSignal
}

interface Range {
  since: string
  /** Exclusive. */
  until: string
}

const FOR_EVER = '9999'

function toRange({ since, until }: ServiceLogQuery): Range {
  const text = (date: Date | undefined, otherwise: string): string =>
    date ? plainTime(date.toISOString()) : otherwise
  return { since: text(since, ''), until: text(until, FOR_EVER) }
}

const isIn = (range: Range, line: Buffer): boolean => {
  const t = timeOf(line)
  return t !== undefined && t >= range.since && t < range.until
}

/** Reads the log of one service continuously. */
class ServiceReader {
  readonly #dir: string
  readonly #service: string
  readonly #range: Range
  #lines: Buffer[] = []
  #at = 0
  #part: LogPart | undefined
  #reader: PartReader | undefined

  constructor(environmentLogs: string, service: string, range: Range) {
    this.#dir = join(environmentLogs, service)
    this.#service = service
    this.#range = range
  }

  get service(): string {
    return this.#service
  }

  close(): void {
    this.#reader?.close()
    this.#reader = undefined
  }

  /** Removed days in the range. */
  gone(): GoneRecord | undefined {
    const gone = readGone(this.#dir)
    const { since, until } = this.#range
    const firstDay = since.slice(0, 10)
    if (!gone || gone.to < firstDay || gone.from >= until) return undefined
    const [from = ''] = [gone.from, firstDay].sort().slice(-1)
    const days = from === gone.to ? from : `${from} to ${gone.to}`
    return { kind: 'gone', service: this.#service, days }
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
          for (const line of lines) if (isIn(this.#range, line)) last.add(line)
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
    this.#lines = found.flat()
    return missing === 0
  }

  /** Undefined when there are no more for now. */
  async next(): Promise<ServiceRecord | undefined> {
    for (;;) {
      for (let line = this.#take(); line; line = this.#take()) {
        const record = isIn(this.#range, line) ? parse(line, this.#service) : undefined
        if (record) return record
      }
      if (!(await this.#fill())) return undefined
    }
  }

  #take(): Buffer | undefined {
    return this.#lines[this.#at++]
  }

  async #fill(): Promise<boolean> {
    this.#lines = []
    this.#at = 0
    for (;;) {
      const lines = await this.#reader?.next()
      if (lines) {
        this.#lines = lines
        return true
      }
      const next = this.#nextPart()
      if (!next) return false
      // lines written between the end of the part and the listing of the folder
      const rest = await this.#reader?.next()
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
    return this.#parts().find((part) => {
      if (!current) return true
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
      const reader = readPart(join(this.#dir, part.name), part.isCompressed)
      if (!Number.isFinite(part.seq)) part.seq = nextSeq(this.#dir, part.day)
      return reader
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

function parse(line: Buffer, service: string): ServiceRecord | undefined {
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
      const reader = new ServiceReader(this.#logs, name, this.#range)
      this.#open.set(name, reader)
      return reader
    })
  }

  close(): void {
    for (const reader of this.all) reader.close()
  }
}

/** Everything that exists now, oldest first. */
async function* merge(readers: ServiceReader[], signal: AbortSignal) {
  const heads: { record: ServiceRecord; reader: ServiceReader }[] = []
  const pull = async (reader: ServiceReader): Promise<void> => {
    const record = await reader.next()
    if (record) heads.push({ record, reader })
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
    yield head.record
    await pull(head.reader)
  }
}

export async function* readServiceLogs(
  settings: AgentSettings,
  query: ServiceLogQuery,
): AsyncGenerator<ServiceRecord | GoneRecord> {
  const { follow, signal, tail, until } = query
  const readers = new Readers(settings, query)
  try {
    for (const reader of readers.openNew()) {
      const isEnough = tail !== undefined && (await reader.seekTail(tail))
      const gone = isEnough ? undefined : reader.gone()
      if (gone) yield gone
    }
    yield* merge(readers.all, signal)
    let relistAt = performance.now() + SERVICE_LOGS.relistMs
    while (follow && !signal.aborted && !(until && Date.now() >= until.getTime())) {
      await delay(SERVICE_LOGS.followMs, undefined, { signal }).catch(() => undefined)
      if (performance.now() >= relistAt) {
        readers.openNew()
        relistAt = performance.now() + SERVICE_LOGS.relistMs
      }
      yield* merge(readers.all, signal)
    }
  } finally {
    readers.close()
  }
}
