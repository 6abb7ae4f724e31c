// Connections to other control planes: one for each live peer, made on demand. Invariants: the other side has proved
// that it is the peer that was asked for; a connection is cut when the peer's lease ends or it stops answering, and
// closed when it is idle or our certificate was replaced.
import {
  connect,
  createSecureContext,
  type PeerCertificate,
  type SecureContext,
  type TLSSocket,
} from 'node:tls'
import { SESSION } from '@berth/shared'
import {
  isConnected,
  openPeerClient,
  PASSED_TRANSFER,
  type PeerClient,
} from '@berth/shared/wire/peers'
import { CONTROL_PLANE_NAME, parseReplicaId } from '../keys/authority.ts'
import { PEERS } from '../limits/peers.ts'
import type { OwnCertificate } from './own-certificate.ts'

/** Who is alive, and where. */
export interface Directory {
  /** Undefined if it does not exist or its lease is over. */
  find(replicaId: string): Promise<{ peerAddress: string | null } | undefined>
  listLive(): Promise<{ id: string; peerAddress: string | null }[]>
}

const OPTIONS = {
  // the certificate names no host; this keeps a numeric address out of the TLS server name, where it is not allowed
  'grpc.ssl_target_name_override': CONTROL_PLANE_NAME,
  'grpc.default_authority': CONTROL_PLANE_NAME,
  'grpc.keepalive_time_ms': PEERS.keepaliveMs,
  'grpc.keepalive_timeout_ms': PEERS.keepaliveTimeoutMs,
  'grpc.enable_retries': 0,
  // real back-pressure: otherwise write callbacks fire immediately, up to 1 MiB
  'grpc.per_rpc_retry_buffer_size': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.max_receive_message_length': SESSION.receiveBytes,
  'grpc.max_send_message_length': SESSION.receiveBytes,
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_http_proxy': 0, // a peer is never behind the proxy for the internet
} as const

/** How one peer is dialed: where it is, what we show, and whom we expect. */
class Dialing {
  readonly #address: string
  readonly #context: SecureContext
  readonly #checkServer: (certificate: PeerCertificate) => Error | undefined

  constructor(own: OwnCertificate, replicaId: string, address: string) {
    const { certificatePem: cert, keyPem: key } = own.current
    this.#address = address
    this.#context = createSecureContext({ ca: own.authorityPem, cert, key, minVersion: 'TLSv1.3' })
    this.#checkServer = ({ raw }) =>
      parseReplicaId(raw, own.installationId) === replicaId
        ? undefined
        : new Error(`the other side is not the control plane ${replicaId}`)
  }

  client(): PeerClient {
    const [address, context, checkServer] = [this.#address, this.#context, this.#checkServer]
    return openPeerClient({ address, context, checkServer, options: OPTIONS })
  }

  line(): TLSSocket {
    const [, bracketed, plain, port] = /^(?:\[(.+)\]|(.+)):(\d+)$/.exec(this.#address) ?? []
    return connect({
      host: bracketed ?? plain ?? '',
      port: Number(port),
      servername: CONTROL_PLANE_NAME,
      secureContext: this.#context,
      checkServerIdentity: (_, certificate) => this.#checkServer(certificate),
      ALPNProtocols: [PASSED_TRANSFER],
    })
  }
}

/** One connection and the calls on it. */
export class PeerConnection {
  readonly client: PeerClient
  readonly #dialing: Dialing
  readonly #ends = new Set<() => void>()
  readonly #whenIdle: () => void
  #idle: NodeJS.Timeout | undefined
  #isRetired = false
  #isClosed = false

  constructor(dialing: Dialing, whenIdle: () => void) {
    this.#dialing = dialing
    this.client = dialing.client()
    this.#whenIdle = whenIdle
    this.#rest()
  }

  /** A second connection, for one bulk transfer; undefined if it is not open in time. It is cut with this one. */
  openLine(): Promise<TLSSocket | undefined> {
    const socket = this.#dialing.line()
    socket.setNoDelay(true)
    socket.on('error', () => undefined) // its close is what counts
    socket.once(
      'close',
      this.use(() => socket.destroy()),
    )
    return new Promise((resolve) => {
      const timer = setTimeout(() => socket.destroy(), PEERS.dialMs)
      socket.once('close', () => {
        clearTimeout(timer)
        resolve(undefined)
      })
      socket.once('secureConnect', () => {
        clearTimeout(timer)
        if (socket.alpnProtocol === PASSED_TRANSFER) resolve(socket)
        else socket.destroy()
      })
    })
  }

  /** Registers a call that must end when the connection is cut. Call the returned function when it is over. */
  use(end: () => void): () => void {
    clearTimeout(this.#idle)
    this.#ends.add(end)
    return () => {
      if (this.#ends.delete(end) && this.#ends.size === 0) this.#rest()
    }
  }

  /** Takes no more calls; closes when those on it are over. */
  retire(): void {
    this.#isRetired = true
    if (this.#ends.size === 0) this.cut()
  }

  cut(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    clearTimeout(this.#idle)
    for (const end of [...this.#ends]) end()
    this.client.close()
  }

  #rest(): void {
    if (this.#isClosed) return
    if (this.#isRetired) this.cut()
    else this.#idle = setTimeout(this.#whenIdle, PEERS.idleMs).unref()
  }
}

export class PeerConnections {
  readonly #own: OwnCertificate
  readonly #directory: Directory
  readonly #open = new Map<string, PeerConnection>()
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(own: OwnCertificate, directory: Directory) {
    this.#own = own
    this.#directory = directory
    own.onRenewed(() => {
      for (const [id, connection] of [...this.#open]) {
        this.#open.delete(id)
        connection.retire()
      }
    })
  }

  /** An open connection; undefined if this peer is not alive or does not answer. */
  async reach(replicaId: string): Promise<PeerConnection | undefined> {
    const connection = this.#open.get(replicaId) ?? (await this.#connect(replicaId))
    if (!connection) return undefined
    const done = connection.use(() => {}) // not idle while it is opened
    const isOpen = await isConnected(connection.client, PEERS.dialMs)
    done()
    if (isOpen && !this.#isClosed) return connection
    this.#drop(replicaId, connection)
    return undefined
  }

  close(): void {
    this.#isClosed = true
    for (const [id, connection] of [...this.#open]) this.#drop(id, connection)
  }

  async #connect(replicaId: string): Promise<PeerConnection | undefined> {
    const address = (await this.#directory.find(replicaId))?.peerAddress
    const existing = this.#open.get(replicaId) // another caller was faster
    if (existing || !address || this.#isClosed) return existing
    if (this.#open.size >= PEERS.connections) return undefined
    const dialing = new Dialing(this.#own, replicaId, address)
    const connection = new PeerConnection(dialing, () => this.#drop(replicaId, connection))
    this.#open.set(replicaId, connection)
    this.#timer ??= setInterval(() => {
      this.#cutDead().catch(() => undefined) // the database is away: keepalive still finds dead peers
    }, PEERS.lookMs).unref()
    return connection
  }

  async #cutDead(): Promise<void> {
    const live = new Set((await this.#directory.listLive()).map(({ id }) => id))
    for (const [id, connection] of [...this.#open]) {
      if (!live.has(id)) this.#drop(id, connection)
    }
  }

  #drop(replicaId: string, connection: PeerConnection): void {
    connection.cut()
    if (this.#open.get(replicaId) === connection) this.#open.delete(replicaId)
    if (this.#open.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
