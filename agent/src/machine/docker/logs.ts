// Reads logs of containers. The engine sends frames (8 bytes of header, then one record); a line over 16 KiB comes in
// parts. stdout and stderr have no common order.
import type { Readable } from 'node:stream'
import { ENGINE } from '../../limits/docker.ts'
import type { Engine } from './engine.ts'
import { EngineError, toEngineError } from './engine-error.ts'

export interface LogRecord {
  stream: 'out' | 'err'
  /** As the engine wrote it, with nanoseconds: `2026-11-15T11:20:03.123456789Z`. */
  at: string
  /** Ends with a newline, or the line continues in the next record of this stream. May be cut inside a character. */
  bytes: Buffer
}

interface Frame {
  fd: number
  bytes: Buffer
}

/** Demultiplexes; throws when the stream is malformed or ends inside a frame. */
export async function* readFrames(stream: Readable): AsyncGenerator<Frame> {
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    rest = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk
    let at = 0
    while (rest.length - at >= 8) {
      const fd = rest[at] ?? 0
      const size = rest.readUInt32BE(at + 4)
      if (fd > 2 || size > ENGINE.frameBytes)
        throw new EngineError('refused', 'a log without frames')
      if (rest.length - at < 8 + size) break
      yield { fd, bytes: rest.subarray(at + 8, at + 8 + size) }
      at += 8 + size
    }
    rest = rest.subarray(at)
  }
  if (rest.length > 0) throw new EngineError('unavailable', 'the log broke off')
}

const NEWLINE = Buffer.from('\n')

/**
 * The engine's `local` log driver drops the newline of a line that it cut. It cuts only at 16 KiB, and the parts of a
 * line have the same timestamp, so this function can restore the newline.
 */
export function toRecords(onRecord: (record: LogRecord) => void): (frame: Frame) => void {
  const cutAt: { out?: string | undefined; err?: string | undefined } = {}
  return ({ fd, bytes }) => {
    const stream = fd === 2 ? 'err' : 'out'
    const start = bytes.indexOf(0x20) + 1
    const at = bytes.toString('latin1', 0, Math.max(0, start - 1))
    const text = bytes.subarray(start)
    const before = cutAt[stream]
    if (before !== undefined && before !== at) onRecord({ stream, at: before, bytes: NEWLINE })
    const isLine = text.at(-1) === 0x0a
    const isPart = !isLine && text.length >= ENGINE.logCutBytes
    cutAt[stream] = isPart ? at : undefined
    onRecord({ stream, at, bytes: isLine || isPart ? text : Buffer.concat([text, NEWLINE]) })
  }
}

/** Seconds since the epoch with nanoseconds, as the engine expects them. */
export function toEngineTime(at: string): string {
  const [, whole = '', fraction = ''] = /^(.*?)(?:\.(\d+))?Z$/.exec(at) ?? []
  const ms = Date.parse(`${whole}Z`)
  if (Number.isNaN(ms)) throw new EngineError('refused', `${at} is no time of a log`)
  return `${Math.floor(ms / 1_000)}.${fraction.padEnd(9, '0').slice(0, 9)}`
}

interface LogQuery {
  follow: boolean
  since?: string | undefined
  tail?: number
  signal?: AbortSignal | undefined
}

/** Through `dial`, as the client reads a log that is not followed into one string. */
const openLog = (engine: Engine, id: string, { signal, since, ...query }: LogQuery) =>
  engine.dial<Readable>(
    {
      method: 'GET',
      path: `/containers/${encodeURIComponent(id)}/logs?`,
      options: {
        stdout: true,
        stderr: true,
        timestamps: true,
        ...(since === undefined ? {} : { since: toEngineTime(since) }),
        ...query,
      },
      isStream: true,
    },
    { signal },
  )

/** The last lines of both streams, as text of bounded size. Empty when there are none, or no container. */
export async function tailLogs(engine: Engine, id: string, lines: number): Promise<string> {
  const signal = AbortSignal.timeout(ENGINE.callMs)
  const kept: Buffer[] = []
  let size = 0
  const onFrame = toRecords(({ bytes }) => {
    kept.push(bytes)
    size += bytes.length
    while (size > ENGINE.tailBytes && kept.length > 1) size -= kept.shift()?.length ?? 0
  })
  try {
    const stream = await openLog(engine, id, { follow: false, tail: lines, signal })
    for await (const frame of readFrames(stream)) onFrame(frame)
  } catch (error) {
    const known = toEngineError(error)
    if (known.kind !== 'not_found') throw known
  }
  return Buffer.concat(kept).toString('utf8')
}

export interface FollowOptions {
  /** Records of this instant and later. */
  since?: string | undefined
  signal?: AbortSignal
  onRecord: (record: LogRecord) => void
}

/** Resolves when the container ends or the signal fires; throws when the connection breaks. */
export async function followLogs(
  engine: Engine,
  id: string,
  { since, signal, onRecord }: FollowOptions,
): Promise<void> {
  const onFrame = toRecords(onRecord)
  try {
    const stream = await openLog(engine, id, { follow: true, since, signal })
    for await (const frame of readFrames(stream)) onFrame(frame)
  } catch (error) {
    if (!signal?.aborted) throw toEngineError(error, signal)
  }
}

export interface ReadToEndOptions {
  since?: string | undefined
  timeoutMs?: number
  onRecord: (record: LogRecord) => void
}

/** Reads everything there is now. False when the time was too short. */
export async function readLogsToEnd(
  engine: Engine,
  id: string,
  { since, timeoutMs = ENGINE.logEndMs, onRecord }: ReadToEndOptions,
): Promise<boolean> {
  const signal = AbortSignal.timeout(timeoutMs)
  const onFrame = toRecords(onRecord)
  try {
    const stream = await openLog(engine, id, { follow: false, since, signal })
    for await (const frame of readFrames(stream)) onFrame(frame)
    return true
  } catch (error) {
    if (signal.aborted) return false
    throw toEngineError(error)
  }
}
