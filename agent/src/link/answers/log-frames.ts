// Sends lines of logs in batches over the bulk connection. A slow reader slows down the reading of files, never an
// application. The stream ends with its reader, with the session, or after some hours.
import { LOG_SENDING } from '@berth/shared'
import {
  type ContainerLogBatchSchema,
  type ContainerLogFrame,
  ContainerLogFrameSchema,
  type ContainerLogLineSchema,
  LogSource,
} from '@berth/shared/wire'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import type { ClientWritableStream } from '@grpc/grpc-js'
import type { ServiceRecord } from '../../service-logs/reader.ts'
import { type BulkLine, drained, type UploadEnd, uploadEnd } from '../bulk.ts'

type Frame = NonNullable<MessageInitShape<typeof ContainerLogFrameSchema>['frame']>
export type LogBatch = MessageInitShape<typeof ContainerLogBatchSchema>
export type WriteFrame = (frame: Frame) => Promise<void>
type Call = ClientWritableStream<ContainerLogFrame>

/** `produce` writes everything between the header and the end of the stream. */
export async function sendLogFrames(
  bulk: BulkLine,
  transferId: string,
  produce: (write: WriteFrame, stopped: AbortSignal) => Promise<void>,
): Promise<void> {
  let end: UploadEnd | undefined
  const { client, done } = bulk.use(() => end?.cancel())
  const stop = new AbortController()
  try {
    const ended = Promise.withResolvers<void>()
    ended.promise.catch((error: unknown) => stop.abort(error))
    const call: Call = client.sendContainerLogs((error) =>
      error ? ended.reject(error) : ended.resolve(),
    )
    const upload = uploadEnd(call)
    end = upload
    call.on('error', () => undefined) // the callback reports it
    const write = async (frame: Frame): Promise<void> => {
      stop.signal.throwIfAborted()
      const message = create(ContainerLogFrameSchema, { frame })
      if (!call.write(message, upload.opened)) await drained(call, stop.signal)
    }
    await write({ case: 'header', value: { transferId } })
    await produce(write, stop.signal)
    stop.signal.throwIfAborted()
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

/** A batch that is being collected. */
export interface Collecting<T> {
  readonly value: LogBatch
  readonly bytes: number
  /** When its first line came; undefined while it is empty. */
  readonly since: number | undefined
  add(item: T): void
}

/**
 * A batch leaves by size or shortly after its first line; while nothing is written, an empty one leaves now and then.
 */
export async function* inBatches<T>(
  items: AsyncGenerator<T>,
  begin: () => Collecting<T>,
  signal: AbortSignal,
): AsyncGenerator<LogBatch> {
  const { batchBytes, batchMs, aliveMs } = LOG_SENDING
  let batch = begin()
  let sentAt = performance.now()
  let next = items.next()
  for (;;) {
    const now = performance.now()
    const waitMs = (batch.since === undefined ? sentAt + aliveMs : batch.since + batchMs) - now
    const got = await withinMs(next, waitMs, signal)
    if (got?.done) break
    if (got) {
      batch.add(got.value)
      next = items.next()
    }
    const isDue = batch.since !== undefined && performance.now() >= batch.since + batchMs
    if (got && batch.bytes < batchBytes && !isDue) continue
    yield batch.value
    sentAt = performance.now()
    batch = begin()
  }
  if (batch.since !== undefined) yield batch.value
}

export const toLine = (record: ServiceRecord): MessageInitShape<typeof ContainerLogLineSchema> => ({
  timeUs: toMicroseconds(record.t),
  service: record.service,
  source: record.s === 'err' ? LogSource.STDERR : LogSource.STDOUT,
  data: Buffer.from(record.text),
  taskId: record.task,
})

export function toMicroseconds(t: string): bigint {
  const fraction = /\.(\d+)Z?$/.exec(t)?.[1] ?? ''
  const whole = Date.parse(`${t.replace(/(?:\.\d+)?Z?$/, '')}Z`)
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
