// Answers OpenFile and OpenFiles: looks up artifacts by their ids alone (never by paths), compares them with their
// records and sends them over a bulk connection, one with its length and digest, several one after the other. An
// incomplete transfer is answered or aborted with a reason, so that no reader takes a part for the whole.
import { createHash } from 'node:crypto'
import { ARTIFACTS, TRANSFERS } from '@berth/shared'
import { type FileStatSchema, type OpenFile, RequestErrorCode } from '@berth/shared/wire'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import {
  ArtifactRefused,
  type BorrowedArtifact,
  borrowArtifact,
  borrowArtifacts,
} from '../../files/reading.ts'
import { describeError, type Log } from '../../log.ts'
import type { AgentSettings } from '../../settings.ts'
import type { Answerers, ResponseBody } from '../requests.ts'
import { type Out, upload } from '../uploads.ts'

type Opened = Extract<BorrowedArtifact, { kind: 'ok' }>

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

/** Limits the number of concurrent transfers for all clients together. */
export function createArtifactAnswerers(
  settings: AgentSettings,
  log: Log,
): Required<Pick<Answerers, 'openFile' | 'openFiles'>> {
  let sending = 0
  const isBusy = (): boolean => sending >= TRANSFERS.files
  /** Sends concurrently with the answer, because the reader waits for both. */
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
        const sent = upload(bulk, asked.fileLine, (out) => writeOne(out, asked, opened))
        start(
          asked.transferId,
          sent.finally(() => opened.stream.destroy()),
        )
      }
      return { case: 'fileStat', value: statOf(opened) }
    },
    async openFiles({ body }, _signal, bulk) {
      if (body.case !== 'openFiles') throw new Error('not a question for files')
      const { transferId, artifactIds, fileLine } = body.value
      if (artifactIds.length > ARTIFACTS.files) {
        return failure(RequestErrorCode.REFUSED, 'The question names too many files.')
      }
      if (isBusy()) return BUSY
      const pieces = borrowArtifacts(settings, { artifactIds })
      try {
        const first = await pieces.next()
        const sent = upload(bulk, fileLine, (out) => writeMany(out, transferId, first, pieces))
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

function open(settings: AgentSettings, asked: OpenFile): BorrowedArtifact {
  const { artifactId, statOnly } = asked
  const offset = statOnly ? 0 : Number(asked.offset)
  const length = Number(asked.length)
  return borrowArtifact(settings, { artifactId, offset, ...(length > 0 ? { length } : {}) })
}

async function writeOne(out: Out, asked: OpenFile, opened: Opened): Promise<void> {
  const { transferId, offset } = asked
  const rest = opened.size - Number(offset)
  const length = asked.length > 0n ? Math.min(rest, Number(asked.length)) : rest
  const stat = statOf(opened)
  await out.frame({ case: 'header', value: { transferId, stat, offset, length: BigInt(length) } })
  // a complete file already has its digest, which the reader verifies
  const hash = length < opened.size ? createHash('sha256') : undefined
  let sent = 0
  for await (const chunk of opened.stream) {
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
