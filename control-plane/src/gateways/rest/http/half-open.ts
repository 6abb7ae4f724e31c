// Limits incomplete requests per address, so that a client with slow or silent connections cannot block others;
// REST.headersMs and requestMs limit their time. A connection counts from its start until its request is complete, and
// again when the next one begins. The oldest are closed first, since those of an honest client complete at once.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import { REST } from '@berth/shared'
import type { IsTrustedProxy } from '../../../identity/client-address.ts'

interface Line {
  address: string
  /** Undefined if the request is complete or none has begun. */
  openSince: number | undefined
  /** Bytes read when the last request ended; more bytes belong to the next one. */
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

  /** The request is complete, or there will be none. */
  whole(socket: Socket): void {
    const line = this.#lines.get(socket)
    if (line?.openSince === undefined) return
    line.openSince = undefined
    const open = this.#open.get(line.address)
    open?.delete(socket)
    if (open?.size === 0) this.#open.delete(line.address)
  }

  /** The answer is sent; the connection may be reused. */
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

const nameOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

/** Trusted proxies are exempt: they absorb such clients, and have one address for all of them. */
export function boundHalfOpen(server: Server, isTrusted: IsTrustedProxy): () => void {
  const half = new HalfOpen()
  server.on('connection', (socket: Socket) => {
    if (!isTrusted(socket.remoteAddress ?? '')) half.begin(socket)
  })
  // with TLS, requests name another socket than the connection; they have the address and port in common
  const handshakes = new Map<string, Socket>()
  if (server instanceof TlsServer) {
    server.on('connection', (socket: Socket) => {
      const name = nameOf(socket)
      handshakes.set(name, socket)
      socket.once('close', () => handshakes.delete(name))
    })
    server.on('secureConnection', (socket) => {
      const before = handshakes.get(nameOf(socket))
      handshakes.delete(nameOf(socket))
      if (before) half.whole(before)
      if (!isTrusted(socket.remoteAddress ?? '')) half.begin(socket)
    })
  }
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const { socket } = request
    response.once('close', () => half.idle(socket))
    if (!hasBody(request)) half.whole(socket)
    else {
      request.once('end', () => half.whole(socket))
      request.once('close', () => half.whole(socket))
    }
  })
  // the dashboard's sockets have their own limits
  server.on('upgrade', ({ socket }: IncomingMessage) => half.whole(socket))
  const timer = setInterval(() => half.sweep(), REST.timesMs)
  timer.unref()
  return () => clearInterval(timer)
}
