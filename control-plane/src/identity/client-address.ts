// Whose address a request counts for: the connection's, or, where proxies are named (BERTH_TRUSTED_PROXY), the nearest
// one of X-Forwarded-For that no named proxy has. One rule for every gateway: Fastify gets the same judgement of proxies.
import type { IncomingMessage } from 'node:http'
import { BlockList, isIP, isIPv6 } from 'node:net'

export type IsTrustedProxy = (address: string) => boolean

/** Of addresses and networks, which were checked when they were read. */
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

/** What a chain of proxies wrote last is read first; whoever is not trusted ends it. */
export function clientAddress(request: IncomingMessage, isTrusted: IsTrustedProxy): string {
  const forwarded = [request.headers['x-forwarded-for'] ?? []].flat().join(',')
  const before = forwarded === '' ? [] : forwarded.split(',').map((part) => part.trim())
  let address = request.socket.remoteAddress ?? ''
  while (before.length > 0 && isTrusted(address)) address = before.pop() ?? ''
  return address
}
