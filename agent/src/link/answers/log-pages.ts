// Answers OpenLogPage: a page of lines of services or of requests, backwards or forwards, and live. Lines that do not
// match are left out here, so that hours of logs need not travel.
import { createLineFilter, LOG_LEVEL_FILTERS, LOG_SENDING, statusClassOf } from '@berth/shared'
import {
  type ContainerLogEndSchema,
  LogKind,
  type OpenLogPage,
  RequestErrorCode,
  type RequestLogLineSchema,
} from '@berth/shared/wire'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { LOG_PAGES } from '../../limits/log-pages.ts'
import { describeError, type Log } from '../../log.ts'
import {
  findRequestLogProblem,
  type RequestPosition,
  readRequestCursor,
  readRequestsAfter,
  readRequestsBefore,
  writeRequestCursor,
} from '../../request-logs/reader.ts'
import { type RequestRecord, requestText } from '../../request-logs/records.ts'
import { openMasker } from '../../service-logs/known-secrets.ts'
import { readPageBefore } from '../../service-logs/pages.ts'
import {
  type Cursor,
  type LogPosition,
  readCursor,
  writeCursor,
} from '../../service-logs/positions.ts'
import {
  type GoneRecord,
  type PlacedRecord,
  readPlacedLogs,
  type ServiceRecord,
} from '../../service-logs/reader.ts'
import type { AgentSettings } from '../../settings.ts'
import type { Answerer, ResponseBody } from '../requests.ts'
import {
  type Collecting,
  inBatches,
  type LogBatch,
  sendLogFrames,
  toLine,
  toMicroseconds,
  type WriteFrame,
} from './log-frames.ts'

type End = MessageInitShape<typeof ContainerLogEndSchema>

const refuse = (code: RequestErrorCode, message: string): ResponseBody => ({
  case: 'error',
  value: { code, message },
})

/** Limits the number of concurrent answers for all clients together. */
export function createLogPageAnswerer(settings: AgentSettings, log: Log): Answerer {
  let sending = 0
  let paging = 0
  return async (request, _signal, bulk) => {
    if (request.body.case !== 'openLogPage') throw new Error('not a question for a page of a log')
    const asked = request.body.value
    const problem = asked.kind === LogKind.REQUESTS && findRequestLogProblem(settings)
    if (problem === 'no_proxy') {
      return refuse(RequestErrorCode.NO_PROXY, 'This server has no proxy.')
    }
    if (problem === 'off') return refuse(RequestErrorCode.LOG_OFF, 'The log of requests is off.')
    const isKnown = asked.kind === LogKind.SERVICES || asked.kind === LogKind.REQUESTS
    if (!isKnown) return refuse(RequestErrorCode.UNSUPPORTED, 'This agent has no such log.')
    const read =
      asked.kind === LogKind.SERVICES ? serviceLines(settings, asked) : requests(settings, asked)
    if (!read) return refuse(RequestErrorCode.NOT_FOUND, 'The cursor is not one of this log.')
    const isPage = !asked.forwards
    if (sending >= LOG_SENDING.streams || (isPage && paging >= LOG_PAGES.atOnce)) {
      return refuse(RequestErrorCode.TOO_MANY, 'The agent is sending too many logs.')
    }
    sending += 1
    paging += isPage ? 1 : 0
    const { transferId } = asked
    sendLogFrames(bulk, transferId, (write, stopped) => {
      const signal = AbortSignal.any([stopped, AbortSignal.timeout(LOG_SENDING.followMs)])
      return read(write, signal)
    })
      .catch((error: unknown) =>
        log.debug({ transferId, ...describeError(error) }, 'a page of a log was not sent'),
      )
      .finally(() => {
        sending -= 1
        paging -= isPage ? 1 : 0
      })
    return { case: 'streamOpened', value: { services: asked.services } }
  }
}

type Send = (write: WriteFrame, signal: AbortSignal) => Promise<void>

