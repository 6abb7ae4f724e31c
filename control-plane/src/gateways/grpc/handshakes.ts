// Handles connections of a gRPC listener until the TLS handshake ends. A handshake costs milliseconds of the one
// processor, a waiting socket nearly nothing: when a fleet returns, connections wait here for their turn, in order. Logs
// each failure in words an operator can act on. TLS checks the certificate; this file does not judge who connects.
import type { Http2SecureServer } from 'node:http2'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { SESSION } from '@berth/shared'
import { awaitFirstRecord, type FirstRecord } from './first-record.ts'
import { WaitingLine } from './waiting-line.ts'

export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

const UNKNOWN_CA = 'its certificate is not from this installation; give the server a new join token'
const EXPIRED = 'its certificate has expired; start the agent so that it renews, or join it again'
const NOT_TLS = 'it did not speak TLS; this port is for agents alone'
const FAILURES = new Map<string, readonly [kind: string, message: string]>(
  Object.entries({
    ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE: [
      'certificate_missing',
      'it showed no certificate; only agents that joined may connect here',
    ],
    CERT_HAS_EXPIRED: ['certificate_expired', EXPIRED],
    CERT_NOT_YET_VALID: [
      'certificate_not_yet_valid',
      'its certificate is not valid yet; the clock of this machine is probably late',
    ],
    DEPTH_ZERO_SELF_SIGNED_CERT: ['unknown_authority', UNKNOWN_CA],
    SELF_SIGNED_CERT_IN_CHAIN: ['unknown_authority', UNKNOWN_CA],
    UNABLE_TO_GET_ISSUER_CERT: ['unknown_authority', UNKNOWN_CA],
    UNABLE_TO_GET_ISSUER_CERT_LOCALLY: ['unknown_authority', UNKNOWN_CA],
    UNABLE_TO_VERIFY_LEAF_SIGNATURE: ['unknown_authority', UNKNOWN_CA],
    CERT_SIGNATURE_FAILURE: ['unknown_authority', UNKNOWN_CA],
    INVALID_PURPOSE: ['wrong_purpose', 'its certificate is not one for agents'],
    ERR_SSL_UNSUPPORTED_PROTOCOL: ['old_tls', 'it does not speak TLS 1.3'],
    ERR_SSL_NO_SHARED_CIPHER: ['old_tls', 'it does not speak TLS 1.3 with a common cipher'],
    ERR_SSL_WRONG_VERSION_NUMBER: ['not_tls', NOT_TLS],
    ERR_SSL_UNKNOWN_PROTOCOL: ['not_tls', NOT_TLS],
    ERR_SSL_TLSV1_ALERT_UNKNOWN_CA: [
      'distrusted',
      'it does not trust our certificate; it may hold the authority of another installation',
    ],
    ERR_SSL_TLSV13_ALERT_CERTIFICATE_EXPIRED: [
      'distrusted',
      'it says that our certificate has expired; its clock may be wrong',
    ],
    ERR_TLS_HANDSHAKE_TIMEOUT: ['timeout', 'it did not finish the handshake in time'],
    ECONNRESET: ['gone', 'it hung up before the handshake was finished'],
    EPIPE: ['gone', 'it hung up before the handshake was finished'],
  }),
)

/** Describes why a handshake failed and what to do. `authorization` is the verdict on the certificate. */
export function describeHandshakeFailure(
  code: string | undefined,
  authorization?: string | null,
): { kind: string; message: string } {
  // a refused certificate appears as a connection that we closed, so the verdict on it says more
  const reason = authorization ?? code ?? 'no reason given'
  const [kind, message] = FAILURES.get(reason) ?? ['other', `the handshake failed (${reason})`]
  return { kind, message }
}

export interface HandshakeLimits {
  /** Under way at once. */
  width: number
  /** Silent or slow ones. The oldest end when there are more. */
  limit: number
  /** The longest wait for a turn. */
  patienceMs?: number
}

