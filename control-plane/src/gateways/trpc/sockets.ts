// The dashboard's sockets: who may open one, how many, how large, how long; tRPC handles the messages. A socket without
// a caller is closed, and so is one whose caller loses access. The address contains no credentials.
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { AppError, ERRORS } from '@berth/shared'
import type { CreateWSSContextFnOptions } from '@trpc/server/adapters/ws'
import { getWSConnectionHandler } from '@trpc/server/adapters/ws'
import { type WebSocket, WebSocketServer } from 'ws'
import type { Context } from '../../context.ts'
import { clientAddress, type IsTrustedProxy, trustProxies } from '../../identity/client-address.ts'
import { LIVE } from '../../limits/browser.ts'
import { Admission, type Credentials, identify } from '../../notifications/admission.ts'
import type { CallContext, SocketContext } from './base.ts'
import { refusalOf } from './errors.ts'
import { countBad, logFault } from './faults.ts'
import { requireOwnOrigin } from './origin.ts'
import { Pace } from './pace.ts'
import { appRouter } from './router.ts'

export const SOCKET_PATH = '/trpc'
const TRY_LATER = 1013
const RESTARTING = 1012
const NOT_ADMITTED = 4401

interface Seat {
  requestId: string
  address: string
  context: SocketContext
  admission: Admission | undefined
  isAlive: boolean
  leave: () => void
}

export class Sockets {
  readonly #ctx: Context
  readonly #server = new WebSocketServer({ noServer: true, maxPayload: LIVE.messageBytes })
  readonly #seats = new Map<WebSocket, Seat>()
  readonly #perUser = new Map<number, number>()
  readonly #pings: NodeJS.Timeout
  readonly #isTrusted: IsTrustedProxy
  #isClosing = false
  readonly #begin: (socket: WebSocket, request: IncomingMessage) => void

