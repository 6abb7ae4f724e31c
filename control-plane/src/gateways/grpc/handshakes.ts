// Handles connections of a gRPC listener until the TLS handshake ends. It limits concurrent handshakes, so that a
// thousand returning agents wait in their own back-off and not in this process, and logs each failure in words an
// operator can act on. TLS checks the certificate; this file does not judge who connects.
import type { Http2SecureServer } from 'node:http2'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { SESSION } from '@berth/shared'

export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

const UNKNOWN_CA = 'its certificate is not from this installation; give the server a new join token'
const EXPIRED = 'its certificate has expired; start the agent so that it renews, or join it again'
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
    ERR_SSL_HTTP_REQUEST: ['not_tls', 'it spoke plain HTTP; this port is for agents alone'],
    ERR_SSL_WRONG_VERSION_NUMBER: ['not_tls', 'it did not speak TLS'],
    ERR_SSL_UNKNOWN_PROTOCOL: ['not_tls', 'it did not speak TLS'],
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
  readonly #limit: number
  readonly #pending = new Map<string, Socket>()
  readonly #secured = new Set<TLSSocket>()
  readonly #addresses = new WeakMap<Socket, string>()
  /** Kinds logged recently, with the number of repetitions. Bounded by the kinds above. */
  readonly #quiet = new Map<string, number>()

  constructor(log: Log, words: HandshakeWords, limit: number = SESSION.pendingHandshakes) {
    this.#log = log
    this.#words = words
    this.#limit = limit
  }

  /** Number of handshakes in progress. */
  get pending(): number {
    return this.#pending.size
  }

  watch(server: Http2SecureServer): void {
    const accept = server.listeners('connection')
    server.removeAllListeners('connection')
    server.on('connection', (socket: Socket) => {
      if (!this.#admit(socket)) return
      for (const listener of accept) listener.call(server, socket)
    })
    server.on('secureConnection', (socket: TLSSocket) => {
      this.#pending.delete(nameOf(socket))
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
    for (const socket of this.#pending.values()) socket.destroy()
  }

  /** Cuts every connection, because HTTP/2 would wait for the other end to hang up first. */
  cutAll(): void {
    this.cutPending()
    for (const socket of this.#secured) socket.destroy()
  }

  #admit(socket: Socket): boolean {
    if (this.#pending.size >= this.#limit) {
      this.#report(
        { kind: 'too_many', message: `${this.#limit} handshakes are under way already` },
        socket.remoteAddress,
      )
      socket.destroy()
      return false
    }
    const name = nameOf(socket)
    this.#pending.set(name, socket)
    this.#addresses.set(socket, socket.remoteAddress ?? 'unknown')
    // also after a failed handshake, because TLS closes the socket below it
    socket.once('close', () => {
      if (this.#pending.get(name) === socket) this.#pending.delete(name)
    })
    return true
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
