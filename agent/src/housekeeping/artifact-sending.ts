// Answers OpenFile: one artifact of the agent's store, looked up by its id alone, compared with its record, then sent over
// the bulk connection with its length and digest. Deliberately absent: paths. What cannot be sent whole is answered or cut
// with a reason; nobody ever gets less and takes it for all.
import { createHash } from 'node:crypto'
import { TRANSFERS } from '@berth/shared'
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
import { type OpenedArtifact, openArtifact } from '../exec/artifact-reading.ts'
import { type BulkLine, room, type UploadEnd, uploadEnd } from '../link/bulk.ts'
import type { Answerer, ResponseBody } from '../link/requests.ts'
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

/** At most so many files at once, whoever asks. */
export function createArtifactAnswerer(settings: AgentSettings, log: Log): Answerer {
  let sending = 0
  return async (request, _signal, bulk) => {
    if (request.body.case !== 'openFile') throw new Error('not a question for a file')
    const asked = request.body.value
    if (!asked.statOnly && sending >= TRANSFERS.files) {
      return failure(RequestErrorCode.TOO_MANY, 'The agent is sending too many files.')
    }
    const opened = open(settings, asked)
    if (opened.kind !== 'ok') return failure(CODES[opened.kind], opened.message)
    if (asked.statOnly) opened.stream.destroy()
    else {
      sending += 1
      // beside the answer: its reader waits for both
      send(bulk, asked, opened)
        .catch((error: unknown) => {
          opened.stream.destroy()
          log.info({ transferId: asked.transferId, ...describeError(error) }, 'a file was not sent')
        })
        .finally(() => {
          sending -= 1
        })
    }
    return { case: 'fileStat', value: statOf(opened) }
  }
}

function open(settings: AgentSettings, asked: OpenFile): OpenedArtifact {
  const { artifactId, statOnly } = asked
  const offset = statOnly ? 0 : Number(asked.offset)
  const length = Number(asked.length)
  return openArtifact(settings, { artifactId, offset, ...(length > 0 ? { length } : {}) })
}

async function send(bulk: BulkLine, asked: OpenFile, opened: Opened): Promise<void> {
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
    await writeAll({ call, left: end.opened }, asked, opened, stop.signal)
    call.end()
    await ended.promise
  } catch (error) {
    end?.cancel()
    throw error
  } finally {
    done()
  }
}

async function writeAll(
  { call, left }: { call: ClientWritableStream<Buffer>; left: () => void },
  asked: OpenFile,
  opened: Opened,
  signal: AbortSignal,
): Promise<void> {
  const { transferId, offset } = asked
  const rest = opened.size - Number(offset)
  const length = asked.length > 0n ? Math.min(rest, Number(asked.length)) : rest
  const pass = (bytes: Buffer): Promise<void> | undefined =>
    call.write(bytes, left) ? undefined : room(call, signal)
  const write = (frame: Frame): Promise<void> | undefined =>
    pass(Buffer.from(toBinary(FileFrameSchema, create(FileFrameSchema, { frame }))))
  const stat = statOf(opened)
  await write({ case: 'header', value: { transferId, stat, offset, length: BigInt(length) } })
  const hash = createHash('sha256')
  let sent = 0
  for await (const chunk of opened.stream as AsyncIterable<Buffer>) {
    signal.throwIfAborted()
    hash.update(chunk)
    sent += chunk.length
    for (let at = 0; at < chunk.length; at += TRANSFERS.frameBytes) {
      await pass(encodeData(chunk.subarray(at, at + TRANSFERS.frameBytes)))
    }
  }
  const sha256 = hash.digest()
  const isWhole = sent === opened.size
  const isSame = sent === length && (!isWhole || sha256.equals(Buffer.from(opened.sha256, 'hex')))
  if (isSame) await write({ case: 'end', value: { bytesSent: BigInt(sent), sha256 } })
  else {
    const message = `The copy of ${opened.path} is not the file that was collected. Run the action again.`
    await write({ case: 'error', value: { code: RequestErrorCode.CHANGED, message } })
  }
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
