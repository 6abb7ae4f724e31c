// The agents' gRPC listener: TLS 1.3, and a client certificate of our authority required for every connection. Only
// `certifiedAgent` derives an agent from a connection. Bulk transfers name themselves in the handshake and are diverted
// before HTTP/2. It starts completely or fails: after binding it dials itself and checks its receive windows. Handlers
// decide what calls do and whether an agent is known and not revoked.
import { constants, createHash } from 'node:crypto'
import type { Http2SecureServer } from 'node:http2'
import type { TLSSocket } from 'node:tls'
import { SESSION } from '@berth/shared'
import {
  AgentService,
  BULK_TRANSFER,
  type LogDown,
  type ServiceHandlers,
  serviceDefinition,
} from '@berth/shared/wire'
import {
  type handleBidiStreamingCall,
  Server,
  ServerCredentials,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js'
import {
  type AgentIdentity,
  type Authority,
  issueProbeCertificate,
  type KeyPair,
  parseAgentIdentity,
} from '../../keys/authority.ts'
import { type HandshakeLimits, Handshakes, type Log } from './handshakes.ts'
import { bindWithHook, checkWindows } from './http2-windows.ts'

/** One function for each call; requests of `streamLogs` stay bytes (log-codec.ts reads them). */
export type AgentHandlers = Omit<ServiceHandlers<typeof AgentService>, 'streamLogs'> & {
  streamLogs: handleBidiStreamingCall<Buffer, LogDown>
}

interface ListenerSettings {
  /** An address, not a name: `0.0.0.0`, `::`, `127.0.0.1`. */
  host: string
  /** 0 takes a free port. */
  port: number
  /** The authority of accepted certificates; it also signs the temporary one of the self-test. */
  authority: Authority
  /** Further accepted authorities (PEM), while one is being replaced. */
  alsoTrusted?: readonly string[]
  /** Key and certificate of this listener, from `issueServerCertificate`. */
  server: KeyPair
  handlers: AgentHandlers
  /** Receives bulk transfers; if absent, there are none. */
  fileLine?: (socket: TLSSocket) => void
  log: Log
  handshakeLimits?: HandshakeLimits
}

export interface Listener {
  readonly port: number
  /** Stops accepting, lets calls end for `graceMs`, then cuts them. Say Goodbye to the agents first. */
  close(graceMs: number): Promise<void>
  /** Cuts everything now. */
  forceClose(): Promise<void>
  /** New connections see the new certificate and authorities; open ones continue. */
  reloadCertificate(server: KeyPair, alsoTrusted?: readonly string[]): void
}

const OPTIONS = {
  'grpc.keepalive_time_ms': SESSION.keepaliveMs,
  'grpc.keepalive_timeout_ms': SESSION.keepaliveTimeoutMs,
  'grpc.max_receive_message_length': SESSION.receiveBytes,
  'grpc.max_concurrent_streams': SESSION.streamsPerConnection,
  'grpc.enable_channelz': 0,
} as const

const TLS = {
  minVersion: 'TLSv1.3',
  // no tickets: a resumed session would not check the certificate's dates again
  secureOptions: constants.SSL_OP_NO_TICKET,
} as const

const atPort = (host: string, port: number): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`

/** The address at which this machine reaches a listener on `host`. */
const dialable = (host: string): string =>
  host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host

function bind(server: Server, settings: ListenerSettings): Promise<number> {
  const { authority, alsoTrusted = [], server: own } = settings
  const credentials = ServerCredentials.createSsl(
    Buffer.from([authority.certificatePem, ...alsoTrusted].join('\n')),
    [{ private_key: Buffer.from(own.keyPem), cert_chain: Buffer.from(own.certificatePem) }],
    true,
  )
  return new Promise((resolve, reject) => {
    server.bindAsync(atPort(settings.host, settings.port), credentials, (error, port) => {
      if (error)
        reject(
          new Error(
            `The agents' listener cannot use ${atPort(settings.host, settings.port)}: ` +
              `${error.message}. Free the port or set BERTH_AGENT_PORT to another.`,
            { cause: error },
          ),
        )
      else resolve(port)
    })
  })
}

const ALPNCallback = ({ protocols }: { protocols: string[] }): string | undefined =>
  ['h2', BULK_TRANSFER].find((name) => protocols.includes(name))

