// Carries several TCP connections over the two streams of one SSH session (`berth forward`). A frame is one byte of
// kind, four of the channel's number, four of length, and the payload. Invariants: a side sends no more than the window
// that the other side opened, so a slow connection holds up no other and memory is bounded; a frame of unknown form
// ends the session.
import type { Duplex } from 'node:stream'

export const CHANNELS = {
  /** Connections that are open together in one session. */
  open: 64,
  /** Services and ports that one session names. */
  targets: 16,
  /** Bytes that may be on their way in each direction of a connection. */
  windowBytes: 256 * 1_024,
  /** A larger chunk of a connection is split. */
  payloadBytes: 64 * 1_024,
  /** Until a connection whose other end closed has taken the rest. */
  finishMs: 10_000,
} as const

const KIND = { open: 1, opened: 2, data: 3, end: 4, close: 5, window: 6 } as const
const HEAD = 9

function encode(kind: number, id: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  const head = Buffer.allocUnsafe(HEAD)
  head.writeUInt8(kind, 0)
  head.writeUInt32BE(id, 1)
  head.writeUInt32BE(payload.length, 5)
  return Buffer.concat([head, payload])
}

const number = (value: number): Buffer => {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeUInt32BE(value)
  return bytes
}

/** What was received is still written, but not for ever. */
function finish(socket: Duplex): void {
  const late = setTimeout(() => socket.destroy(), CHANNELS.finishMs)
  socket.once('close', () => clearTimeout(late))
  socket.end(() => socket.destroy())
}

/** The other side broke the rules above. */
export class ChannelError extends Error {
  override readonly name = 'ChannelError'
}

interface Channel {
  id: number
  socket: Duplex | undefined
  /** Accepted here, while the other side connects. */
  waiting: Duplex | undefined
  /** What may still be sent. */
  credit: number
  /** What the other side may still send. */
  window: number
  onOpened: (() => void) | undefined
  onRefused: ((reason: string) => void) | undefined
}

interface Options {
  send(frame: Buffer): void
  /** On the server: connects a new channel; throws a sentence for the user. Absent: this side opens channels. */
  connect?(target: number): Promise<Duplex>
  /** Changes of the number of open connections. */
  onCount?(open: number): void
}

export class Channels {
  readonly #o: Options
  readonly #channels = new Map<number, Channel>()
  #lastId = 0
  #rest: Buffer = Buffer.alloc(0)

  constructor(options: Options) {
    this.#o = options
  }

  get count(): number {
    return this.#channels.size
  }

  /** Opens a channel for an accepted connection; `target` is its place in the session's request. */
  open(target: number, socket: Duplex, onRefused: (reason: string) => void): void {
    if (this.#channels.size >= CHANNELS.open) {
      socket.destroy()
      onRefused(`more than ${CHANNELS.open} connections at once`)
      return
    }
    const channel = this.#add(++this.#lastId)
    channel.waiting = socket
    channel.onRefused = onRefused
    channel.onOpened = () => this.#join(channel, socket)
    socket.pause()
    socket.on('error', () => undefined)
    socket.once('close', () => this.#close(channel))
    this.#o.send(encode(KIND.open, channel.id, Buffer.from([target])))
  }

  /** Takes bytes of the session. Throws ChannelError. */
  receive(chunk: Buffer): void {
    let bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    while (bytes.length >= HEAD) {
      const length = bytes.readUInt32BE(5)
      if (length > CHANNELS.payloadBytes) throw new ChannelError('a frame is too long')
      if (bytes.length < HEAD + length) break
      const payload = bytes.subarray(HEAD, HEAD + length)
      this.#take(bytes.readUInt8(0), bytes.readUInt32BE(1), payload)
      bytes = bytes.subarray(HEAD + length)
    }
    this.#rest = Buffer.from(bytes) // the chunk's memory may be reused
  }

  /** Ends every connection. */
  destroy(): void {
    for (const channel of [...this.#channels.values()]) {
      this.#drop(channel)
      channel.socket?.destroy()
      channel.waiting?.destroy()
      channel.onRefused?.('the session ended')
    }
  }

  #add(id: number): Channel {
    const channel: Channel = {
      id,
      socket: undefined,
      waiting: undefined,
      credit: CHANNELS.windowBytes,
      window: CHANNELS.windowBytes,
      onOpened: undefined,
      onRefused: undefined,
    }
    this.#channels.set(id, channel)
    this.#o.onCount?.(this.#channels.size)
    return channel
  }

  #drop({ id }: Channel): boolean {
    const isDropped = this.#channels.delete(id)
    if (isDropped) this.#o.onCount?.(this.#channels.size)
    return isDropped
  }

