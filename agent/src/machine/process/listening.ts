// Reads from the kernel's tables which TCP sockets listen, and explains why a program that runs does not answer: it
// listens on another port, or only on loopback.
import { readFileSync } from 'node:fs'

export interface Listening {
  address: string
  port: number
  /** Of the socket; identifies it in /proc/<pid>/fd. */
  inode: string
  uid: number
}

const LISTEN = '0A'
const LOOPBACK = /^(?:127\.|::1$)/
/** The engine's own name server, in every container. */
const ENGINE_DNS = '127.0.0.11'

/** The kernel writes each group of four bytes in the order of the machine, which is little-endian here. */
function decodeAddress(hex: string): string {
  const bytes = (hex.match(/.{8}/g) ?? []).flatMap((group) =>
    (group.match(/../g) ?? []).toReversed().map((byte) => Number.parseInt(byte, 16)),
  )
  const isMapped = bytes.slice(0, 12).join() === '0,0,0,0,0,0,0,0,0,0,255,255'
  if (bytes.length === 4 || isMapped) return bytes.slice(-4).join('.')
  if (bytes.every((byte) => byte === 0)) return '::'
  if (bytes.slice(0, 15).every((byte) => byte === 0) && bytes[15] === 1) return '::1'
  return bytes
    .flatMap((byte, n) => (n % 2 ? [] : [((byte << 8) | (bytes[n + 1] ?? 0)).toString(16)]))
    .join(':')
}

/** PURE: a table of /proc/<pid>/net. */
export function readListening(table: string): Listening[] {
  return table.split('\n').flatMap((line) => {
    const fields = line.trim().split(/\s+/)
    const [address = '', port = ''] = fields[1]?.split(':') ?? []
    if (fields[3] !== LISTEN) return []
    return [
      {
        address: decodeAddress(address),
        port: Number.parseInt(port, 16),
        inode: fields[9] ?? '',
        uid: Number(fields[7]),
      },
    ]
  })
}

const read = (file: string): string => {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return '' // ended meanwhile, or no IPv6
  }
}

/** TCP sockets that listen in the network of a process. */
export const listListening = (pid: number | 'self'): Listening[] =>
  ['tcp', 'tcp6'].flatMap((name) => readListening(read(`/proc/${pid}/net/${name}`)))

/**
 * Undefined: the port is reachable, or nothing listens yet. `fromOutside`: loopback is not enough. PURE.
 */
export function explainListening(
  service: string,
  seen: readonly Listening[],
  wanted: { port: number; fromOutside: boolean },
): string | undefined {
  const own = seen.filter(({ address }) => address !== ENGINE_DNS)
  const isReachable = ({ address, port }: Listening): boolean =>
    port === wanted.port && !(wanted.fromOutside && LOOPBACK.test(address))
  if (own.length === 0 || own.some(isReachable)) return undefined
  const shown = ({ address, port }: Listening): string =>
    address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`
  const places = [...new Set(own.map(shown))].slice(0, 4).join(', ')
  const listen = wanted.fromOutside ? '0.0.0.0:$PORT' : '127.0.0.1:$PORT'
  return `${service} listens on ${places}, but its port is ${wanted.port}: listen on ${listen}.`
}
