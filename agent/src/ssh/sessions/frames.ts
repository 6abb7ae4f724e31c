// The frames between the forced command, the agent and the process of a session: one byte of kind, four of length, the
// payload. Invariant: a frame over its bound, or of unknown form, ends the connection.
import type { Socket } from 'node:net'
import type { Writable } from 'node:stream'
import { SSH_SESSIONS } from '../../limits/ssh.ts'

export const FRAME = {
  /** JSON; the first in either direction. */
  hello: 1,
  /** Bytes of the user's input, or of the output. */
  data: 2,
  errors: 3,
  /** The user's input ended. */
  end: 4,
  /** JSON {columns, rows}. */
  size: 5,
  /** JSON {code, message?}; the work is over. */
  exit: 6,
  /** JSON {length}: this many bytes of unframed output follow, once the other side sent `go`. */
  raw: 7,
  go: 8,
} as const

export interface Frame {
  kind: number
  payload: Buffer
}

const HEAD = 5

const head = (kind: number, length: number): Buffer => {
  const bytes = Buffer.allocUnsafe(HEAD)
  bytes.writeUInt8(kind, 0)
  bytes.writeUInt32BE(length, 1)
  return bytes
}

export function encodeFrame(kind: number, payload: Uint8Array | string): Buffer {
  const body = typeof payload === 'string' ? Buffer.from(payload) : payload
  return Buffer.concat([head(kind, body.length), body])
}

const isStreamed = (kind: number): boolean => kind === FRAME.data || kind === FRAME.errors

/**
 * Turns chunks into frames. Input and output are passed on piece by piece, because files are large; other frames
 * are passed on whole. Keeps no reference to a chunk. Throws on a frame over its bound.
 */
export function createFrameReader(onFrame: (frame: Frame) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  let piece = { kind: 0, left: 0 }
  return (chunk) => {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let at = 0
    while (at < bytes.length) {
      if (piece.left > 0) {
        const payload = bytes.subarray(at, at + piece.left)
        at += payload.length
        piece.left -= payload.length
        onFrame({ kind: piece.kind, payload })
        continue
      }
      if (bytes.length - at < HEAD) break
      const kind = bytes.readUInt8(at)
      const length = bytes.readUInt32BE(at + 1)
      if (length > SSH_SESSIONS.frameBytes) throw new Error('a frame is too long')
      if (isStreamed(kind)) {
        piece = { kind, left: length }
        at += HEAD
        continue
      }
      if (bytes.length - at < HEAD + length) break
      at += HEAD + length
      onFrame({ kind, payload: bytes.subarray(at - length, at) })
    }
    rest = Buffer.from(bytes.subarray(at)) // the chunk's memory may be reused
  }
}

/** Frames of a connection, buffered until a listener is set; `fail` is called for a frame over its bound. */
export function openFrames(
  socket: Socket,
  fail: () => void,
): { first: Promise<Frame>; listen: (on: (frame: Frame) => void) => void } {
  const first = Promise.withResolvers<Frame>()
  const early: Frame[] = []
  let isFirst = true
  let on = (frame: Frame): void => void early.push(frame)
  const read = createFrameReader((frame) => {
    if (!isFirst) return on(frame)
    isFirst = false
    first.resolve(frame)
  })
  socket.on('data', (chunk: Buffer) => {
    try {
      read(chunk)
    } catch {
      fail()
    }
  })
  return {
    first: first.promise,
    listen(next) {
      on = next
      for (const frame of early.splice(0)) next(frame)
    },
  }
}

/** Splits bytes of any length into frames without a copy, so they must not change. False means wait for `drain`. */
export function writeFrames(to: Writable, kind: number, bytes: Buffer): boolean {
  let takes = true
  to.cork()
  for (let at = 0; at < bytes.length; at += SSH_SESSIONS.frameBytes) {
    const payload = bytes.subarray(at, at + SSH_SESSIONS.frameBytes)
    to.write(head(kind, payload.length))
    takes = to.write(payload)
  }
  to.uncork()
  return takes
}

/** The first message of the forced command to the agent. */
export interface Hello {
  /** The certificate's blob, in base64. */
  certificate: string
  request: string
  account: string
  pid: number
  terminal: TerminalSize | null
  /** It supports a session on this connection. */
  staying?: boolean
  /** It supports unframed bytes (splice.ts). */
  passing?: boolean
}

export interface TerminalSize {
  columns: number
  rows: number
}

/** The agent's answer: the socket of the session's process, and the word that it expects. */
export interface Elsewhere {
  socket: string
  word: string
}

/** Alternatively, the session is on this connection. */
export type Admission = Elsewhere | { here: true }

export interface Ending {
  code: number
  /** One sentence for the user. */
  message?: string
}
