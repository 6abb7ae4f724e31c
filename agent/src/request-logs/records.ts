// One line of the proxy's log of requests: who asked what, and how it was answered. PURE. Everything in it came from
// outside, so every part is checked and cut. The query is left out, because it may hold secrets.
import { stripEscapes } from '@berth/shared'
import { LOG_PAGES } from '../limits/log-pages.ts'

export interface RequestRecord {
  timeUs: number
  method: string
  /** Lower case, without a port. */
  host: string
  path: string
  status: number
  durationUs: number
  /** Bytes of the answer's body. */
  size: number
  client: string
  /** The service whose route it took. */
  service: string
}

interface AccessLine {
  ts?: unknown
  request?: {
    method?: unknown
    host?: unknown
    uri?: unknown
    client_ip?: unknown
    remote_ip?: unknown
  }
  status?: unknown
  duration?: unknown
  size?: unknown
}

const text = (value: unknown, most: number): string =>
  typeof value === 'string'
    ? stripEscapes(value)
        .replaceAll(/[\r\n\t]/g, ' ')
        .slice(0, most)
    : ''
const number = (value: unknown): number =>
  typeof value === 'number' && value >= 0 && value < Number.MAX_SAFE_INTEGER ? value : 0

/** The hostname as the routing table has it. */
const hostOf = (host: string): string => host.toLowerCase().replace(/:\d+$/, '').replace(/\.$/, '')

/** The time alone, from the start of a line; undefined when it is not one of the proxy's. */
export function requestTimeOf(line: Buffer): number | undefined {
  const seconds = /"ts":(\d+(?:\.\d+)?)/.exec(line.toString('latin1', 0, 256))?.[1]
  return seconds === undefined ? undefined : Math.round(Number(seconds) * 1e6)
}

/** Undefined for what is not the line of a request. */
export function parseRequest(line: Buffer): Omit<RequestRecord, 'service'> | undefined {
  let entry: AccessLine | null
  try {
    entry = JSON.parse(line.toString('utf8')) as AccessLine | null
  } catch {
    return undefined
  }
  if (typeof entry !== 'object' || entry === null) return undefined
  const { request } = entry
  const ts = number(entry.ts)
  if (typeof request !== 'object' || request === null || ts === 0) return undefined
  const uri = typeof request.uri === 'string' ? request.uri : ''
  return {
    timeUs: Math.round(ts * 1e6),
    method: text(request.method, LOG_PAGES.methodChars),
    host: hostOf(text(request.host, LOG_PAGES.hostChars)),
    path: text(uri.replace(/[?#].*$/s, ''), LOG_PAGES.pathChars),
    status: Math.round(number(entry.status)),
    durationUs: Math.round(number(entry.duration) * 1e6),
    size: Math.round(number(entry.size)),
    client: text(request.client_ip ?? request.remote_ip, LOG_PAGES.hostChars),
  }
}

/** What a search looks at. */
export const requestText = (r: RequestRecord): string =>
  `${r.method} ${r.host}${r.path} ${r.status} ${r.client} ${r.service}`
