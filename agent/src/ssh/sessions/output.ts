// What a session gives out, as frames to its forced command; no faster than they are taken.
import type { Socket } from 'node:net'
import { SSH_SESSIONS } from '@berth/shared'
import { FRAME, writeFrames } from './frames.ts'

export interface Output {
  /** Resolves when there is room for more. The bytes must not change any more. */
  write(kind: 'data' | 'errors', bytes: Buffer): Promise<void>
  /** A part of an open file as output; absent where it cannot be. False: it broke off, and nothing may follow. */
  pass?(fd: number, part: { offset: number; length: number }): Promise<boolean>
}

/** `count` is told how many bytes went. */
export const outputTo = (socket: Socket, count: (bytes: number) => void): Output => ({
  async write(kind, bytes) {
    if (bytes.length === 0 || socket.destroyed) return
    count(bytes.length)
    writeFrames(socket, FRAME[kind], bytes)
    if (socket.writableLength <= SSH_SESSIONS.backlogBytes) return
    await new Promise<void>((resolve) => {
      socket.once('drain', resolve).once('close', resolve)
    })
  },
})
