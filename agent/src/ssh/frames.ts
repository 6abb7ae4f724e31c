// The bytes between the forced command, the agent and the process of a session: one byte of kind, four of length, the
// payload. Invariant: a frame over its bound, or of no known form, ends the connection.
import { SSH_SESSIONS } from '@berth/shared'

export const FRAME = {
  /** JSON; the first in either direction. */
  hello: 1,
  /** Bytes of the person's input; of the work's output. */
  data: 2,
  errors: 3,
  /** The person's input ended. */
  end: 4,
  /** JSON {columns, rows}. */
  size: 5,
  /** JSON {code, message?}: the work is over. */
  exit: 6,
} as const

export interface Frame {
  kind: number
  payload: Buffer
}

const HEAD = 5

export function encodeFrame(kind: number, payload: Uint8Array | string): Buffer {
  const body = typeof payload === 'string' ? Buffer.from(payload) : payload
  const frame = Buffer.allocUnsafe(HEAD + body.length)
  frame.writeUInt8(kind, 0)
  frame.writeUInt32BE(body.length, 1)
  frame.set(body, HEAD)
  return frame
}

/** Feeds chunks in, gives frames out. Throws on a frame over its bound. */
export function createFrameReader(onFrame: (frame: Frame) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    for (;;) {
      if (rest.length < HEAD) return
      const length = rest.readUInt32BE(1)
      if (length > SSH_SESSIONS.frameBytes) throw new Error('a frame is too long')
      if (rest.length < HEAD + length) return
      const frame = { kind: rest.readUInt8(0), payload: rest.subarray(HEAD, HEAD + length) }
      rest = rest.subarray(HEAD + length)
      onFrame(frame)
    }
  }
}

/** Output of any length as frames. */
export function* cutFrames(kind: number, bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += SSH_SESSIONS.frameBytes) {
    yield encodeFrame(kind, bytes.subarray(at, at + SSH_SESSIONS.frameBytes))
  }
}

/** What the forced command says first to the agent. */
export interface Hello {
  /** The certificate's blob, base64. */
  certificate: string
  request: string
  account: string
  pid: number
  terminal: TerminalSize | null
}

export interface TerminalSize {
  columns: number
  rows: number
}

/** What the agent answers: where the session's process listens and the word it wants to hear. */
export interface Admission {
  socket: string
  word: string
}

export interface Ending {
  code: number
  /** One sentence for the person. */
  message?: string
}
