// Decides where the control plane may connect. A hostname is resolved once, every address is judged, and the connection
// uses exactly those, so a changed DNS answer has no effect. Special ranges (loopback, private, link-local …) are
// refused unless the operator listed the name; cloud metadata addresses always. Users cannot bypass this.
import { lookup } from 'node:dns/promises'
import { BlockList, isIP, isIPv6 } from 'node:net'
import { LOOKS, METADATA_ADDRESSES } from '@berth/shared'

export interface Address {
  address: string
  family: 4 | 6
}

/** Returns every address of a name. */
export type Resolve = (host: string) => Promise<Address[]>

type OutboundCode = 'address_not_allowed' | 'name_not_resolved'

/** No connection was made. */
export class OutboundRefusal extends Error {
  override readonly name = 'OutboundRefusal'
  readonly code: OutboundCode
  constructor(code: OutboundCode, message: string) {
    super(message)
    this.code = code
  }
}

type Kind = 'public' | 'loopback' | 'private' | 'special' | 'metadata'

const V4: [Kind, string, number][] = [
  ...METADATA_ADDRESSES.v4.map((address): [Kind, string, number] => ['metadata', address, 32]),
  ['loopback', '127.0.0.0', 8],
  ['private', '10.0.0.0', 8],
  ['private', '172.16.0.0', 12],
  ['private', '192.168.0.0', 16],
  ['private', '100.64.0.0', 10],
  ['special', '0.0.0.0', 8],
  ['special', '169.254.0.0', 16],
  ['special', '192.0.0.0', 24],
  ['special', '192.0.2.0', 24],
  ['special', '192.88.99.0', 24],
  ['special', '198.18.0.0', 15],
  ['special', '198.51.100.0', 24],
  ['special', '203.0.113.0', 24],
  ['special', '224.0.0.0', 3],
]

const V6: [Kind, string, number][] = [
  ...METADATA_ADDRESSES.v6.map((address): [Kind, string, number] => ['metadata', address, 128]),
  ['loopback', '::1', 128],
  ['private', 'fc00::', 7],
  ['special', '100::', 64],
  ['special', '2001::', 23],
  ['special', '2001:db8::', 32],
  ['special', '3fff::', 20],
]

/** Only this part of IPv6 is assigned to the internet. */
const GLOBAL_V6 = { from: '2000::', bits: 3 }

const blocks = (rows: [Kind, string, number][], family: 'ipv4' | 'ipv6'): [Kind, BlockList][] =>
  rows.map(([kind, net, bits]) => {
    const list = new BlockList()
    list.addSubnet(net, bits, family)
    return [kind, list]
  })
const V4_BLOCKS = blocks(V4, 'ipv4')
const V6_BLOCKS = blocks(V6, 'ipv6')
const GLOBAL = new BlockList()
GLOBAL.addSubnet(GLOBAL_V6.from, GLOBAL_V6.bits, 'ipv6')

const judgeV4 = (address: string): Kind =>
  V4_BLOCKS.find(([, list]) => list.check(address, 'ipv4'))?.[0] ?? 'public'

/** The eight groups of an IPv6 address. */
function groupsOf(address: string): number[] {
  const host = new URL(`http://[${address}]/`).hostname.slice(1, -1)
  const [head = '', tail] = host.split('::')
  const numbers = (text: string): number[] =>
    text === '' ? [] : text.split(':').map((g) => Number.parseInt(g, 16))
  const [first, last] = [numbers(head), numbers(tail ?? '')]
  return tail === undefined
    ? first
    : [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last]
}

const dotted = (high: number, low: number): string =>
  [high >> 8, high & 255, low >> 8, low & 255].join('.')

/** IPv4 inside IPv6 (mapped, compatible, NAT64, 6to4, Teredo's client) is judged as the inner address. */
function innerV4(g: number[]): string | undefined {
  const at = (i: number): number => g[i] ?? 0
  const zeros = (to: number): boolean => g.slice(0, to).every((x) => x === 0)
  if (zeros(5) && at(5) === 0xffff) return dotted(at(6), at(7))
  if (zeros(4) && at(4) === 0xffff && at(5) === 0) return dotted(at(6), at(7))
  if (zeros(6) && (at(6) !== 0 || at(7) > 1)) return dotted(at(6), at(7))
  if (at(0) === 0x64 && at(1) === 0xff9b) return dotted(at(6), at(7))
  if (at(0) === 0x2002) return dotted(at(1), at(2))
  return undefined
}

