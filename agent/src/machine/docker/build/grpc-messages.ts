// Messages of gRPC on a stream of bytes: a byte for «not compressed», the length, the message.
import { BUILDS } from '../../../limits/docker.ts'

/** Bytes before a message. */
export const PREFIX = 5

export function frameMessage(message: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(PREFIX + message.length)
  framed.writeUInt8(0, 0)
  framed.writeUInt32BE(message.length, 1)
  framed.set(message, PREFIX)
  return framed
}

/** Splits the input into messages. Throws when it is malformed. */
export function messageReader(onMessage: (message: Buffer) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return (chunk) => {
    rest = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk
    while (rest.length >= PREFIX) {
      const length = rest.readUInt32BE(1)
      if (rest.readUInt8(0) !== 0) throw new Error('it compresses its messages')
      if (length > BUILDS.packetBytes) throw new Error('a message without end')
      if (rest.length < PREFIX + length) return
      const message = rest.subarray(PREFIX, PREFIX + length)
      rest = rest.subarray(PREFIX + length)
      onMessage(message)
    }
  }
}
