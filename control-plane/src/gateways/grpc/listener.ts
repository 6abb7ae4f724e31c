// A gRPC listener: TLS 1.3, a client certificate of our authority required for every connection, wide receive windows.
// It starts completely or fails: after binding it dials itself and checks its windows. Connections can be refused or
// taken over before HTTP/2 reads a byte.
import { constants } from 'node:crypto'
import type { Http2SecureServer } from 'node:http2'
import type { TLSSocket } from 'node:tls'
import { SESSION } from '@berth/shared'
import { Server, ServerCredentials } from '@grpc/grpc-js'
import type { KeyPair } from '../../keys/authority.ts'
import { type HandshakeLimits, Handshakes, type HandshakeWords, type Log } from './handshakes.ts'
import { bindWithHook, checkWindows, type Probe } from './http2-windows.ts'

export interface ListenerSettings {
  /** In messages for operators: "The agents' listener". */
  title: string
  /** The setting that names its port. */
  portVariable: string
  /** An address, not a name: `0.0.0.0`, `::`, `127.0.0.1`. */
  host: string
  /** 0 takes a free port. */
  port: number
  /** Accepted authorities (PEM). */
  trusted: readonly string[]
  /** Key and certificate of this listener. */
  own: KeyPair
  /** Besides those whose handshake is under way. */
  connections: number
  streamsPerConnection: number
  keepaliveMs: number
  keepaliveTimeoutMs: number
  /** Adds the services. */
  serve(server: Server): void
  /** Protocols of the TLS handshake that do not become HTTP/2. */
  protocols?: readonly string[]
  /** Decides on each connection: HTTP/2, handled by the callee, or refused. */
  take: (socket: TLSSocket) => 'http2' | 'taken' | 'refused'
  /** How this listener is dialed for its own test. */
  probe(): Promise<Probe>
  handshakeWords: HandshakeWords
  handshakeLimits?: HandshakeLimits
  log: Log
}

export interface Listener {
  readonly port: number
  /** Stops accepting, lets calls end for `graceMs`, then cuts them. */
  close(graceMs: number): Promise<void>
  /** Cuts everything now. */
  forceClose(): Promise<void>
  /** New connections see the new certificate and authorities; open ones continue. */
  reloadCertificate(own: KeyPair, trusted: readonly string[]): void
}

const TLS = {
  minVersion: 'TLSv1.3',
  // no tickets: a resumed session would not check the certificate's dates again
  secureOptions: constants.SSL_OP_NO_TICKET,
} as const

export const atPort = (host: string, port: number): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`

/** The address at which this machine reaches a listener on `host`. */
const dialable = (host: string): string =>
  host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host

function bind(server: Server, settings: ListenerSettings): Promise<number> {
  const { title, portVariable, host, port, trusted, own } = settings
  const credentials = ServerCredentials.createSsl(
    Buffer.from(trusted.join('\n')),
    [{ private_key: Buffer.from(own.keyPem), cert_chain: Buffer.from(own.certificatePem) }],
    true,
  )
  return new Promise((resolve, reject) => {
    server.bindAsync(atPort(host, port), credentials, (error, bound) => {
      if (error)
        reject(
          new Error(
            `${title} cannot use ${atPort(host, port)}: ${error.message}. ` +
              `Free the port or set ${portVariable} to another.`,
            { cause: error },
          ),
        )
      else resolve(bound)
    })
  })
}

/** Decides before HTTP/2, which would accept any protocol name. */
function divert(
  server: Http2SecureServer,
  take: ListenerSettings['take'],
  handshakes: Handshakes,
): void {
  const others = server.listeners('secureConnection')
  server.removeAllListeners('secureConnection')
  server.on('secureConnection', (socket: TLSSocket) => {
    const decision = take(socket)
    if (decision === 'refused') handshakes.refuse(socket)
    if (decision !== 'http2') return
    for (const listener of others) listener.call(server, socket)
  })
}

const chooseProtocol =
  (known: readonly string[]) =>
  ({ protocols }: { protocols: string[] }): string | undefined =>
    known.find((name) => protocols.includes(name))

/** Binds, tests itself and returns. If the test fails, it closes everything and rejects. */
export async function openGrpcListener(settings: ListenerSettings): Promise<Listener> {
  const { host, protocols, take } = settings
  const server = new Server({
    'grpc.keepalive_time_ms': settings.keepaliveMs,
    'grpc.keepalive_timeout_ms': settings.keepaliveTimeoutMs,
    'grpc.max_receive_message_length': SESSION.receiveBytes,
    'grpc.max_concurrent_streams': settings.streamsPerConnection,
    'grpc.enable_channelz': 0,
  })
  settings.serve(server)
  const handshakes = new Handshakes(settings.log, settings.handshakeWords, settings.handshakeLimits)
  const open: { server: Http2SecureServer; closed: Promise<void> }[] = []
  const ALPNCallback = protocols && chooseProtocol(['h2', ...protocols])
  const hook = {
    options: {
      ...TLS,
      handshakeTimeout: SESSION.dialMs,
      ...(ALPNCallback ? { ALPNCallback } : {}),
    },
    made: (http2Server: Http2SecureServer) => {
      // Node drops those above without a word, so connections that wait for a handshake have room of their own
      http2Server.maxConnections = settings.connections + handshakes.limit
      divert(http2Server, take, handshakes)
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
    await checkWindows(atPort(dialable(host), port), await settings.probe(), settings.title)
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
    reloadCertificate: (own, trusted) => {
      const context = { ...TLS, ca: [...trusted], key: own.keyPem, cert: own.certificatePem }
      for (const one of open) one.server.setSecureContext(context)
    },
  }
}
