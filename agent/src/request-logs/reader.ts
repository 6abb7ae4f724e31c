// Reads the requests to one environment from the proxy's log, which has those of every environment of the server: pages
// backwards, and forwards, then live. Invariants: a line is shown only to the environment that held its hostname at that
// time; work and memory of a page are bounded; positions survive that the proxy sets files aside and compresses them.
import { existsSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { LOG_PAGES } from '../limits/log-pages.ts'
import type { Masker } from '../machine/masking/mask.ts'
import { readHolders } from '../proxy/host-holders.ts'
import { edgePaths } from '../proxy/paths.ts'
import { isBelow, readTable } from '../proxy/table.ts'
import { findLineEnd, scanBack } from '../service-logs/back-scan.ts'
import { openMasker } from '../service-logs/known-secrets.ts'
import { type PartLine, readPart } from '../service-logs/lines.ts'
import { PART_END } from '../service-logs/positions.ts'
import type { AgentSettings } from '../settings.ts'
import { listRequestLogs, type RequestLogFile } from './files.ts'
import { parseRequest, type RequestRecord, requestTimeOf } from './records.ts'

/** Undefined: there is a log of requests. */
export function findRequestLogProblem(settings: AgentSettings): 'no_proxy' | 'off' | undefined {
  const hasTable = existsSync(edgePaths(settings).table)
  if (!hasTable || readTable(settings).mode === 'ports') return 'no_proxy'
  return settings.proxy.accessLog ? undefined : 'off'
}

export interface RequestPosition {
  /** Of the file. */
  id: string
  at: number
}

export const writeRequestCursor = (position: RequestPosition | undefined): string =>
  position ? `${position.id}.${position.at.toString(36)}` : ''

/** Undefined for a text that is no cursor. */
export function readRequestCursor(text: string): RequestPosition | undefined {
  const [, id, at] = /^([0-9a-f]{16})\.([0-9a-z]{1,9})$/.exec(text) ?? []
  return id === undefined || at === undefined ? undefined : { id, at: Number.parseInt(at, 36) }
}

interface RequestQuery {
  environmentId: number
  since?: Date | undefined
  until?: Date | undefined
  accept?: ((record: RequestRecord) => boolean) | undefined
  signal: AbortSignal
}

const toUs = (date: Date | undefined, otherwise: number): number =>
  date ? date.getTime() * 1_000 : otherwise

/** Picks the lines of one environment, by its hostnames of now and since when it has them. */
class Picker {
  readonly #query: RequestQuery
  readonly #masker: Masker
  readonly #settings: AgentSettings
  readonly #since: number
  #hosts: ReturnType<typeof hostsOf>

  constructor(settings: AgentSettings, query: RequestQuery) {
    this.#settings = settings
    this.#query = query
    this.#masker = openMasker(settings, query.environmentId)
    this.#since = toUs(query.since, 0)
    this.#hosts = hostsOf(settings, query.environmentId)
  }

  /** After a while the environment may have other hostnames. */
  refresh(): void {
    this.#hosts = hostsOf(this.#settings, this.#query.environmentId)
  }

  pick(line: Buffer): RequestRecord | undefined {
    const parsed = parseRequest(line)
    const held = parsed && this.#hosts.get(parsed.host)
    if (!held || parsed.timeUs < Math.max(held.sinceUs, this.#since)) return undefined
    const route = held.routes.find(({ path }) => isBelow(parsed.path, path))
    const path = this.#masker.maskText(parsed.path)
    const record = { ...parsed, path, service: route?.service ?? '' }
    return !this.#query.accept || this.#query.accept(record) ? record : undefined
  }
}

function hostsOf(settings: AgentSettings, environmentId: number) {
  const holders = readHolders(settings)
  const all = readTable(settings).environments[environmentId]?.routes ?? []
  const hosts = all.flatMap(({ host }) => {
    const holder = holders[host]
    if (holder?.environmentId !== environmentId) return []
    const routes = all
      .filter((route) => route.host === host)
      .sort((a, b) => b.path.length - a.path.length)
    return [[host, { sinceUs: holder.since * 1_000, routes }] as const]
  })
  return new Map(hosts)
}

export interface RequestPage {
  /** Oldest first. */
  records: RequestRecord[]
  older: RequestPosition | undefined
  newer: RequestPosition | undefined
  isLast: boolean
  searchedTo: number | undefined
}

/** A place among the files while a page is read. */
class BackReader {
  readonly #signal: AbortSignal
  #files: RequestLogFile[]
  #index: number
  #at: number

  constructor(files: RequestLogFile[], before: RequestPosition | undefined, signal: AbortSignal) {
    this.#files = files
    this.#signal = signal
    const last = files.at(-1)
    // a file that was removed has no lines, and none before it
    this.#index = before ? files.findIndex(({ id }) => id === before.id) : files.length - 1
    this.#at = before?.at ?? (last && !last.isCompressed ? findLineEnd(last.file) : PART_END)
  }

  get place(): RequestPosition | undefined {
    const id = this.#files[this.#index]?.id
    return id === undefined ? undefined : { id, at: this.#at }
  }

  async scan<T>(take: (line: Buffer) => T | undefined, most: number) {
    const { id, isCompressed, file } = this.#files[this.#index] as RequestLogFile
    const scanned = { file, isCompressed }
    const query = { take, most, signal: this.#signal }
    const result = await scanBack<T>(scanned, this.#at, query).catch((error) => {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
      return undefined
    })
    if (!result) {
      // the proxy just set it aside or compressed it
      this.#files = await listRequestLogs(file.slice(0, file.lastIndexOf('/')))
      this.#index = this.#files.findIndex((found) => found.id === id)
      return { found: [], bytes: 1, first: undefined }
    }
    this.#move(result.at)
    return result
  }

  /** Continues at an offset of the file that was read last. */
  return(place: RequestPosition): void {
    this.#index = this.#files.findIndex(({ id }) => id === place.id)
    this.#at = place.at
  }

  #move(at: number): void {
    this.#at = at
    if (at > 0) return
    this.#index -= 1
    this.#at = PART_END
  }
}

export async function readRequestsBefore(
  settings: AgentSettings,
  query: RequestQuery & { before?: RequestPosition | undefined; limit: number },
): Promise<RequestPage> {
  const { before, until, limit, signal } = query
  const reader = new BackReader(await listRequestLogs(edgePaths(settings).caddy), before, signal)
  const sinceUs = toUs(query.since, 0)
  if (until && !before) await seek(reader, toUs(until, 0))
  const newer = reader.place
  const picker = new Picker(settings, query)
  const records: RequestRecord[] = []
  let budget: number = LOG_PAGES.searchBytes
  let horizon: number | undefined
  let isBefore = false
  while (records.length < limit && budget > 0 && reader.place && !isBefore) {
    let newest = 0
    const take = (line: Buffer): RequestRecord | undefined => {
      newest = Math.max(newest, requestTimeOf(line) ?? 0)
      return picker.pick(line)
    }
    const { found, bytes, first } = await reader.scan(take, limit - records.length)
    records.unshift(...found.map(({ value }) => value))
    horizon = (first && requestTimeOf(first)) ?? horizon
    isBefore = newest > 0 && newest < sinceUs
    budget -= bytes + 1
  }
  const isLast = isBefore || !reader.place
  const isFull = records.length >= limit
  const searchedTo = isLast || isFull ? undefined : horizon
  return { records, older: isLast ? undefined : reader.place, newer, isLast, searchedTo }
}

/** Moves to the newest line that is older. */
async function seek(reader: BackReader, untilUs: number): Promise<void> {
  const isOlder = (line: Buffer): true | undefined =>
    (requestTimeOf(line) ?? untilUs) < untilUs ? true : undefined
  for (let place = reader.place; place; place = reader.place) {
    const [last] = (await reader.scan(isOlder, 1)).found
    if (last) return reader.return({ ...place, at: last.end })
  }
}

type Placed = { record: RequestRecord; after: RequestPosition } | { positions: RequestPosition }

/** Without `after`: from the first file that may have lines of the range. */
export async function* readRequestsAfter(
  settings: AgentSettings,
  query: RequestQuery & { after?: RequestPosition | undefined; follow: boolean },
): AsyncGenerator<Placed> {
  const { after, signal, follow } = query
  const folder = edgePaths(settings).caddy
  const picker = new Picker(settings, query)
  const untilUs = toUs(query.until, Number.POSITIVE_INFINITY)
  const sinceUs = toUs(query.since, 0)
  let files = await listRequestLogs(folder)
  let file = after
    ? (files.find(({ id }) => id === after.id) ?? files[0])
    : (files.findLast(({ firstUs }) => firstUs <= sinceUs) ?? files[0])
  let from = file && file.id === after?.id ? after.at : 0
  let misses = 0
  while (!signal.aborted) {
    if (file) {
      const { id } = file
      const placed = (line: PartLine): Placed | undefined => {
        const record = picker.pick(line.bytes)
        const isWanted = record && record.timeUs < untilUs
        return isWanted ? { record, after: { id, at: line.end } } : undefined
      }
      const reader = openReader(file, from)
      let at = from
      let next: RequestLogFile | undefined
      try {
        while (reader && !signal.aborted) {
          // looked for before the rest is read, so that no line comes in between
          files = await listRequestLogs(folder)
          const index = files.findIndex((found) => found.id === id)
          next = files[index + 1]
          for (let lines = await reader.next(); lines; lines = await reader.next()) {
            if (signal.aborted) return
            for (const line of lines) {
              at = line.end
              const item = placed(line)
              if (item) yield item
            }
          }
          if (signal.aborted) return
          yield { positions: { id, at } }
          if (next || !follow || Date.now() * 1_000 >= untilUs) break
          await pause(signal)
          picker.refresh()
        }
      } finally {
        reader?.close()
      }
      from = reader ? 0 : from
      if (next) {
        file = next
        continue
      }
    }
    misses += 1
    const isMissed = file !== undefined && from > 0 && misses < 5
    if (!isMissed && (!follow || Date.now() * 1_000 >= untilUs)) return
    await pause(signal)
    files = await listRequestLogs(folder)
    file = files.find(({ id }) => id === file?.id) ?? files[0]
  }
}

const pause = (signal: AbortSignal): Promise<unknown> =>
  delay(LOG_PAGES.requestFollowMs, undefined, { signal }).catch(() => undefined)

function openReader(file: RequestLogFile, from: number) {
  try {
    return readPart(file.file, file.isCompressed, from)
  } catch {
    return undefined // just set aside or compressed; it is listed again
  }
}
