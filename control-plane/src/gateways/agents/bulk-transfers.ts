// Accepts bulk transfers of agents, and passes on those that another control plane expects. Invariants: nothing is read
// from an unknown sender; an agent opens at most as many connections as it may send files; a connection ends with its
// transfer.
import type { TLSSocket } from 'node:tls'
import { TRANSFERS } from '@berth/shared'
import { FileFrameSchema } from '@berth/shared/wire'
import { fromBinary } from '@bufbuild/protobuf'
import { finishLine, readFirstMessage, uploadOn } from '../../agents/bulk-lines.ts'
import { receiveUpload } from '../../agents/transfers.ts'
import type { Context } from '../../context.ts'
import type { Peers } from '../../peers/peers.ts'
import { lineIdentity } from './listener.ts'

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
    if (ctx.peers) passOrReceive(ctx, ctx.peers, agentId, socket)
    else receiveHere(ctx, agentId, socket)
  }
}

const receiveHere = (ctx: Context, agentId: string, socket: TLSSocket): void =>
  receiveUpload(ctx, agentId, 'file', uploadOn(socket), finishLine(socket))

/** The header names the control plane that expects the transfer. */
function passOrReceive(ctx: Context, peers: Peers, agentId: string, socket: TLSSocket): void {
  readFirstMessage(socket, (message) => {
    const { frame } = fromBinary(FileFrameSchema, message)
    const id = frame.case === 'header' ? frame.value.transferId : ''
    const replicaId = ctx.transfers.otherOwner(id)
    if (replicaId !== undefined) void peers.passLine({ replicaId, agentId }, socket)
    else {
      receiveHere(ctx, agentId, socket)
      socket.resume()
    }
    return 'keep'
  })
}
