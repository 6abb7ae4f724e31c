// Waits for the first TLS record of a connection, which an honest client sends whole and at once. The record goes back
// into the socket, where TLS reads it.
import type { Socket } from 'node:net'

const HEADER_BYTES = 5
/** The type of the record in which a client begins. */
const HANDSHAKE = 22
/** TLS forbids longer ones. */
const RECORD_BYTES = 16_384

export type FirstRecord = 'here' | 'not_tls' | 'hung_up'

export function awaitFirstRecord(socket: Socket, then: (first: FirstRecord) => void): void {
  let header: Buffer | null = null
  function look(): FirstRecord | 'incomplete' {
    if (socket.readableLength === 0) return 'hung_up'
    // kept apart until the record is whole: bytes that go back would cause the next look
    header ??= socket.read(HEADER_BYTES) as Buffer | null
    if (!header) return 'incomplete'
    // a closed connection gives fewer bytes than were asked for
    if (header.length < HEADER_BYTES) return 'hung_up'
    const length = header.readUInt16BE(3)
    if (header[0] !== HANDSHAKE || length === 0 || length > RECORD_BYTES) return 'not_tls'
    const body = socket.read(length) as Buffer | null
    if (!body) return 'incomplete'
    if (body.length < length) return 'hung_up'
    socket.unshift(Buffer.concat([header, body]))
    return 'here'
  }
  const onReadable = (): void => {
    const first = look()
    if (first === 'incomplete') return
    socket.off('readable', onReadable)
    then(first)
  }
  socket.on('readable', onReadable)
}
