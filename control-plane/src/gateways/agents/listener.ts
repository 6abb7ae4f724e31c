// The agents' gRPC listener. Only `certifiedAgent` derives an agent from a connection. Bulk transfers name themselves in
// the handshake and are diverted before HTTP/2. Handlers decide what calls do and whether an agent is known and not
// revoked.
import { createHash } from 'node:crypto'
import type { TLSSocket } from 'node:tls'
import { SESSION } from '@berth/shared'
import {
  AgentService,
  BULK_TRANSFER,
  type LogDown,
  type ServiceHandlers,
  serviceDefinition,
} from '@berth/shared/wire'
import type { handleBidiStreamingCall, UntypedServiceImplementation } from '@grpc/grpc-js'
import {
  type AgentIdentity,
  type Authority,
  CONTROL_PLANE_NAME,
  issueProbeCertificate,
  type KeyPair,
  parseAgentIdentity,
} from '../../keys/authority.ts'
import type { HandshakeLimits, Log } from '../grpc/handshakes.ts'
import { type Listener, openGrpcListener } from '../grpc/listener.ts'

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
  /** Key and certificate of this listener, from `issueServerCertificate`. */
  server: KeyPair
  handlers: AgentHandlers
  /** Receives bulk transfers; if absent, there are none. */
  fileLine?: (socket: TLSSocket) => void
  log: Log
  handshakeLimits?: HandshakeLimits
}

/** Binds, tests itself and returns. Say Goodbye to the agents before you close it. */
export function openListener(settings: ListenerSettings): Promise<Listener> {
  const { authority, fileLine } = settings
  const handlers = settings.handlers as unknown as UntypedServiceImplementation
  return openGrpcListener({
    title: "The agents' listener",
    portVariable: 'BERTH_AGENT_PORT',
    host: settings.host,
    port: settings.port,
    trusted: [authority.certificatePem],
    own: settings.server,
    connections: SESSION.connections,
    streamsPerConnection: SESSION.streamsPerConnection,
    keepaliveMs: SESSION.keepaliveMs,
    keepaliveTimeoutMs: SESSION.keepaliveTimeoutMs,
    serve: (server) => server.addService(serviceDefinition(AgentService, 'streamLogs'), handlers),
    ...(fileLine ? { protocols: [BULK_TRANSFER] } : {}),
    take: (socket) => {
      if (!fileLine || socket.alpnProtocol !== BULK_TRANSFER) return 'http2'
      fileLine(socket)
      return 'taken'
    },
    async probe() {
      const { keyPem, certificatePem } = await issueProbeCertificate(authority, new Date())
      const servername = CONTROL_PLANE_NAME
      return { ca: authority.certificatePem, key: keyPem, cert: certificatePem, servername }
    },
    handshakeWords: { port: "the agents' port" },
    ...(settings.handshakeLimits ? { handshakeLimits: settings.handshakeLimits } : {}),
    log: settings.log,
  })
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
