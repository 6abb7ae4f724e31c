// What control planes say to each other, and the client for it. Apart from the rest of the protocol, because agents have
// no use for it.
import type { PeerCertificate, SecureContext } from 'node:tls'
import { type ClientOptions, connectivityState, credentials } from '@grpc/grpc-js'
import { PeerService } from './gen/berth/peer/v1/peer_pb.ts'
import { createClient, type ServiceClient } from './grpc.ts'

export { status as GrpcStatus } from '@grpc/grpc-js'
export * from './gen/berth/peer/v1/peer_pb.ts'

/** A bulk transfer (ALPN `berth-files/1`) that is passed on: a record with DeliverOpen, then its bytes as they came. */
export const PASSED_TRANSFER = 'berth-passed-files/1'

export type PeerClient = ServiceClient<(typeof PeerService)['method']>

interface PeerDial {
  /** `host:port` */
  address: string
  context: SecureContext
  /** Judges the certificate of the other side, which TLS has checked against our authority. */
  checkServer(certificate: PeerCertificate): Error | undefined
  options: ClientOptions
}

export const openPeerClient = ({ address, context, checkServer, options }: PeerDial): PeerClient =>
  createClient(
    PeerService,
    address,
    credentials.createFromSecureContext(context, {
      checkServerIdentity: (_, certificate) => checkServer(certificate),
    }),
    options,
  )

/** Resolves with whether the connection is open; false as soon as opening it failed, or after `withinMs`. */
export function isConnected(client: PeerClient, withinMs: number): Promise<boolean> {
  const channel = client.getChannel()
  const deadline = Date.now() + withinMs
  return new Promise((resolve) => {
    const look = (): void => {
      const state = channel.getConnectivityState(true)
      if (state === connectivityState.READY) resolve(true)
      else if (state === connectivityState.IDLE || state === connectivityState.CONNECTING)
        channel.watchConnectivityState(state, deadline, (error) =>
          error ? resolve(false) : look(),
        )
      else resolve(false)
    }
    look()
  })
}