const LIMITS = { width: SESSION.handshakesAtOnce, limit: SESSION.pendingHandshakes }
/** Just before the agent's own deadline for a connection. */
const GIVEN_UP_MS = SESSION.dialMs - 500

interface Pending {
  socket: Socket
  name: string
  /** Ends its turn, or leaves the line. */
  done: () => void
}

/** What differs between listeners in their messages. */
export interface HandshakeWords {
  /** "the agents' port" */
  port: string
  /** In place of the message of a kind. */
  byKind?: Readonly<Record<string, string>>
}

export class Handshakes {
  readonly #log: Log
  readonly #words: HandshakeWords
  readonly limit: number
  readonly #line: WaitingLine
  readonly #pending = new Map<string, Pending>()
  /** Without a whole first record, oldest first. */
  readonly #silent = new Set<Pending>()
  /** Those whose turn is over, oldest first. */
  readonly #slow = new Set<Pending>()
  readonly #secured = new Set<TLSSocket>()
  readonly #addresses = new WeakMap<Socket, string>()
  /** Kinds logged recently, with the number of repetitions. Bounded by the kinds above. */
  readonly #quiet = new Map<string, number>()

  constructor(log: Log, words: HandshakeWords, limits: HandshakeLimits = LIMITS) {
    const { width, limit, patienceMs = SESSION.admissionMs } = limits
    this.#log = log
    this.#words = words
    this.limit = limit
    this.#line = new WaitingLine({ width, patienceMs })
  }

  /** Connections whose handshake is under way or has not begun. */
  get pending(): number {
    return this.#pending.size
  }

