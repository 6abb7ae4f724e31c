// Pages of the logs of services, backwards from a position of each service. Services are merged by time; a page ends when
// it is full, or when enough was searched. Invariants: a line is on exactly one page, independent of its time, because each
// service is read in the order of its files; no service runs ahead of one that is not searched as far back yet.
import { join } from 'node:path'
import { LOG_PAGES } from '../limits/log-pages.ts'
import { environmentPaths } from '../machine/files.ts'
import type { AgentSettings } from '../settings.ts'
import { findLineEnd, type ScanResult, scanBack } from './back-scan.ts'
import { compareParts, type LogPart, listLoggedServices, listNumberedParts } from './days.ts'
import { plainTime, timeOf } from './lines.ts'
import { type Cursor, type LogPosition, PART_END } from './positions.ts'
import {
  findGone,
  type GoneRecord,
  parseRecord,
  type Range,
  type ServiceRecord,
  toRange,
} from './reader.ts'

interface PageQuery {
  environmentId: number
  /** Null for all of them. */
  services: string[] | null
  /** Lines before these positions; absent: from the end. */
  before?: Cursor | undefined
  since?: Date | undefined
  /** Without `before`: begins with the newest line of each service that is older than this. */
  until?: Date | undefined
  limit: number
  accept?: ((text: string) => boolean) | undefined
  /** Searched for the page, of all services together. */
  searchBytes?: number
  signal: AbortSignal
}

export interface LogPage {
  /** Oldest first. */
  records: ServiceRecord[]
  gone: GoneRecord[]
  older: Cursor
  newer: Cursor
  /** Nothing is older. */
  isLast: boolean
  /** The time that a search got to, when it ended before the page was full. */
  searchedTo: string | undefined
}

interface Found {
  record: ServiceRecord
  /** After it. */
  end: LogPosition
}

function endOf(dir: string): LogPosition | undefined {
  const last = listNumberedParts(dir).at(-1)
  if (!last) return undefined
  const { name, day, seq, isCompressed } = last
  return { day, seq, at: isCompressed ? PART_END : findLineEnd(join(dir, name)) }
}

/** One service while a page is made. */
class ServiceScan {
  readonly service: string
  readonly dir: string
  readonly #query: PageQuery
  readonly #range: Range
  /** Not on the page yet; newest last. */
  found: Found[] = []
  /** Lines before it were not looked at; undefined: there are none. */
  position: LogPosition | undefined
  /** The time of the oldest line that was looked at. */
  horizon = '9999'

  constructor(dir: string, service: string, query: PageQuery) {
    this.service = service
    this.dir = dir
    this.#query = query
    this.#range = toRange(query)
    this.position = query.before ? query.before.get(service) : endOf(dir)
  }

  /** Moves to the newest line that is older than `until`. */
  async seek(): Promise<void> {
    const { until } = this.#range
    const isOlder = (line: Buffer): true | undefined =>
      (timeOf(line) ?? until) < until ? true : undefined
    while (this.position) {
      const { part, from, result } = await this.#scan(isOlder, 1)
      const last = result?.found.at(-1)
      if (last) this.position = { ...from, at: last.end }
      else this.#continue(part, result)
      if (last) return
    }
  }

