// Arithmetic of IPv4 ranges, and the ranges this machine routes.
import { readFileSync } from 'node:fs'

/** First and last address, as numbers. */
export interface Range {
  from: number
  to: number
}

export function parseRange(text: string): Range | undefined {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\/(\d{1,2})$/.exec(text)
  if (!match) return undefined
  const [a = 0, b = 0, c = 0, d = 0, bits = 0] = match.slice(1).map(Number)
  if ([a, b, c, d].some((byte) => byte > 255) || bits > 32) return undefined
  const size = 2 ** (32 - bits)
  const address = ((a * 256 + b) * 256 + c) * 256 + d
  const from = address - (address % size)
  return { from, to: from + size - 1 }
}

export const writeAddress = (n: number): string =>
  [24, 16, 8, 0].map((shift) => Math.floor(n / 2 ** shift) % 256).join('.')

export const overlaps = (a: Range, b: Range): boolean => a.from <= b.to && b.from <= a.to

/** Ranges in /proc/net/route, without the default route, which covers everything. */
export function parseRoutes(table: string): Range[] {
  const rows = table.split('\n').slice(1)
  return rows.flatMap((row) => {
    const fields = row.split('\t')
    const [address, mask] = [readHex(fields[1]), readHex(fields[7])]
    if (address === undefined || mask === undefined || mask === 0) return []
    return [{ from: address, to: address + (0xff_ff_ff_ff - mask) }]
  })
}

/** The kernel writes addresses in hex, in the byte order of the machine, which is little-endian wherever we run. */
function readHex(text: string | undefined): number | undefined {
  if (!text || !/^[0-9A-Fa-f]{8}$/.test(text)) return undefined
  return Buffer.from(text, 'hex').readUInt32LE()
}

export const readRoutes = (): Range[] => parseRoutes(readFileSync('/proc/net/route', 'utf8'))
