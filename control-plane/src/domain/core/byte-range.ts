// Parses the byte range that a request asks for (RFC 9110). PURE.
export interface ByteRange {
  from: number
  /** Exclusive. */
  to: number
}

/** One range; several, or another unit, get the whole file (RFC 9110 allows it). */
export function parseRange(
  header: string | undefined,
  total: number,
): ByteRange | 'unsatisfiable' | undefined {
  const match = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? '')
  if (!match) return undefined
  const [, first = '', last = ''] = match
  if (first === '' && last === '') return undefined
  if (first === '') {
    const length = Number(last)
    return length === 0 || total === 0
      ? 'unsatisfiable'
      : { from: Math.max(0, total - length), to: total }
  }
  const from = Number(first)
  const to = last === '' ? total : Math.min(Number(last) + 1, total)
  return from >= total || to <= from ? 'unsatisfiable' : { from, to }
}