  /** Looks one window further back; returns how many bytes it read. */
  async step(): Promise<number> {
    const { since } = this.#range
    let newest = ''
    const take = (line: Buffer): ServiceRecord | undefined => {
      const t = timeOf(line) ?? ''
      if (t > newest) newest = t
      const record = t < since ? undefined : parseRecord(line, this.service)
      return record && (!this.#query.accept || this.#query.accept(record.text)) ? record : undefined
    }
    const { part, from, result } = await this.#scan(take, this.#query.limit)
    const found = result?.found ?? []
    this.found.unshift(
      ...found.map(({ value, end }) => ({ record: value, end: { ...from, at: end } })),
    )
    this.horizon = (result?.first && timeOf(result.first)) ?? this.horizon
    this.#continue(part, result)
    if (newest !== '' && newest < since) this.position = undefined
    return result?.bytes ?? 0
  }

  async #scan<T>(take: (line: Buffer) => T | undefined, most: number) {
    const position = this.position ?? { day: '', seq: 0, at: 0 }
    const part = listNumberedParts(this.dir).findLast((p) => compareParts(p, position) <= 0)
    const from = { day: part?.day ?? '', seq: part?.seq ?? 0 }
    if (!part || part.day < this.#range.since.slice(0, 10)) {
      return { part: undefined, from, result: undefined }
    }
    const to = compareParts(part, position) === 0 ? position.at : PART_END
    const scanned = { file: join(this.dir, part.name), isCompressed: part.isCompressed }
    const { signal } = this.#query
    const result = await scanBack<T>(scanned, to, { take, most, signal }).catch((error) => {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      return undefined // just removed or compressed; the next step lists the folder again
    })
    return { part, from, result }
  }

  #continue<T>(part: LogPart | undefined, result: ScanResult<T> | undefined): void {
    if (!part) this.position = undefined
    if (!part || !result) return
    const { day, seq } = part
    if (result.at > 0) {
      this.position = { day, seq, at: result.at }
      return
    }
    const before = listNumberedParts(this.dir).findLast((p) => compareParts(p, part) < 0)
    this.position = before && { day: before.day, seq: before.seq, at: PART_END }
  }
}

const headTime = ({ found }: ServiceScan): string => plainTime(found.at(-1)?.record.t ?? '')

/** Looks further back in every service that could have the next line; false when enough was searched. */
async function fill(scans: ServiceScan[], budget: { bytes: number }): Promise<boolean> {
  for (const scan of scans) {
    while (scan.found.length === 0 && scan.position) {
      if (budget.bytes <= 0) return false
      budget.bytes -= (await scan.step()) + 1
    }
  }
  return true
}

/** The newest line of all services. */
function takeNewest(scans: ServiceScan[]): ServiceRecord | undefined {
  let newest: ServiceScan | undefined
  for (const scan of scans) {
    if (scan.found.length > 0 && (!newest || headTime(scan) >= headTime(newest))) newest = scan
  }
  return newest?.found.pop()?.record
}

export async function readPageBefore(settings: AgentSettings, query: PageQuery): Promise<LogPage> {
  const { logs } = environmentPaths(settings, query.environmentId)
  const { services, limit } = query
  const names = listLoggedServices(logs).filter((name) => !services || services.includes(name))
  const scans = names.map((name) => new ServiceScan(join(logs, name), name, query))
  if (query.until && !query.before) for (const scan of scans) await scan.seek()
  const newer = placesOf(scans)
  const budget = { bytes: query.searchBytes ?? LOG_PAGES.searchBytes }
  const records: ServiceRecord[] = []
  let bytes = 0
  let isSearched = false
  while (records.length < limit && bytes < LOG_PAGES.bytes) {
    query.signal.throwIfAborted()
    if (!(await fill(scans, budget))) {
      isSearched = true
      break
    }
    const record = takeNewest(scans)
    if (!record) break
    records.push(record)
    bytes += record.text.length
  }
  const isLast = scans.every(({ found, position }) => found.length === 0 && !position)
  const waiting = scans.filter(({ position }) => position).map(({ horizon }) => horizon)
  const range = toRange(query)
  return {
    records: records.reverse(),
    gone: isLast ? scans.flatMap(({ dir, service }) => findGone(dir, service, range) ?? []) : [],
    older: placesOf(scans),
    newer,
    isLast,
    searchedTo: isSearched
      ? waiting
          .filter((t) => t !== '9999')
          .sort()
          .at(-1)
      : undefined,
  }
}

/** Behind the lines that are not on the page yet; a service without older lines is left out. */
function placesOf(scans: ServiceScan[]): Cursor {
  const places = scans.flatMap(({ service, found, position }) => {
    const place = found.at(-1)?.end ?? position
    return place ? [[service, place] as const] : []
  })
  return new Map(places)
}
