// Positions in the logs of services, and cursors that name one position of each service. A position is a place in a part
// by the number that the part has, or will have once it is set aside, so it survives renaming and compression. PURE.

export interface LogPosition {
  day: string
  seq: number
  /** Bytes before it in the uncompressed part; the start of a line. */
  at: number
}

/** By service. */
export type Cursor = ReadonlyMap<string, LogPosition>

/** After every line of a part, whose size is not known while it is compressed. */
export const PART_END = 2 ** 31 - 1

const DAY_MS = 86_400_000
const FORMAT = /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}:[0-9a-z]{1,5}\.[0-9a-z]{1,6}\.[0-9a-z]{1,9}$/
/** Services of one environment, and files that it writes itself. */
const MOST = 200

/** Short, because it is part of an address: numbers to the base 36. */
export const writeCursor = (cursor: Cursor): string =>
  [...cursor]
    .map(([service, { day, seq, at }]) => {
      const days = Math.floor(Date.parse(day) / DAY_MS)
      return `${service}:${[days, seq, at].map((n) => n.toString(36)).join('.')}`
    })
    .join('~')

/** Undefined for a text that is no cursor. */
export function readCursor(text: string): Cursor | undefined {
  if (text === '') return new Map()
  const places = text.split('~')
  if (places.length > MOST) return undefined
  const cursor = new Map<string, LogPosition>()
  for (const place of places) {
    if (!FORMAT.test(place)) return undefined
    const [service = '', position = ''] = place.split(':')
    const [days = 0, seq = 0, at = 0] = position.split('.').map((n) => Number.parseInt(n, 36))
    const date = new Date(days * DAY_MS)
    if (Number.isNaN(date.getTime())) return undefined
    cursor.set(service, { day: date.toISOString().slice(0, 10), seq, at })
  }
  return cursor
}