const rangeOf = ({ environmentId, since, until }: OpenLogPage) => ({
  environmentId,
  since: since && timestampDate(since),
  until: until && timestampDate(until),
})

const limitOf = ({ limit, forwards }: OpenLogPage): number => {
  if (forwards) return limit === 0 ? Number.POSITIVE_INFINITY : limit
  return Math.min(limit || LOG_PAGES.lines, LOG_PAGES.lines)
}

/** Undefined: the cursor is not one of these. */
function serviceLines(settings: AgentSettings, asked: OpenLogPage): Send | undefined {
  const cursor = readCursor(asked.cursor)
  if (!cursor) return undefined
  const levels = LOG_LEVEL_FILTERS.filter((level) => asked.levels.includes(level))
  const services = asked.services.length > 0 ? asked.services : null
  const accept = createLineFilter({ search: asked.search, levels })
  const query = { ...rangeOf(asked), services, accept }
  const masker = openMasker(settings, asked.environmentId)
  const masked = (record: ServiceRecord): ServiceRecord => ({
    ...record,
    text: masker.maskText(record.text),
  })
  if (asked.forwards) {
    return async (write, signal) => {
      const records = readPlacedLogs(settings, {
        ...query,
        after: asked.cursor === '' ? undefined : cursor,
        follow: asked.follow,
        signal,
      })
      const places = new Map(cursor)
      const begin = () => collectServices(places, masked)
      await sendForwards(write, signal, asked, records, begin, () => writeCursor(places))
    }
  }
  return async (write, signal) => {
    const before = asked.cursor === '' ? undefined : cursor
    const page = await readPageBefore(settings, { ...query, before, limit: limitOf(asked), signal })
    const { gone } = page
    if (gone.length > 0) await write({ case: 'batch', value: { gone } })
    const lines = page.records.map((record) => toLine(masked(record)))
    await sendLines(
      write,
      lines,
      (part) => ({ lines: part }),
      ({ data }) => data?.length ?? 0,
    )
    await end(write, {
      older: writeCursor(page.older),
      newer: writeCursor(page.newer),
      isLast: page.isLast,
      searchedUs: page.searchedTo === undefined ? 0n : toMicroseconds(page.searchedTo),
    })
  }
}

function requests(settings: AgentSettings, asked: OpenLogPage): Send | undefined {
  const cursor = readRequestCursor(asked.cursor)
  if (asked.cursor !== '' && !cursor) return undefined
  const wanted = asked.search.toLowerCase()
  const { statuses } = asked
  const accept = (record: RequestRecord): boolean =>
    (statuses.length === 0 || statuses.includes(statusClassOf(record.status) ?? '')) &&
    (asked.services.length === 0 || asked.services.includes(record.service)) &&
    (wanted === '' || requestText(record).toLowerCase().includes(wanted))
  const query = { ...rangeOf(asked), accept }
  if (asked.forwards) {
    return async (write, signal) => {
      const { follow } = asked
      const records = readRequestsAfter(settings, { ...query, after: cursor, follow, signal })
      const place = { current: cursor }
      const begin = () => collectRequests(place)
      await sendForwards(write, signal, asked, records, begin, () =>
        writeRequestCursor(place.current),
      )
    }
  }
  return async (write, signal) => {
    const limit = limitOf(asked)
    const page = await readRequestsBefore(settings, { ...query, before: cursor, limit, signal })
    const lines = page.records.map(toRequestLine)
    await sendLines(write, lines, (part) => ({ requests: part }), sizeOfRequest)
    await end(write, {
      older: writeRequestCursor(page.older),
      newer: writeRequestCursor(page.newer),
      isLast: page.isLast,
      searchedUs: BigInt(page.searchedTo ?? 0),
    })
  }
}

const end = (write: WriteFrame, value: End): Promise<void> => write({ case: 'end', value })

