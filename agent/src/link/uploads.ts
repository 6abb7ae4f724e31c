// One transfer of files on its way out: as a call of the bulk connection, or on a bulk transfer. Whoever sends sees no
// difference: frames, bytes, and room for more. Invariant: resolved only when the control plane said that everything came.
import type { TLSSocket } from 'node:tls'
import { TRANSFERS } from '@berth/shared'
import {
  AgentService,
  dataHead,
  encodeMessage,
  FileFrameSchema,
  LineParser,
  openRawUpload,
  SendFileResponseSchema,
} from '@berth/shared/wire'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import type { ClientWritableStream } from '@grpc/grpc-js'
import { type BulkLine, flushed, room, type UploadEnd, uploadEnd } from './bulk.ts'

export type Frame = NonNullable<MessageInitShape<typeof FileFrameSchema>['frame']>

/** Each resolves, or is nothing, when there is room for more. */
export interface Out {
  frame(frame: Frame): Promise<void> | undefined
  /** Afterwards their memory may be used again. */
  data(bytes: Buffer): Promise<void>
}

type Write = (out: Out) => Promise<void>

/** `fileLine`: the other side takes one, and it is worth it. */
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
    call.on('error', () => undefined) // told by the callback
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

const encode = (frame: Frame): Buffer =>
  Buffer.from(toBinary(FileFrameSchema, create(FileFrameSchema, { frame })))

function callOut(call: ClientWritableStream<Buffer>, left: () => void, signal: AbortSignal): Out {
  const pass = (bytes: Buffer): Promise<void> | undefined =>
    call.write(bytes, left) ? undefined : room(call, signal)
  return {
    frame: (frame) => pass(encode(frame)),
    async data(bytes) {
      signal.throwIfAborted()
      for (let at = 0; at < bytes.length; at += TRANSFERS.frameBytes) {
        await pass(encodeData(bytes.subarray(at, at + TRANSFERS.frameBytes)))
      }
    },
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

async function uploadOnLine(socket: TLSSocket, write: Write): Promise<void> {
  const stop = new AbortController()
  try {
    const received = answerOf(socket)
    received.catch((error: unknown) => stop.abort(error))
    await write(lineOut(socket, stop.signal))
    await received // however long its reader takes for the rest: the line ends with the session
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
          // by itself: together they would be copied
          socket.write(dataHead(Math.min(bytes.length - at, TRANSFERS.lineRecordBytes)))
        }
        await flushed(socket, piece, signal)
      }
    },
  }
}

/** Rejects when the line ends without it. */
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
