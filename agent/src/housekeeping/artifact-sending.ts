// Answers OpenFile and OpenFiles: artifacts of the agent's store, looked up by their ids alone, compared with their
// records, then sent over the bulk connection, one with its length and digest, several one behind the other. Deliberately
// absent: paths. What cannot be sent whole is answered or cut with a reason; nobody ever gets less and takes it for all.
import { createHash } from 'node:crypto'
import { ARTIFACTS, TRANSFERS } from '@berth/shared'
import {
  AgentService,
  FileFrameSchema,
  type FileStatSchema,
  type OpenFile,
  openRawUpload,
  RequestErrorCode,
} from '@berth/shared/wire'
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { ClientWritableStream } from '@grpc/grpc-js'
import {
  ArtifactRefused,
  type OpenedArtifact,
  openArtifact,
  readArtifacts,
} from '../exec/artifact-reading.ts'
import { type BulkLine, room, type UploadEnd, uploadEnd } from '../link/bulk.ts'
import type { Answerers, ResponseBody } from '../link/requests.ts'
import { describeError, type Log } from '../log.ts'
import type { AgentSettings } from '../settings.ts'

type Frame = NonNullable<MessageInitShape<typeof FileFrameSchema>['frame']>
type Opened = Extract<OpenedArtifact, { kind: 'ok' }>

const CODES = {
  gone: RequestErrorCode.NOT_FOUND,
  expired: RequestErrorCode.EXPIRED,
  changed: RequestErrorCode.CHANGED,
  beyond: RequestErrorCode.REFUSED,
} as const

const failure = (code: RequestErrorCode, message: string): ResponseBody => ({
  case: 'error',
  value: { code, message },
})

const statOf = (opened: Opened): MessageInitShape<typeof FileStatSchema> => ({
  size: BigInt(opened.size),
  sha256: Buffer.from(opened.sha256, 'hex'),
  modified: timestampFromDate(opened.modifiedAt),
})

/** At most so many at once, whoever asks. */
export function createArtifactAnswerers(
  settings: AgentSettings,
  log: Log,
): Required<Pick<Answerers, 'openFile' | 'openFiles'>> {
  let sending = 0
  const isBusy = (): boolean => sending >= TRANSFERS.files
  /** Beside the answer: its reader waits for both. */
  const start = (transferId: string, sent: Promise<void>): void => {
    sending += 1
    sent
      .catch((error: unknown) =>
        log.info({ transferId, ...describeError(error) }, 'files were not sent'),
      )
      .finally(() => {
        sending -= 1
      })
  }
  return {
    async openFile({ body }, _signal, bulk) {
      if (body.case !== 'openFile') throw new Error('not a question for a file')
      const asked = body.value
      if (!asked.statOnly && isBusy()) return BUSY
      const opened = open(settings, asked)
      if (opened.kind !== 'ok') return failure(CODES[opened.kind], opened.message)
      if (asked.statOnly) opened.stream.destroy()
      else {
        const sent = upload(bulk, (out) => writeOne(out, asked, opened))
        start(
          asked.transferId,
          sent.finally(() => opened.stream.destroy()),
        )
      }
      return { case: 'fileStat', value: statOf(opened) }
    },
    async openFiles({ body }, _signal, bulk) {
      if (body.case !== 'openFiles') throw new Error('not a question for files')
      const { transferId, artifactIds } = body.value
      if (artifactIds.length > ARTIFACTS.files) {
        return failure(RequestErrorCode.REFUSED, 'The question names too many files.')
      }
      if (isBusy()) return BUSY
      const pieces = readArtifacts(settings, { artifactIds })
      try {
        const first = await pieces.next()
        const sent = upload(bulk, (out) => writeMany(out, transferId, first, pieces))
        start(
          transferId,
          sent.finally(() => pieces.return(undefined)),
        )
        return { case: 'fileStat', value: {} }
      } catch (error) {
        if (error instanceof ArtifactRefused) return failure(CODES[error.kind], error.message)
        throw error
      }
    },
  }
}

const BUSY = failure(RequestErrorCode.TOO_MANY, 'The agent is sending too many files.')

