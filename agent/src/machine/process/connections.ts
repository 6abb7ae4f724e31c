// Counts connections of this machine to an address in the kernel's table. A replaced version is stopped at zero.
import { readFileSync } from 'node:fs'

const ESTABLISHED = '01'

/** `10.214.0.5`, 8080 → `0500D60A:1F90`, as /proc/net/tcp writes it on little-endian machines. */
export function encodePeer(address: string, port: number): string {
  const bytes = address.split('.').map(Number).toReversed()
  const hex = (n: number, digits: number): string =>
    n.toString(16).toUpperCase().padStart(digits, '0')
  return `${bytes.map((byte) => hex(byte, 2)).join('')}:${hex(port, 4)}`
}

export function countPeers(table: string, address: string, port: number): number {
  const peer = encodePeer(address, port)
  return table.split('\n').filter((line) => {
    const [, , remote = '', state = ''] = line.trim().split(/\s+/)
    // an IPv4-mapped address ends with the same eight digits
    return state === ESTABLISHED && (remote === peer || remote.endsWith(`0000FFFF${peer}`))
  }).length
}

const readOrNothing = (file: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

export const countConnections = (address: string, port: number): number =>
  ['/proc/net/tcp', '/proc/net/tcp6']
    .map((file) => countPeers(readOrNothing(file), address, port))
    .reduce((a, b) => a + b, 0)
