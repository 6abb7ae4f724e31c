// Validates the critical option `source-address`: networks in CIDR form. sshd refuses a certificate whose network has
// host bits and reports it only in its own log, so such a value is never signed.
import { isIPv4, isIPv6 } from 'node:net'

/** The address as a number, and its number of bits. */
function readAddress(text: string): { value: bigint; bits: number } | undefined {
  if (isIPv4(text)) {
    const value = text.split('.').reduce((sum, part) => sum * 256n + BigInt(part), 0n)
    return { value, bits: 32 }
  }
  if (!isIPv6(text) || text.includes('%')) return undefined
  const compressed = new URL(`http://[${text}]`).hostname.slice(1, -1)
  const [head = '', tail] = compressed.split('::')
  const groups = (part: string): string[] => (part === '' ? [] : part.split(':'))
  const front = groups(head)
  const back = groups(tail ?? '')
  const zeros = Array.from({ length: 8 - front.length - back.length }, () => '0')
  const all = [...front, ...zeros, ...back]
  return { value: all.reduce((sum, group) => sum * 65_536n + BigInt(`0x${group}`), 0n), bits: 128 }
}

function isExactNetwork(text: string): boolean {
  const [address = '', length = '', ...rest] = text.split('/')
  const read = readAddress(address)
  if (!read || rest.length > 0 || !/^(0|[1-9][0-9]{0,2})$/.test(length)) return false
  const hostBits = read.bits - Number(length)
  return hostBits >= 0 && read.value % (1n << BigInt(hostBits)) === 0n
}

/** One or more networks, separated by commas, none with host bits. */
export const isSourceAddress = (value: string): boolean => value.split(',').every(isExactNetwork)
