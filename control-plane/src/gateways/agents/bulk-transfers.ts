// Bulk transfers: connections of an agent that carry one transfer each, without HTTP/2, into the same transfers as SendFile.
// What was expected of whom, for how long and how much of it waits in memory is decided there. Invariants: nothing is
// read of a stranger; an agent holds no more lines than it may send files; a line ends with its transfer.
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
import { receiveTransfer, type Upload } from '../../agents/transfers.ts'
import type { Context } from '../../context.ts'
import { lineIdentity } from './listener.ts'

const COMPLETE = encodeMessage(
  toBinary(SendFileResponseSchema, create(SendFileResponseSchema, { complete: true })),
)

export function openFileLines(ctx: Context): (socket: TLSSocket) => void {
  /** Lines of each agent. */
  const open = new Map<string, number>()
  return (socket) => {
    socket.on('error', () => undefined) // its close is what counts
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
    receiveTransfer(ctx, agentId, 'file', uploadOn(socket), (refused) => {
      if (refused) socket.destroy()
      else {
        socket.write(COMPLETE)
        socket.destroySoon()
      }
    })
  }
}

/** The records of a line as the frames of an upload. What is no record breaks the line off. */
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