  #take(kind: number, id: number, payload: Buffer): void {
    if (kind === KIND.open) this.#accept(id, payload)
    const channel = this.#channels.get(id)
    if (!channel || kind === KIND.open) return // closed here while the frame was on its way
    switch (kind) {
      case KIND.opened:
        channel.onOpened?.()
        channel.onOpened = undefined
        channel.onRefused = undefined
        return
      case KIND.data:
        this.#deliver(channel, payload)
        return
      case KIND.end:
        channel.socket?.end()
        return
      case KIND.window:
        if (payload.length !== 4) throw new ChannelError('a frame has the wrong length')
        channel.credit += payload.readUInt32BE(0)
        if (channel.credit > CHANNELS.windowBytes) throw new ChannelError('a window is too large')
        channel.socket?.resume()
        return
      case KIND.close: {
        this.#drop(channel)
        channel.onRefused?.(payload.toString('utf8'))
        channel.waiting?.destroy()
        if (channel.socket) finish(channel.socket)
        return
      }
      default:
        throw new ChannelError('a frame has an unknown kind')
    }
  }

  #accept(id: number, payload: Buffer): void {
    const { connect } = this.#o
    if (!connect || payload.length !== 1 || id <= this.#lastId)
      throw new ChannelError('a channel cannot be opened like this')
    this.#lastId = id
    const refuse = (reason: string): void => {
      const said = Buffer.from(reason.slice(0, 1_000))
      this.#o.send(encode(KIND.close, id, said.subarray(0, CHANNELS.payloadBytes)))
    }
    if (this.#channels.size >= CHANNELS.open) {
      refuse(`More than ${CHANNELS.open} connections at once.`)
      return
    }
    const channel = this.#add(id)
    connect(payload[0] ?? 0).then(
      (socket) => {
        if (!this.#channels.has(id)) {
          socket.destroy() // closed meanwhile
          return
        }
        socket.on('error', () => undefined)
        socket.once('close', () => this.#close(channel))
        this.#o.send(encode(KIND.opened, id))
        this.#join(channel, socket)
      },
      (error: Error) => {
        if (this.#drop(channel)) refuse(error.message)
      },
    )
  }

  #join(channel: Channel, socket: Duplex): void {
    channel.socket = socket
    channel.waiting = undefined
    socket.on('data', (chunk: Buffer) => this.#sendData(channel, chunk))
    socket.on('end', () => {
      if (this.#channels.has(channel.id)) this.#o.send(encode(KIND.end, channel.id))
    })
    if (socket.destroyed) this.#close(channel)
    else socket.resume()
  }

  /** What exceeds the window goes back to the socket and waits there. */
  #sendData(channel: Channel, chunk: Buffer): void {
    let rest = chunk
    while (rest.length > 0 && channel.credit > 0) {
      const part = rest.subarray(0, Math.min(channel.credit, CHANNELS.payloadBytes))
      channel.credit -= part.length
      this.#o.send(encode(KIND.data, channel.id, part))
      rest = rest.subarray(part.length)
    }
    if (channel.credit > 0) return
    channel.socket?.pause()
    if (rest.length > 0) channel.socket?.unshift(rest)
  }

  #deliver(channel: Channel, payload: Buffer): void {
    channel.window -= payload.length
    if (channel.window < 0 || !channel.socket) throw new ChannelError('a window was exceeded')
    const { length } = payload
    channel.socket.write(Buffer.from(payload), (error) => {
      if (error || !this.#channels.has(channel.id)) return
      channel.window += length
      this.#o.send(encode(KIND.window, channel.id, number(length)))
    })
  }

  #close(channel: Channel): void {
    if (this.#drop(channel)) this.#o.send(encode(KIND.close, channel.id))
  }
}
