// Line numbers in addresses: #L120 and #L120-L140. PURE.
export interface Lines {
  from: number
  to: number
}

export function readLines(hash: string): Lines | undefined {
  const match = /^#?L(\d{1,9})(?:-L?(\d{1,9}))?$/.exec(hash)
  if (!match) return undefined
  const a = Number(match[1])
  const b = Number(match[2] ?? match[1])
  return a > 0 && b > 0 ? { from: Math.min(a, b), to: Math.max(a, b) } : undefined
}

export const writeLines = ({ from, to }: Lines): string =>
  from === to ? `L${from}` : `L${from}-L${to}`

/** A click selects one line; shift extends the selection to it. */
export const pick = (before: Lines | undefined, n: number, isMore: boolean): Lines =>
  isMore && before
    ? { from: Math.min(before.from, n), to: Math.max(before.from, n) }
    : { from: n, to: n }
