// Requests that are not whole yet, counted by address: a client that opens connections and says nothing, or a byte now and
// then, must not take the places of others. Each ends by its own time limit (REST.headersMs, requestMs); here is how many
// there may be. A connection counts from its first moment until its request is whole, and again when the next one begins.
// The oldest go first: those of an honest client are whole an instant after they began.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { REST } from '@berth/shared'
import type { IsTrustedProxy } from '../../../identity/client-address.ts'

interface Line {
  address: string
  /** Undefined: it has what it needs, or nothing has begun. */
  openSince: number | undefined
  /** Bytes read when the last request was done: more of them are the next one. */
  read: number | undefined
}

class HalfOpen {
  readonly #lines = new Map<Socket, Line>()
  /** By address, oldest first. */
  readonly #open = new Map<string, Set<Socket>>()

  begin(socket: Socket): void {
    const { remoteAddress: address } = socket
    if (address === undefined) return
    const line = { address, openSince: undefined, read: undefined }
    this.#lines.set(socket, line)
    this.#count(socket, line)
    socket.once('close', () => {
      this.whole(socket)
      this.#lines.delete(socket)
    })
  }

  #count(socket: Socket, line: Line): void {
    line.openSince = performance.now()
    line.read = undefined
    const open = this.#open.get(line.address) ?? new Set()
    this.#open.set(line.address, open.add(socket))
    if (open.size > REST.halfOpenBurst) this.#cut(open)
  }

  #cut(open: Set<Socket>): void {
    const [oldest] = open
    if (!oldest) return
    this.whole(oldest)
    oldest.destroy()
  }

  /** The request is here in full, or there will be none. */
  whole(socket: Socket): void {
    const line = this.#lines.get(socket)
    if (line?.openSince === undefined) return
    line.openSince = undefined
    const open = this.#open.get(line.address)
    open?.delete(socket)
    if (open?.size === 0) this.#open.delete(line.address)
  }

  /** The answer is out; the connection may be used again. */
  idle(socket: Socket): void {
    const line = this.#lines.get(socket)
    if (line && line.openSince === undefined) line.read = socket.bytesRead
  }

  sweep(): void {
    for (const [socket, line] of this.#lines) {
      if (line.read !== undefined && socket.bytesRead > line.read) this.#count(socket, line)
    }
    const before = performance.now() - REST.timesMs
    for (const open of this.#open.values()) {
      for (const socket of [...open].slice(0, Math.max(0, open.size - REST.halfOpen))) {
        if ((this.#lines.get(socket)?.openSince ?? before) < before) this.#cut(open)
      }
    }
  }
}

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

/** Proxies that are named keep such clients to themselves, and have one address for all of them. */
export function boundHalfOpen(server: Server, isTrusted: IsTrustedProxy): () => void {
  const half = new HalfOpen()
  server.on('connection', (socket: Socket) => {
    if (!isTrusted(socket.remoteAddress ?? '')) half.begin(socket)
  })
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    response.once('close', () => half.idle(socket))
    if (!hasBody(request)) half.whole(socket)
    else {
      request.once('end', () => half.whole(socket))
      request.once('close', () => half.whole(socket))
    }
  })
  // what became a socket of the dashboard has limits of its own
  server.on('upgrade', ({ socket }: IncomingMessage) => half.whole(socket))
  const timer = setInterval(() => half.sweep(), REST.timesMs)
  timer.unref()
  return () => clearInterval(timer)
}
