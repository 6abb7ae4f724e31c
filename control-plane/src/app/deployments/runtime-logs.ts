// Lines of services and of the proxy's request log, read on the server by its agent: pages in both directions, live, and
// as a text file. A caller who may read the environment may read them. Nothing is stored here.
import {
  AppError,
  type LogLevel,
  type LogLevelFilter,
  levelOf,
  RUNTIME_LOGS,
  type StatusClass,
  stripEscapes,
} from '@berth/shared'
import { type ContainerLogBatch, LogKind, OpenLogPageSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { loadEnvironment } from '../core/access.ts'
import { receiveLogFrames } from './agent-logs.ts'
import { type ServiceLogRecord, toRecords, toTime } from './service-logs.ts'

/** Which lines of the services or of the request log of an environment. An empty list: all of them. */
export interface LogSelection {
  log: 'services' | 'requests'
  services: string[]
  levels: LogLevelFilter[]
  statuses: StatusClass[]
  search: string
  since: Date | undefined
  until: Date | undefined
}

export interface RequestLogRecord {
  t: string
  method: string
  host: string
  path: string
  status: number
  duration_ms: number
  size: number
  client: string
  service: string
}

type LeveledLine = Exclude<ServiceLogRecord, { kind: 'gone' }> & { level: LogLevel | null }
export type RuntimeRecord =
  | LeveledLine
  | RequestLogRecord
  | Extract<ServiceLogRecord, { kind: 'gone' }>

export interface LogPlace {
  /** Null: nothing is older. */
  older: string | null
  newer: string
  isLast: boolean
  /** The time that a search got to when it ended early; it continues at `older`. */
  searchedTo: string | null
}

interface LogChunk {
  records: RuntimeRecord[]
  /** The position after these lines, while reading forwards. */
  cursor: string
  /** Of a page that is complete now. */
  place: LogPlace | undefined
}

interface LinesRequest {
  /** Empty: the end, or forwards the beginning. */
  cursor: string
  forwards: boolean
  follow: boolean
  /** 0: all of them, forwards only. */
  limit: number
  signal: AbortSignal
}

async function* readLines(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  selection: LogSelection,
  { signal, ...asked }: LinesRequest,
): AsyncGenerator<LogChunk, void, undefined> {
  const { serverId } = await loadEnvironment(ctx.db, caller, environmentId, 'read')
  const { log, since, until, ...filters } = selection
  const toBody = (transferId: string) => ({
    case: 'openLogPage' as const,
    value: create(OpenLogPageSchema, {
      transferId,
      environmentId,
      kind: log === 'services' ? LogKind.SERVICES : LogKind.REQUESTS,
      ...filters,
      ...asked,
      ...(since ? { since: timestampFromDate(since) } : {}),
      ...(until ? { until: timestampFromDate(until) } : {}),
    }),
  })
  for await (const frame of receiveLogFrames(ctx, serverId, toBody, signal)) {
    if (frame.case === 'batch') {
      yield { records: toRuntimeRecords(frame.value), cursor: frame.value.cursor, place: undefined }
    } else if (frame.case === 'end') {
      const { older, newer, isLast, searchedUs } = frame.value
      const isOldest = asked.forwards ? older === '' : isLast
      const searchedTo = searchedUs > 0n ? toTime(searchedUs) : null
      const place = { older: isOldest ? null : older, newer, isLast, searchedTo }
      yield { records: [], cursor: newer, place }
    }
  }
}

/** The lines before or after a position, oldest first. */
export async function readLogPage(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  selection: LogSelection,
  request: { before?: string; after?: string; limit: number; signal: AbortSignal },
): Promise<LogPlace & { records: RuntimeRecord[] }> {
  const { before, after, limit, signal } = request
  const asked = { cursor: after ?? before ?? '', forwards: after !== undefined, follow: false }
  const records: RuntimeRecord[] = []
  let place: LogPlace | undefined
  const chunks = readLines(ctx, caller, environmentId, selection, { ...asked, limit, signal })
  for await (const chunk of chunks) {
    records.push(...chunk.records)
    place = chunk.place ?? place
  }
  if (!place) throw new AppError('server_offline', 'The connection to the server broke. Try again.')
  return { ...place, records }
}

/** New lines after a position, as they are written. No records from time to time shows that the stream lives. */
export async function* followLog(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  selection: LogSelection,
  request: { after: string; signal: AbortSignal },
): AsyncGenerator<{ records: RuntimeRecord[]; cursor: string }, void, undefined> {
  const asked = { cursor: request.after, forwards: true, follow: true, limit: 0 }
  const { signal } = request
  for await (const chunk of readLines(ctx, caller, environmentId, selection, {
    ...asked,
    signal,
  })) {
    yield { records: chunk.records, cursor: chunk.cursor }
  }
}

/** The selected lines as text, oldest first; a range that is too long ends with a sentence that says so. */
export async function* writeLogText(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  selection: LogSelection,
  { signal, most = RUNTIME_LOGS.downloadBytes }: { signal: AbortSignal; most?: number },
): AsyncGenerator<string, void, undefined> {
  const asked = { cursor: '', forwards: true, follow: false, limit: 0, signal }
  let bytes = 0
  for await (const { records } of readLines(ctx, caller, environmentId, selection, asked)) {
    const text = records.map(toTextLine).join('')
    if (text === '') continue
    bytes += Buffer.byteLength(text)
    if (bytes > most) {
      yield `The file ends here, at ${Math.round(most / 1_048_576)} MB. Choose a shorter time.\n`
      return
    }
    yield text
  }
}

function toTextLine(record: RuntimeRecord): string {
  if ('kind' in record)
    return `Lines of ${record.service} from ${record.days} are no longer stored.\n`
  if ('method' in record) {
    const { t, client, method, host, path, status, duration_ms, size } = record
    return `${t} ${client} ${method} ${host}${path} ${status} ${duration_ms}ms ${size}B\n`
  }
  return `${record.t} ${record.service} ${stripEscapes(record.text)}\n`
}

const toRuntimeRecords = (batch: ContainerLogBatch): RuntimeRecord[] => [
  ...toRecords(batch).map((record) =>
    'kind' in record ? record : { ...record, level: levelOf(record.text) },
  ),
  ...batch.requests.map(({ timeUs, durationUs, size, ...request }) => ({
    t: toTime(timeUs),
    method: request.method,
    host: request.host,
    path: request.path,
    status: request.status,
    duration_ms: Number(durationUs) / 1_000,
    size: Number(size),
    client: request.client,
    service: request.service,
  })),
]
