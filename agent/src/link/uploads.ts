// One outgoing transfer of files, as a call on the bulk connection or on a bulk transfer; senders see the same
// interface: frames, bytes, and back-pressure. Invariant: resolves only after the control plane confirmed that
// everything arrived.
import type { TLSSocket } from 'node:tls'
import { TRANSFERS } from '@berth/shared'
import {
  AgentService,
  dataHead,
  encodeBytes,
  encodeMessage,
  FileFrameSchema,
  LineParser,
  openRawUpload,
  SendFileResponseSchema,
} from '@berth/shared/wire'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import type { ClientWritableStream } from '@grpc/grpc-js'
import { type BulkLine, drained, flushed, type UploadEnd, uploadEnd } from './bulk.ts'

type Frame = NonNullable<MessageInitShape<typeof FileFrameSchema>['frame']>

/** Each resolves, or returns nothing, when there is space for more. */
export interface Out {
  frame(frame: Frame): Promise<void> | undefined
  /** Afterwards the caller may reuse the buffer. */
  data(bytes: Buffer): Promise<void>
}

type Write = (out: Out) => Promise<void>

/** `fileLine`: the peer accepts a bulk transfer, and the size is worth one. */
export async function upload(bulk: BulkLine, fileLine: boolean, write: Write): Promise<void> {
  const socket = fileLine ? await bulk.openFileLine() : undefined
  return socket ? uploadOnLine(socket, write) : uploadByCall(bulk, write)
}

async function uploadByCall(bulk: BulkLine, write: Write): Promise<void> {
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
    call.on('error', () => undefined) // the callback reports it
    const stop = new AbortController()
    ended.promise.catch((error: unknown) => stop.abort(error))
    await write(callOut(call, end.opened, stop.signal))
    call.end()
    await ended.promise
  } catch (error) {
    end?.cancel()
    throw error
  } finally {
    done()
  }
}

const DATA = FileFrameSchema.field.data.number

const encode = (frame: Frame): Buffer =>
  Buffer.from(toBinary(FileFrameSchema, create(FileFrameSchema, { frame })))

function callOut(call: ClientWritableStream<Buffer>, left: () => void, signal: AbortSignal): Out {
  const pass = (bytes: Buffer): Promise<void> | undefined =>
    call.write(bytes, left) ? undefined : drained(call, signal)
  return {
    frame: (frame) => pass(encode(frame)),
    async data(bytes) {
      signal.throwIfAborted()
      for (let at = 0; at < bytes.length; at += TRANSFERS.frameBytes) {
        await pass(encodeBytes(DATA, bytes.subarray(at, at + TRANSFERS.frameBytes)))
      }
    },
  }
}

async function uploadOnLine(socket: TLSSocket, write: Write): Promise<void> {
  const stop = new AbortController()
  try {
    const received = answerOf(socket)
    received.catch((error: unknown) => stop.abort(error))
    await write(lineOut(socket, stop.signal))
    await received // the reader may take its time for the rest; the connection ends with the session
  } finally {
    socket.destroy()
  }
}

function lineOut(socket: TLSSocket, signal: AbortSignal): Out {
  return {
    frame: (frame) => flushed(socket, encodeMessage(encode(frame)), signal),
    async data(bytes) {
      for (let at = 0; at < bytes.length; at += TRANSFERS.frameBytes) {
        const piece = bytes.subarray(at, at + TRANSFERS.frameBytes)
        if (at % TRANSFERS.lineRecordBytes === 0) {
          // separately, because writing both together would copy the data
          socket.write(dataHead(Math.min(bytes.length - at, TRANSFERS.lineRecordBytes)))
        }
        await flushed(socket, piece, signal)
      }
    },
  }
}

/** Rejects when the connection ends without an answer. */
function answerOf(socket: TLSSocket): Promise<void> {
  return new Promise((resolve, reject) => {
    const parser = new LineParser({
      message: (bytes) => {
        if (fromBinary(SendFileResponseSchema, bytes).complete) resolve()
        else reject(new Error('the control plane did not take it'))
      },
      data: () => reject(new Error('the control plane sent bytes of a file')),
    })
    socket.on('close', () => reject(new Error('the connection was cut')))
    socket.on('data', (chunk: Buffer) => {
      try {
        parser.take(chunk)
      } catch (error) {
        reject(error)
      }
    })
  })
}