function open(settings: AgentSettings, asked: OpenFile): OpenedArtifact {
  const { artifactId, statOnly } = asked
  const offset = statOnly ? 0 : Number(asked.offset)
  const length = Number(asked.length)
  return openArtifact(settings, { artifactId, offset, ...(length > 0 ? { length } : {}) })
}

/** Each resolves, or is nothing, when there is room for more. */
interface Out {
  frame(frame: Frame): Promise<void> | undefined
  data(bytes: Buffer): Promise<void>
}

async function upload(bulk: BulkLine, write: (out: Out) => Promise<void>): Promise<void> {
  let end: UploadEnd | undefined
  const { client, done } = bulk.use(() => end?.cancel())
  try {
    const ended = Promise.withResolvers<void>()
    ended.promise.catch(() => undefined)
    const { sendFile } = AgentService.method
    const call = openRawUpload(client, AgentService, sendFile, (error) =>
      error ? ended.reject(error) : ended.resolve(),
    )
    end = uploadEnd(call)
    call.on('error', () => undefined) // told by the callback
    const stop = new AbortController()
    ended.promise.catch((error: unknown) => stop.abort(error))
    await write(outOf(call, end.opened, stop.signal))
    call.end()
    await ended.promise
  } catch (error) {
    end?.cancel()
    throw error
  } finally {
    done()
  }
}

function outOf(call: ClientWritableStream<Buffer>, left: () => void, signal: AbortSignal): Out {
  const pass = (bytes: Buffer): Promise<void> | undefined =>
    call.write(bytes, left) ? undefined : room(call, signal)
  return {
    frame: (frame) =>
      pass(Buffer.from(toBinary(FileFrameSchema, create(FileFrameSchema, { frame })))),
    async data(bytes) {
      signal.throwIfAborted()
      for (let at = 0; at < bytes.length; at += TRANSFERS.frameBytes) {
        await pass(encodeData(bytes.subarray(at, at + TRANSFERS.frameBytes)))
      }
    },
  }
}

async function writeOne(out: Out, asked: OpenFile, opened: Opened): Promise<void> {
  const { transferId, offset } = asked
  const rest = opened.size - Number(offset)
  const length = asked.length > 0n ? Math.min(rest, Number(asked.length)) : rest
  const stat = statOf(opened)
  await out.frame({ case: 'header', value: { transferId, stat, offset, length: BigInt(length) } })
  // the whole has its digest already, and its reader finds out whether this is it
  const hash = length < opened.size ? createHash('sha256') : undefined
  let sent = 0
  for await (const chunk of opened.stream as AsyncIterable<Buffer>) {
    hash?.update(chunk)
    sent += chunk.length
    await out.data(chunk)
  }
  if (sent !== length) {
    const message = `The copy of ${opened.path} is not the file that was collected. Run the action again.`
    await out.frame({ case: 'error', value: { code: RequestErrorCode.CHANGED, message } })
    return
  }
  const sha256 = hash?.digest() ?? Buffer.from(opened.sha256, 'hex')
  await out.frame({ case: 'end', value: { bytesSent: BigInt(sent), sha256 } })
}

async function writeMany(
  out: Out,
  transferId: string,
  first: IteratorResult<Buffer>,
  pieces: AsyncGenerator<Buffer>,
): Promise<void> {
  await out.frame({ case: 'header', value: { transferId } })
  let sent = 0
  try {
    for (let next = first; !next.done; next = await pieces.next()) {
      sent += next.value.length
      await out.data(next.value)
    }
  } catch (error) {
    if (!(error instanceof ArtifactRefused)) throw error
    const value = { code: CODES[error.kind], message: error.message }
    await out.frame({ case: 'error', value })
    return
  }
  await out.frame({ case: 'end', value: { bytesSent: BigInt(sent) } })
}

const DATA_TAG = (2 << 3) | 2

/** FileFrame{data}, copied once: the general encoder copies several times, and files are large. */
export function encodeData(bytes: Buffer): Buffer {
  const head = [DATA_TAG]
  let rest = bytes.length
  for (; rest > 0x7f; rest >>>= 7) head.push((rest & 0x7f) | 0x80)
  head.push(rest)
  return Buffer.concat([Buffer.from(head), bytes])
}
