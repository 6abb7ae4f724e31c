// Sends the output of a session as frames to its forced command, no faster than it reads them.
import type { Socket } from 'node:net'
import { SSH_SESSIONS } from '../../limits/ssh.ts'
import { FRAME, writeFrames } from './frames.ts'

export interface Output {
  /** Resolves when there is space for more. The bytes must not change afterwards. */
  write(kind: 'data' | 'errors', bytes: Buffer): Promise<void>
  /** Sends a part of an open file; absent when unsupported. False when it broke off, and nothing may follow. */
  pass?(fd: number, part: { offset: number; length: number }): Promise<boolean>
}

/** `count` gets the number of sent bytes. */
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