export function judgeAddress(address: string): Kind {
  const plain = address.split('%')[0] ?? ''
  if (!isIPv6(plain)) return isIP(plain) === 4 ? judgeV4(plain) : 'special'
  const inner = innerV4(groupsOf(plain))
  if (inner !== undefined) return judgeV4(inner)
  const found = V6_BLOCKS.find(([, list]) => list.check(plain, 'ipv6'))?.[0]
  if (found) return found
  return GLOBAL.check(plain, 'ipv6') ? 'public' : 'special'
}

interface GuardRules {
  /** Names whose addresses may be private or loopback (BERTH_PRIVATE_GIT_HOSTS), in lower case. */
  privateHosts: readonly string[]
  /** Allows loopback and nothing else, for tests and the local example. */
  allowLoopback: boolean
  resolve?: Resolve
}

export interface Guard {
  /** Returns the addresses to connect to, or throws OutboundRefusal. */
  check(host: string): Promise<Address[]>
}

export async function resolveByHost(host: string): Promise<Address[]> {
  const found = await lookup(host, { all: true })
  return found.map(({ address, family }) => ({ address, family: family === 6 ? 6 : 4 }))
}

/** The resolver reads 2130706433, 0x7f.1, 0177.0.0.1 and 127.1 as addresses, so only the plain form passes. */
const isNumberLike = (host: string): boolean =>
  /^(?:0x[0-9a-f]*|[0-9]+)$/i.test(host.replace(/\.$/, '').split('.').at(-1) ?? '')

const isPlainV4 = (host: string): boolean =>
  isIP(host) === 4 && host.split('.').every((part) => String(Number(part)) === part)

function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error('the name took too long to resolve')), ms)
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

export function createGuard(rules: GuardRules): Guard {
  const resolve = rules.resolve ?? resolveByHost
  const listed = new Set(rules.privateHosts.map((h) => h.toLowerCase()))
  const refuse = (message: string): OutboundRefusal =>
    new OutboundRefusal('address_not_allowed', message)

  function requireAllowed(host: string, address: string): void {
    const kind = judgeAddress(address)
    if (kind === 'public') return
    const isListed = listed.has(host) && (kind === 'private' || kind === 'loopback')
    if (isListed || (kind === 'loopback' && rules.allowLoopback)) return
    const names: Record<Exclude<Kind, 'public'>, string> = {
      loopback: 'this machine itself',
      private: 'a private network',
      special: 'a range that is not on the internet',
      metadata: 'the metadata service of a cloud',
    }
    const remedy =
      kind === 'private' || kind === 'loopback'
        ? ` If that is meant, an operator adds ${host} to BERTH_PRIVATE_GIT_HOSTS.`
        : ''
    throw refuse(`${host} is at ${address}, which is ${names[kind]}.${remedy}`)
  }

  async function check(given: string): Promise<Address[]> {
    const host = given.replace(/^\[(.*)\]$/, '$1').toLowerCase()
    if (isIP(host) !== 0 || isNumberLike(host)) {
      if (isIP(host) !== 6 && !isPlainV4(host)) {
        throw refuse(`${host} is a number, not a host name. Use the name of the host.`)
      }
      requireAllowed(host, host)
      return [{ address: host, family: isIP(host) === 6 ? 6 : 4 }]
    }
    const addresses = await within(resolve(host), LOOKS.resolveMs).catch(() => [])
    if (addresses.length === 0) {
      throw new OutboundRefusal('name_not_resolved', `The name ${host} cannot be resolved.`)
    }
    if (addresses.length > LOOKS.addresses) {
      throw refuse(`${host} has more than ${LOOKS.addresses} addresses.`)
    }
    // one bad address is enough, because we do not choose which one is used
    for (const { address } of addresses) requireAllowed(host, address)
    return addresses
  }
  return { check }
}
