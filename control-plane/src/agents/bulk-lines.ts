// Bulk transfers as connections: each carries the records of one upload, without HTTP/2, and an answer at its end. Read
// into the transfers of transfers.ts, which check sender, time and memory.
import type { TLSSocket } from 'node:tls'
import { TRANSFERS } from '@berth/shared'
import { freeBytes } from '@berth/shared/memory'
import {
  encodeMessage,
  type FileFrame,
  FileFrameSchema,
  LineParser,
  readMessage,
  SendFileResponseSchema,
} from '@berth/shared/wire'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Done, Upload } from './uploads.ts'

const COMPLETE = encodeMessage(
  toBinary(SendFileResponseSchema, create(SendFileResponseSchema, { complete: true })),
)

/** Answers the sender and closes. */
export const finishLine =
  (socket: TLSSocket): Done =>
  (refused) => {
    if (refused) socket.destroy()
    else {
      socket.write(COMPLETE)
      socket.destroySoon()
    }
  }

/**
 * Reads the message that begins a connection and leaves it paused. `take` returns whether the message stays in front of
 * what is read next. A connection that does not begin so in time is destroyed.
 */
export function readFirstMessage(
  socket: TLSSocket,
  take: (message: Buffer) => 'keep' | 'drop',
): void {
  let bytes: Buffer = Buffer.alloc(0)
  const timer = setTimeout(() => socket.destroy(), TRANSFERS.firstFrameMs)
  socket.once('close', () => clearTimeout(timer))
  const read = (chunk: Buffer): void => {
    bytes = Buffer.concat([bytes, chunk])
    try {
      const first = readMessage(bytes)
      if (!first) return
      clearTimeout(timer)
      socket.off('data', read)
      socket.pause()
      const rest = take(first.message) === 'keep' ? bytes : bytes.subarray(first.end)
      if (rest.length > 0) socket.unshift(rest)
    } catch {
      socket.destroy()
    }
  }
  socket.on('data', read)
}

/** Presents the records of a connection as the frames of an upload. An invalid record ends the connection. */
export function uploadOn(socket: TLSSocket): Upload<FileFrame> {
  let take: (frame: FileFrame) => void = () => undefined
  let end: () => void = () => undefined
  let hasLast = false
  const give = (frame: FileFrame): void => {
    if (hasLast) throw new Error('something follows the last frame')
    hasLast = frame.frame.case === 'end' || frame.frame.case === 'error'
    take(frame)
    if (hasLast) end()
  }
  const parser = new LineParser({
    message: (bytes) => give(fromBinary(FileFrameSchema, bytes)),
    data: (value) =>
      give({ $typeName: 'berth.agent.v1.FileFrame', frame: { case: 'data', value } }),
  })
  return {
    on(event: string, listener: (frame: FileFrame) => void) {
      if (event === 'data') {
        take = listener
        socket.on('data', (chunk: Buffer) => {
          try {
            parser.take(chunk)
            freeBytes(chunk) // its contents were copied
          } catch {
            socket.destroy()
          }
        })
      } else if (event === 'end') end = listener as () => void
      else if (event === 'close') socket.on('close', listener as () => void)
    },
    pause: () => socket.pause(),
    resume: () => socket.resume(),
  }
}
