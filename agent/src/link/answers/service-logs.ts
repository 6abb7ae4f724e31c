// Answers OpenContainerLogs: sends the output of services (service-logs/reader.ts) in batches over the bulk connection,
// then live. A slow reader slows down this reading, never the application. The stream ends with its reader, with the
// session, or after some hours.
import { LOG_SENDING } from '@berth/shared'
import {
  type ContainerLogBatchSchema,
  type ContainerLogFrame,
  ContainerLogFrameSchema,
  type ContainerLogLineSchema,
  LogSource,
  type OpenContainerLogs,
  RequestErrorCode,
} from '@berth/shared/wire'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { ClientWritableStream } from '@grpc/grpc-js'
import { describeError, type Log } from '../../log.ts'
import { environmentPaths } from '../../machine/files.ts'
import { listLoggedServices } from '../../service-logs/days.ts'
import { type GoneRecord, readServiceLogs, type ServiceRecord } from '../../service-logs/reader.ts'
import type { AgentSettings } from '../../settings.ts'
import { type BulkLine, drained, type UploadEnd, uploadEnd } from '../bulk.ts'
import type { Answerer } from '../requests.ts'

type Frame = NonNullable<MessageInitShape<typeof ContainerLogFrameSchema>['frame']>
type Batch = MessageInitShape<typeof ContainerLogBatchSchema>
type Line = MessageInitShape<typeof ContainerLogLineSchema>
type Call = ClientWritableStream<ContainerLogFrame>

/** Limits the number of concurrent streams for all clients together. */
export function createLogAnswerer(settings: AgentSettings, log: Log): Answerer {
  let sending = 0
  return async (request, _signal, bulk) => {
    if (request.body.case !== 'openContainerLogs') throw new Error('not a question for logs')
    const asked = request.body.value
    if (sending >= LOG_SENDING.streams) {
      const message = 'The agent is sending too many logs.'
      return { case: 'error', value: { code: RequestErrorCode.TOO_MANY, message } }
    }
    const { logs } = environmentPaths(settings, asked.environmentId)
    const known = listLoggedServices(logs)
    const wanted = asked.services
    const services = wanted.length > 0 ? known.filter((name) => wanted.includes(name)) : known
    sending += 1
    // sends concurrently with the answer, because the reader waits for both
    send(bulk, settings, asked)
      .catch((error: unknown) => {
        const { transferId } = asked
        log.debug({ transferId, ...describeError(error) }, 'logs were not sent to their end')
      })
      .finally(() => {
        sending -= 1
      })
    return { case: 'streamOpened', value: { services } }
  }
}

async function send(
  bulk: BulkLine,
  settings: AgentSettings,
  asked: OpenContainerLogs,
): Promise<void> {
  let end: UploadEnd | undefined
  const { client, done } = bulk.use(() => end?.cancel())
  const stop = new AbortController()
  try {
    const ended = Promise.withResolvers<void>()
    ended.promise.catch((error: unknown) => stop.abort(error))
    const call = client.sendContainerLogs((error) =>
      error ? ended.reject(error) : ended.resolve(),
    )
    end = uploadEnd(call)
    call.on('error', () => undefined) // the callback reports it
    await writeAll({ call, left: end.opened }, settings, asked, stop.signal)
    call.end()
    await ended.promise
  } catch (error) {
    end?.cancel()
    throw error
  } finally {
    stop.abort()
    done()
  }
}

async function writeAll(
  { call, left }: { call: Call; left: () => void },
  settings: AgentSettings,
  asked: OpenContainerLogs,
  stopped: AbortSignal,
): Promise<void> {
  const write = async (frame: Frame): Promise<void> => {
    stopped.throwIfAborted()
    const message = create(ContainerLogFrameSchema, { frame })
    if (!call.write(message, left)) await drained(call, stopped)
  }
  await write({ case: 'header', value: { transferId: asked.transferId } })
  const signal = AbortSignal.any([stopped, AbortSignal.timeout(LOG_SENDING.followMs)])
  const records = readServiceLogs(settings, {
    environmentId: asked.environmentId,
    services: asked.services.length > 0 ? asked.services : null,
    since: asked.since && timestampDate(asked.since),
    until: asked.until && timestampDate(asked.until),
    tail: asked.tail > 0 ? asked.tail : undefined,
    follow: asked.follow,
    signal,
  })
  for await (const value of inBatches(records, signal)) await write({ case: 'batch', value })
  stopped.throwIfAborted()
  await write({ case: 'end', value: { containerEnded: false } })
}

/**
 * A batch leaves by size or shortly after its first line; while nothing is written, an empty one leaves now and then.
 */
async function* inBatches(
  records: AsyncGenerator<ServiceRecord | GoneRecord>,
  signal: AbortSignal,
): AsyncGenerator<Batch> {
  const { batchBytes, batchMs, aliveMs } = LOG_SENDING
  let batch = new Collected()
  let next = records.next()
  for (;;) {
    const waitMs = batch.since === undefined ? aliveMs : batch.since + batchMs - performance.now()
    const got = await withinMs(next, waitMs, signal)
    if (got?.done) break
    if (got) {
      batch.add(got.value)
      next = records.next()
    }
    if (got && batch.bytes < batchBytes) continue
    yield batch.value
    batch = new Collected()
  }
  if (batch.since !== undefined) yield batch.value
}

class Collected {
  readonly value = { lines: [] as Line[], gone: [] as GoneRecord[] }
  bytes = 0
  /** Time of the first record. */
  since: number | undefined

  add(record: ServiceRecord | GoneRecord): void {
    this.since ??= performance.now()
    if ('kind' in record) {
      this.value.gone.push(record)
      return
    }
    const data = Buffer.from(record.text)
    this.bytes += data.length + record.service.length + 32
    this.value.lines.push({
      timeUs: toMicroseconds(record.t),
      service: record.service,
      source: record.s === 'err' ? LogSource.STDERR : LogSource.STDOUT,
      data,
      taskId: record.task,
    })
  }
}

function toMicroseconds(t: string): bigint {
  const fraction = /\.(\d+)Z$/.exec(t)?.[1] ?? ''
  const whole = Date.parse(t.replace(/\.\d+Z$/, 'Z'))
  const micros = Number(fraction.padEnd(6, '0').slice(0, 6))
  return Number.isNaN(whole) ? 0n : BigInt(whole) * 1_000n + BigInt(micros)
}

/** Undefined: it takes longer. */
async function withinMs<T>(
  promise: Promise<T>,
  ms: number,
  signal: AbortSignal,
): Promise<T | undefined> {
  const late = Promise.withResolvers<undefined>()
  const timer = setTimeout(() => late.resolve(undefined), Math.max(0, ms))
  const left = (): void => late.resolve(undefined)
  signal.addEventListener('abort', left, { once: true })
  try {
    return await Promise.race([promise, late.promise])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', left)
  }
}
