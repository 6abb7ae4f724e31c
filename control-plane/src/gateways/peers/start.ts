// Makes this control plane one of several: opens its port for the others and tells them the address. On SQLite there
// are no others.
import { hostname } from 'node:os'
import type { Config } from '../../config.ts'
import type { Context } from '../../context.ts'
import { OwnCertificate } from '../../peers/own-certificate.ts'
import { Peers } from '../../peers/peers.ts'
import { findLocalAddress } from '../../store/installation/local-address.ts'
import { atPort } from '../grpc/listener.ts'
import { openPeerGateway } from './gateway.ts'

/** Before agents connect, because others will ask for them. Returns the function that ends it. */
export async function joinPeers(ctx: Context): Promise<() => Promise<void>> {
  const { config, authority, installationId, replicaId, log } = ctx
  if (config.databaseUrl === undefined) return async () => {}
  const local = await findLocalAddress(config.databaseUrl)
  const own = await OwnCertificate.issue({ authority, installationId, replicaId, log })
  const gateway = await openPeerGateway(ctx, own, {
    host: choosePeerHost(config, local),
    port: config.peerPort,
  })
  const peers = new Peers(own, ctx.replicas)
  ctx.peers = peers
  const address = config.peerAddress ?? atPort(local, gateway.port)
  await ctx.replicas.rename({ peerAddress: address })
  const others = (await ctx.replicas.listLive()).filter(({ host }) => host !== hostname())
  if (others.length > 0 && isLoopback(address)) {
    const message = 'Other control planes cannot reach this one: set BERTH_PEER_ADDRESS.'
    log.warn({ address, others: others.map(({ host }) => host) }, message)
  }
  return async () => {
    peers.close()
    own.close()
    await gateway.close()
  }
}

/**
 * Where the others are told to dial. An operator may name an address that this machine does not have, for instance of a
 * forwarded port, so it then listens everywhere.
 */
export function choosePeerHost(
  { peerHost, peerAddress }: Pick<Config, 'peerHost' | 'peerAddress'>,
  local: string,
): string {
  if (peerHost !== undefined) return peerHost
  if (peerAddress === undefined) return local
  return local.includes(':') ? '::' : '0.0.0.0'
}

const isLoopback = (address: string): boolean => /^(localhost|127\.|\[::1\])/.test(address)
