// Determines the client address of a request: the connection's, or, if proxies are configured (BERTH_TRUSTED_PROXY),
// the last one in X-Forwarded-For that is not a trusted proxy. Fastify uses the same rule, so every gateway agrees.
import type { IncomingMessage } from 'node:http'
import { BlockList, isIP, isIPv6 } from 'node:net'

export type IsTrustedProxy = (address: string) => boolean

/** Takes addresses and networks, which were validated when the configuration was read. */
export function trustProxies(proxies: readonly string[]): IsTrustedProxy {
  const known = new BlockList()
  for (const proxy of proxies) {
    const [address = '', bits] = proxy.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    if (bits === undefined) known.addAddress(address, family)
    else known.addSubnet(address, Number(bits), family)
  }
  return (address) => isIP(address) !== 0 && known.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
}

/** Reads the chain from its end, which the nearest proxy wrote; the first untrusted address ends it. */
export function clientAddress(request: IncomingMessage, isTrusted: IsTrustedProxy): string {
  const forwarded = [request.headers['x-forwarded-for'] ?? []].flat().join(',')
  const before = forwarded === '' ? [] : forwarded.split(',').map((part) => part.trim())
  let address = request.socket.remoteAddress ?? ''
  while (before.length > 0 && isTrusted(address)) address = before.pop() ?? ''
  return address
}