/** Diverts bulk transfers before HTTP/2, which would accept any protocol name. */
function divert(server: Http2SecureServer, fileLine: (socket: TLSSocket) => void): void {
  const others = server.listeners('secureConnection')
  server.removeAllListeners('secureConnection')
  server.on('secureConnection', (socket: TLSSocket) => {
    if (socket.alpnProtocol === BULK_TRANSFER) fileLine(socket)
    else for (const listener of others) listener.call(server, socket)
  })
}

/** Binds, tests itself and returns. If the test fails, it closes everything and rejects. */
export async function openListener(settings: ListenerSettings): Promise<Listener> {
  const { authority, host, fileLine } = settings
  const server = new Server(OPTIONS)
  const handlers = settings.handlers as unknown as UntypedServiceImplementation
  server.addService(serviceDefinition(AgentService, 'streamLogs'), handlers)
  const handshakes = new Handshakes(settings.log, settings.handshakeLimits)
  const open: { server: Http2SecureServer; closed: Promise<void> }[] = []
  const hook = {
    options: { ...TLS, handshakeTimeout: SESSION.dialMs, ...(fileLine ? { ALPNCallback } : {}) },
    made: (http2Server: Http2SecureServer) => {
      http2Server.maxConnections = SESSION.connections
      if (fileLine) divert(http2Server, fileLine)
      handshakes.watch(http2Server)
      const closed = new Promise<void>((resolve) => http2Server.once('close', resolve))
      http2Server.once('listening', () => open.push({ server: http2Server, closed }))
    },
  }
  const allClosed = () => Promise.all(open.map((one) => one.closed)).then(() => {})
  const forceClose = (): Promise<void> => {
    server.forceShutdown()
    setImmediate(() => handshakes.cutAll()) // after its last frames were written
    return allClosed()
  }
  const port = await bindWithHook(hook, () => bind(server, settings))
  try {
    if (open.length === 0)
      throw new Error(
        'grpc-js did not make its server through node:http2; its receive windows cannot be ' +
          'enlarged. Run the pinned version.',
      )
    const probe = await issueProbeCertificate(authority, new Date())
    await checkWindows(atPort(dialable(host), port), authority.certificatePem, probe)
  } catch (error) {
    await forceClose()
    throw error
  }
  return {
    port,
    forceClose,
    close: async (graceMs) => {
      // its callback may never run; the end of the sockets counts
      server.tryShutdown(() => {})
      handshakes.cutPending()
      const timer = setTimeout(() => void forceClose(), graceMs)
      await allClosed()
      clearTimeout(timer)
    },
    reloadCertificate: (own, alsoTrusted = []) => {
      const ca = [authority.certificatePem, ...alsoTrusted]
      const context = { ...TLS, ca, key: own.keyPem, cert: own.certificatePem }
      for (const one of open) one.server.setSecureContext(context)
    },
  }
}

/** Parsing takes 2 ms and every call needs it, so results are cached by the certificate's bytes. */
const identities = new Map<string, AgentIdentity | undefined>()

/** Returns the calling agent. */
export const agentIdentity = (
  call: { getAuthContext(): { sslPeerCertificate?: { raw: Buffer } | undefined } | null },
  installationId: string,
): AgentIdentity | undefined =>
  certifiedAgent(call.getAuthContext()?.sslPeerCertificate?.raw, installationId)

/** Returns the agent of a bulk transfer. */
export const lineIdentity = (
  socket: TLSSocket,
  installationId: string,
): AgentIdentity | undefined =>
  socket.authorized ? certifiedAgent(socket.getPeerCertificate().raw, installationId) : undefined

/** Derives the agent from its certificate alone; undefined if it is not of this installation. */
function certifiedAgent(
  raw: Buffer | undefined,
  installationId: string,
): AgentIdentity | undefined {
  if (!raw) return undefined
  const key = `${installationId} ${createHash('sha256').update(raw).digest('hex')}`
  if (!identities.has(key)) {
    if (identities.size >= SESSION.connections) identities.clear() // rare, and only costs time
    identities.set(key, parseAgentIdentity(new Uint8Array(raw), installationId))
  }
  return identities.get(key)
}