async function sendLines<T>(
  write: WriteFrame,
  lines: T[],
  toBatch: (lines: T[]) => LogBatch,
  sizeOf: (line: T) => number,
): Promise<void> {
  let part: T[] = []
  let bytes = 0
  for (const line of lines) {
    part.push(line)
    bytes += sizeOf(line) + 64
    if (bytes < LOG_SENDING.batchBytes) continue
    await write({ case: 'batch', value: toBatch(part) })
    part = []
    bytes = 0
  }
  if (part.length > 0) await write({ case: 'batch', value: toBatch(part) })
}

async function sendForwards<T>(
  write: WriteFrame,
  signal: AbortSignal,
  asked: OpenLogPage,
  items: AsyncGenerator<T>,
  begin: () => Collecting<T>,
  place: () => string,
): Promise<void> {
  const most = limitOf(asked)
  const cut = takeRecords(items, most)
  for await (const value of inBatches(cut.items, begin, signal)) {
    await write({ case: 'batch', value })
  }
  await end(write, { older: asked.cursor, newer: place(), isLast: !cut.isFull() })
}

/** Ends after so many lines; positions alone do not count. */
function takeRecords<T>(items: AsyncGenerator<T>, most: number) {
  let count = 0
  async function* taken(): AsyncGenerator<T> {
    for await (const item of items) {
      if (typeof item === 'object' && item !== null && 'record' in item) count += 1
      yield item
      if (count >= most) return
    }
  }
  return { items: taken(), isFull: () => count >= most }
}

/** `places` is where everything that was collected ends; a batch carries it as of its last line. */
function collectServices(
  places: Map<string, LogPosition>,
  masked: (record: ServiceRecord) => ServiceRecord,
): Collecting<PlacedRecord> {
  const lines: ReturnType<typeof toLine>[] = []
  const gone: GoneRecord[] = []
  return collecting<PlacedRecord>(
    { lines, gone },
    () => writeCursor(places as Cursor),
    (item) => {
      if ('positions' in item) {
        for (const [service, position] of item.positions) places.set(service, position)
        return undefined
      }
      if ('kind' in item.record) {
        gone.push(item.record)
        return 32
      }
      if ('after' in item && item.after) places.set(item.service, item.after)
      const line = toLine(masked(item.record as ServiceRecord))
      lines.push(line)
      return (line.data?.length ?? 0) + 64
    },
  )
}

type PlacedRequest =
  | { record: RequestRecord; after: RequestPosition }
  | { positions: RequestPosition }

function collectRequests(place: {
  current: RequestPosition | undefined
}): Collecting<PlacedRequest> {
  const lines: ReturnType<typeof toRequestLine>[] = []
  return collecting<PlacedRequest>(
    { requests: lines },
    () => writeRequestCursor(place.current),
    (item) => {
      place.current = 'positions' in item ? item.positions : item.after
      if ('positions' in item) return undefined
      const line = toRequestLine(item.record)
      lines.push(line)
      return sizeOfRequest(line) + 64
    },
  )
}

/** `put` returns the size of a line; undefined when there was none. */
function collecting<T>(
  value: LogBatch,
  place: () => string,
  put: (item: T) => number | undefined,
): Collecting<T> {
  let bytes = 0
  let since: number | undefined
  return {
    get value() {
      return { ...value, cursor: place() }
    },
    get bytes() {
      return bytes
    },
    get since() {
      return since
    },
    add(item) {
      const size = put(item)
      if (size === undefined) return
      since ??= performance.now()
      bytes += size
    },
  }
}

const toRequestLine = (r: RequestRecord): MessageInitShape<typeof RequestLogLineSchema> => ({
  timeUs: BigInt(r.timeUs),
  method: r.method,
  host: r.host,
  path: r.path,
  status: r.status,
  durationUs: BigInt(r.durationUs),
  size: BigInt(r.size),
  client: r.client,
  service: r.service,
})

const sizeOfRequest = ({ path = '', host = '' }: { path?: string; host?: string }): number =>
  path.length + host.length + 64