  watch(server: Http2SecureServer): void {
    const accept = server.listeners('connection')
    server.removeAllListeners('connection')
    server.on('connection', (socket: Socket) => {
      this.#admit(socket, () => {
        for (const listener of accept) listener.call(server, socket)
      })
    })
    server.on('secureConnection', (socket: TLSSocket) => {
      const pending = this.#pending.get(nameOf(socket))
      if (pending) this.#forget(pending)
      this.#secured.add(socket)
      socket.once('close', () => this.#secured.delete(socket))
    })
    server.on('tlsClientError', (error: NodeJS.ErrnoException, socket: TLSSocket) => {
      const verdict = socket.authorizationError as unknown as string | null
      this.#report(describeHandshakeFailure(error.code, verdict), this.#addressOf(socket))
    })
  }

  /** The handshake succeeded, but such a client has no business here. */
  refuse(socket: TLSSocket): void {
    this.#report(describeHandshakeFailure('INVALID_PURPOSE'), this.#addressOf(socket))
    socket.destroy()
  }

  /** Cuts handshakes in progress, so that a shutdown does not wait for unknown clients. */
  cutPending(): void {
    for (const { socket } of [...this.#pending.values()]) socket.destroy()
  }

  /** Cuts every connection, because HTTP/2 would wait for the other end to hang up first. */
  cutAll(): void {
    this.cutPending()
    for (const socket of this.#secured) socket.destroy()
  }

  /** A connection joins the line with its first record, so that those which stall before have no turn. */
  #admit(socket: Socket, shakeHands: () => void): void {
    this.#makeRoom()
    const pending: Pending = { socket, name: nameOf(socket), done: () => {} }
    this.#pending.set(pending.name, pending)
    this.#silent.add(pending)
    this.#addresses.set(socket, socket.remoteAddress ?? 'unknown')
    socket.setTimeout(SESSION.dialMs, () => {
      this.#report(describeHandshakeFailure('ERR_TLS_HANDSHAKE_TIMEOUT'), socket.remoteAddress)
      socket.destroy()
    })
    socket.on('error', () => {}) // TLS does not listen yet
    // also after a failed handshake, because TLS closes the socket below it
    socket.once('close', () => this.#forget(pending))
    awaitFirstRecord(socket, (first) => this.#judge(pending, first, shakeHands))
  }

  #judge(pending: Pending, first: FirstRecord, shakeHands: () => void): void {
    if (first === 'here') {
      this.#silent.delete(pending)
      this.#queue(pending, shakeHands)
      return
    }
    const { socket } = pending
    if (first === 'not_tls') {
      this.#report(describeHandshakeFailure('ERR_SSL_WRONG_VERSION_NUMBER'), socket.remoteAddress)
    }
    socket.destroy()
  }

  #queue(pending: Pending, shakeHands: () => void): void {
    const { socket } = pending
    const queuedAt = performance.now()
    const entered = this.#line.enter((end) => {
      // a client that gave up may look connected while nothing reads from it
      if (socket.destroyed || performance.now() - queuedAt > GIVEN_UP_MS) {
        socket.destroy()
        end()
        return
      }
      const endTurn = (): void => {
        this.#slowDown(pending)
        end()
      }
      // what has arrived is read before, so that a busy process does not take its clients for slow ones
      const timer = setTimeout(() => setImmediate(endTurn), SESSION.handshakeTurnMs).unref()
      pending.done = () => {
        clearTimeout(timer)
        end()
      }
      socket.setTimeout(0)
      shakeHands()
    })
    if (entered.kind === 'refused') {
      this.#refuse(socket, 'more connections wait for a handshake than have a turn in time')
    } else if (entered.isWaiting) pending.done = entered.leave
  }

  /** Its turn is over. The handshake goes on. */
  #slowDown(pending: Pending): void {
    if (this.#pending.get(pending.name) !== pending) return
    this.#makeRoom()
    this.#slow.add(pending)
  }

  /** Ends the oldest and not the newcomer, for an honest client is neither silent nor slow for long. */
  #makeRoom(): void {
    if (this.#silent.size + this.#slow.size < this.limit) return
    // of the kind of which there are more, so that a flood of one kind does not end the other
    const [oldest] = this.#silent.size > this.#slow.size ? this.#silent : this.#slow
    if (!oldest) return
    this.#forget(oldest)
    this.#refuse(oldest.socket, 'newer connections took its place before it finished the handshake')
  }

  #forget(pending: Pending): void {
    pending.done()
    this.#silent.delete(pending)
    this.#slow.delete(pending)
    if (this.#pending.get(pending.name) === pending) this.#pending.delete(pending.name)
  }

  #refuse(socket: Socket, message: string): void {
    this.#report({ kind: 'too_many', message }, socket.remoteAddress)
    socket.destroy()
  }

  /** TLS forgets the address of a socket it closed, so it was recorded on arrival. */
  #addressOf(socket: TLSSocket): string {
    const { _parent: below } = socket as unknown as { _parent?: Socket }
    return (below && this.#addresses.get(below)) ?? socket.remoteAddress ?? 'unknown'
  }

  #report(failure: { kind: string; message: string }, address: string | undefined): void {
    const { kind } = failure
    const { port, byKind } = this.#words
    const message = (byKind && Object.hasOwn(byKind, kind) && byKind[kind]) || failure.message
    const followed = this.#quiet.get(kind)
    if (followed !== undefined) {
      this.#quiet.set(kind, followed + 1)
      return
    }
    this.#quiet.set(kind, 0)
    this.#log.warn({ kind, address }, `A connection to ${port} was refused: ${message}.`)
    setTimeout(() => {
      const more = this.#quiet.get(kind) ?? 0
      this.#quiet.delete(kind)
      if (more > 0)
        this.#log.warn({ kind, more }, `${more} more connections were refused: ${message}.`)
    }, SESSION.handshakeLogMs).unref()
  }
}

/** Identifies a live TCP connection of a listener, for the raw socket and for TLS above it. */
const nameOf = (socket: Socket): string => `${socket.remoteAddress}|${socket.remotePort}`
