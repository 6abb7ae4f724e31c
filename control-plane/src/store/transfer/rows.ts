// How a row is written in a backup: one line of JSON, its values in the order of the columns. The same row has the same
// line from either database, so tables are compared by the hash of their lines.
import { createHash } from 'node:crypto'

/** The values that the tables hold, from either database. */
export type Value = null | number | bigint | string | Uint8Array
export type Row = readonly Value[]

/** Beyond the safe integers JSON would round, and bytes have no form of their own in it. */
type Encoded = null | number | string | { integer: string } | { base64: string }

function encodeValue(value: unknown): Encoded {
  if (value === null || typeof value === 'string') return value
  if (typeof value === 'bigint') {
    const short = Number(value)
    return Number.isSafeInteger(short) ? short : { integer: value.toString() }
  }
  if (typeof value === 'number' && Number.isFinite(value)) return value
  if (value instanceof Uint8Array) return { base64: Buffer.from(value).toString('base64') }
  throw new TypeError(`a backup cannot hold a value of the type ${typeof value}`)
}

function decodeValue(value: unknown): Value {
  if (value === null || typeof value === 'string' || typeof value === 'number') return value
  const { integer, base64 } = value as { integer?: unknown; base64?: unknown }
  if (typeof integer === 'string') return BigInt(integer)
  if (typeof base64 === 'string') return Buffer.from(base64, 'base64')
  throw new TypeError('a row holds a value of an unknown form')
}

export const encodeRow = (row: Row): string => `${JSON.stringify(row.map(encodeValue))}\n`

export function decodeRow(line: string, columns: number): Row {
  const values: unknown = JSON.parse(line)
  if (!Array.isArray(values) || values.length !== columns) {
    throw new TypeError(`a row has not ${columns} values`)
  }
  return values.map(decodeValue)
}

/** Rows and the hash of their lines, in the order of the key. */
export interface TableSum {
  rows: number
  sha256: string
}

export class RowHash {
  readonly #hash = createHash('sha256')
  #rows = 0

  add(line: string): void {
    this.#hash.update(line)
    this.#rows += 1
  }

  sum(): TableSum {
    return { rows: this.#rows, sha256: this.#hash.digest('hex') }
  }
}
