// Accepts bulk transfers: connections of an agent that carry one transfer each, without HTTP/2, into the transfers of
// agents/transfers.ts, which checks sender, time and memory. Invariants: nothing is read from an unknown sender; an
// agent opens at most as many connections as it may send files; a connection ends with its transfer.
import type { TLSSocket } from 'node:tls'
import { TRANSFERS } from '@berth/shared'
import { freeBytes } from '@berth/shared/memory'
import {
  encodeMessage,
  type FileFrame,
  FileFrameSchema,
  LineParser,
  SendFileResponseSchema,
} from '@berth/shared/wire'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { receiveUpload } from '../../agents/transfers.ts'
import type { Upload } from '../../agents/uploads.ts'
import type { Context } from '../../context.ts'
import { lineIdentity } from './listener.ts'

const COMPLETE = encodeMessage(
  toBinary(SendFileResponseSchema, create(SendFileResponseSchema, { complete: true })),
)

export function openFileLines(ctx: Context): (socket: TLSSocket) => void {
  /** Number of connections of each agent. */
  const open = new Map<string, number>()
  return (socket) => {
    socket.on('error', () => undefined) // the close event handles it
    const agentId = lineIdentity(socket, ctx.installationId)?.agentId
    const lines = agentId === undefined ? 0 : (open.get(agentId) ?? 0)
    if (agentId === undefined || lines >= TRANSFERS.files) {
      socket.destroy()
      return
    }
    open.set(agentId, lines + 1)
    socket.once('close', () => {
      const left = (open.get(agentId) ?? 1) - 1
      if (left > 0) open.set(agentId, left)
      else open.delete(agentId)
    })
    receiveUpload(ctx, agentId, 'file', uploadOn(socket), (refused) => {
      if (refused) socket.destroy()
      else {
        socket.write(COMPLETE)
        socket.destroySoon()
      }
    })
  }
}

/** Presents the records of a connection as the frames of an upload. An invalid record ends the connection. */
function uploadOn(socket: TLSSocket): Upload<FileFrame> {
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