  constructor(ctx: Context, http: Server) {
    this.#ctx = ctx
    this.#isTrusted = trustProxies(ctx.config.trustedProxies)
    this.#begin = getWSConnectionHandler({
      wss: this.#server,
      router: appRouter,
      createContext: (options) => this.#admit(options),
      onError: ({ error, path, ctx: context }) => {
        logFault(ctx, error, path)
        // a page that receives a fault gives up; one that is cut off reconnects and resumes
        if (!refusalOf(error)) context?.socket?.cut()
      },
    })
    http.on('upgrade', (request, socket, head) => this.#open(request, socket, head))
    this.#pings = setInterval(() => this.#ping(), LIVE.pingMs)
    this.#pings.unref()
  }

  get size(): number {
    return this.#seats.size
  }

  get subscriptions(): number {
    return [...this.#seats.values()].reduce((sum, seat) => sum + seat.context.subscriptions, 0)
  }

  /** Bytes in flight to each socket. */
  buffered(): number[] {
    return [...this.#seats.keys()].map((socket) => socket.bufferedAmount)
  }

  /** Closes properly, so that browsers reconnect immediately; a socket that does not answer is cut off. */
  async close(): Promise<void> {
    this.#isClosing = true
    clearInterval(this.#pings)
    const sockets = [...this.#seats.keys()]
    const gone = Promise.all(sockets.map((s) => new Promise((resolve) => s.once('close', resolve))))
    for (const socket of sockets) socket.close(RESTARTING, 'restarting')
    const timer = setTimeout(() => {
      for (const socket of sockets) socket.terminate()
    }, LIVE.closeMs)
    await gone
    clearTimeout(timer)
    this.#server.close()
  }

  #open(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy())
    try {
      if (request.url?.split('?')[0] !== SOCKET_PATH) {
        throw new AppError('not_found', 'There is no socket at this address.')
      }
      requireOwnOrigin(this.#ctx, request.headers, 'socket')
      const unknown = [...this.#seats.values()].filter((seat) => !seat.admission).length
      const isFull = this.#seats.size >= LIVE.sockets || unknown >= LIVE.unknownSockets
      if (isFull || this.#isClosing) {
        throw new AppError('unavailable', 'Too many live connections are open; try again later.')
      }
    } catch (error) {
      refuse(socket, error)
      return
    }
    this.#server.handleUpgrade(request, socket, head, (opened) => {
      this.#seat(opened, request)
      this.#begin(opened, request)
    })
  }

  #seat(socket: WebSocket, request: IncomingMessage): void {
    const pace = new Pace(socket, this.#ctx.clock)
    const seat: Seat = {
      requestId: `req_${randomBytes(9).toString('base64url')}`,
      address: clientAddress(request, this.#isTrusted),
      context: {
        drained: (signal) => pace.drained(signal),
        cut: () => socket.terminate(),
        subscriptions: 0,
      },
      admission: undefined,
      isAlive: true,
      leave: () => {},
    }
    this.#seats.set(socket, seat)
    const hello = setTimeout(() => {
      if (!seat.admission) socket.terminate()
    }, LIVE.helloMs)
    socket.on('pong', () => {
      seat.isAlive = true
    })
    socket.once('close', () => {
      clearTimeout(hello)
      this.#seats.delete(socket)
      seat.leave()
    })
  }

  /** tRPC calls it once per socket: with the first message if the socket announced one, else immediately. */
  async #admit({ req, res: socket, info }: CreateWSSContextFnOptions): Promise<CallContext> {
    const seat = this.#seats.get(socket)
    if (!seat) throw new AppError('unavailable', 'The connection is closed.')
    const credentials: Credentials = {
      authorization: req.headers.authorization,
      cookie: req.headers.cookie,
      token: info.connectionParams?.token,
    }
    const from = { address: seat.address, requestId: seat.requestId }
    const again = () => identify(this.#ctx, credentials, from)
    try {
      const who = await again().catch(countBad(this.#ctx, seat.address))
      seat.leave = this.#takePlace(who.user.id)
      const onEnded = (refusal: AppError) => socket.close(NOT_ADMITTED, refusal.code)
      seat.admission = new Admission(this.#ctx, who, again, onEnded)
      if (socket.readyState !== socket.OPEN) seat.leave() // it closed meanwhile
      return {
        ctx: this.#ctx,
        admission: seat.admission,
        requestId: seat.requestId,
        visitor: undefined,
        socket: seat.context,
      }
    } catch (error) {
      const refusal = error instanceof AppError ? error : undefined
      // after tRPC has sent the error itself
      setImmediate(() => {
        const code = refusal && refusal.status < 429 ? NOT_ADMITTED : TRY_LATER
        socket.close(code, refusal?.code ?? 'internal_error')
      })
      throw error
    }
  }

  #takePlace(userId: number): () => void {
    const open = this.#perUser.get(userId) ?? 0
    if (open >= LIVE.socketsPerUser) {
      throw new AppError('rate_limited', `You have ${open} live pages open; close some.`)
    }
    this.#perUser.set(userId, open + 1)
    let isLeft = false
    return () => {
      if (isLeft) return
      isLeft = true
      const left = (this.#perUser.get(userId) ?? 1) - 1
      if (left > 0) this.#perUser.set(userId, left)
      else this.#perUser.delete(userId)
    }
  }

  /** Ends sockets that did not answer the last ping, and those whose caller lost access while idle. */
  #ping(): void {
    for (const [socket, seat] of this.#seats) {
      if (!seat.isAlive) {
        socket.terminate()
        continue
      }
      seat.isAlive = false
      socket.ping()
      seat.admission?.check().catch(() => {}) // a refusal closes the socket; the next use meets a fault
    }
  }
}

/** Answers a refused upgrade. */
function refuse(socket: Duplex, error: unknown): void {
  const refusal =
    error instanceof AppError ? error : new AppError('internal_error', 'Internal error')
  const { status, code, message } = refusal
  const title = ERRORS[code][1]
  const body = JSON.stringify({ type: 'about:blank', title, status, code, detail: message })
  socket.end(
    `HTTP/1.1 ${status} ${title}\r\nContent-Type: application/problem+json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  )
}
