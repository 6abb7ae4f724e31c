// Counts lines of the proxy's access log by environment and minute. PURE. Reads four fields of a line and nothing else, so
// what a client puts into a path, a query or a header has no effect. A line belongs to the environment that has its
// hostname in this server's routing table.
import { LATENCY_BOUNDS_MS, USAGE } from '@berth/shared'

const MINUTE = 60_000

export interface RequestCounts {
  requests: number
  /** Of 2xx, 3xx, 4xx and 5xx. */
  statuses: [number, number, number, number]
  /** One count for each of LATENCY_BOUNDS_MS, and one for slower requests. */
  latencies: number[]
}

/** By environment. */
export type MinuteCounts = Record<string, RequestCounts>

/** By the start of the minute in milliseconds. */
export type Minutes = Record<string, MinuteCounts>

interface LoggedRequest {
  host: string
  status: number
  durationMs: number
  at: number
}

/** The environment of each hostname; one that two environments have belongs to none. */
export function ownersOf(routes: { host: string; environmentId: number }[]): Map<string, number> {
  const owners = new Map<string, number>()
  const shared = new Set<string>()
  for (const { host, environmentId } of routes) {
    if ((owners.get(host) ?? environmentId) !== environmentId) shared.add(host)
    owners.set(host, environmentId)
  }
  for (const host of shared) owners.delete(host)
  return owners
}

/** As in the routing table: lower case, without port and trailing dot. */
const bareHost = (host: string): string =>
  host
    .toLowerCase()
    .replace(/:\d{1,5}$/, '')
    .replace(/\.$/, '')

/** Undefined: not a line of a request. */
export function parseRequest(line: string): LoggedRequest | undefined {
  let read: unknown
  try {
    read = JSON.parse(line)
  } catch {
    return undefined
  }
  const { ts, status, duration, request } = (read ?? {}) as Record<string, unknown>
  const host = ((request ?? {}) as Record<string, unknown>).host
  if (typeof host !== 'string' || host.length > 300) return undefined
  if (typeof ts !== 'number' || typeof status !== 'number' || typeof duration !== 'number') {
    return undefined
  }
  if (!Number.isFinite(ts) || !Number.isInteger(status) || !(duration >= 0)) return undefined
  return { host: bareHost(host), status, durationMs: duration * 1_000, at: ts * 1_000 }
}

const noRequests = (): RequestCounts => ({
  requests: 0,
  statuses: [0, 0, 0, 0],
  latencies: Array.from({ length: LATENCY_BOUNDS_MS.length + 1 }, () => 0),
})

/** A status outside the four classes (a WebSocket, a client that left) has no duration that means anything. */
function count(counts: RequestCounts, { status, durationMs }: LoggedRequest): void {
  counts.requests++
  const kind = Math.floor(status / 100) - 2
  if (kind < 0 || kind > 3) return
  counts.statuses[kind as 0 | 1 | 2 | 3]++
  const slot = LATENCY_BOUNDS_MS.findIndex((bound) => durationMs <= bound)
  const at = slot < 0 ? LATENCY_BOUNDS_MS.length : slot
  counts.latencies[at] = (counts.latencies[at] ?? 0) + 1
}

export class Tally {
  /** Minutes that lines may still be added to, and whole ones that wait to be stored. */
  readonly #minutes: Map<number, MinuteCounts>
  /** Everything before is whole. */
  #wholeUntil: number

  constructor(minutes: Minutes = {}, wholeUntil = 0) {
    const kept = Object.entries(minutes).map(([at, counts]) => [Number(at), counts] as const)
    this.#minutes = new Map(kept)
    this.#wholeUntil = wholeUntil
  }

  get wholeUntil(): number {
    return this.#wholeUntil
  }

  add(line: string, owners: Map<string, number>, now: number): void {
    const request = parseRequest(line)
    if (!request || request.at > now + MINUTE) return
    const minute = Math.floor(request.at / MINUTE) * MINUTE
    if (minute < oldest(now)) return
    // lines come in the order of their times, so a later minute ends the earlier ones
    if (minute > this.#wholeUntil) this.#wholeUntil = minute
    const environmentId = owners.get(request.host)
    if (environmentId === undefined) return
    // a step back of the clock adds to the present minute, because earlier ones may be sent already
    const into = Math.max(minute, this.#wholeUntil)
    const counts = this.#minutes.get(into) ?? {}
    this.#minutes.set(into, counts)
    counts[environmentId] ??= noRequests()
    count(counts[environmentId], request)
  }

  /** Everything that was logged before this time has been read. */
  readUntil(at: number): void {
    this.#wholeUntil = Math.max(this.#wholeUntil, Math.floor(at / MINUTE) * MINUTE)
    for (const minute of this.#minutes.keys()) if (minute < oldest(at)) this.#minutes.delete(minute)
  }

  /** Whole minutes, oldest first, as many as one report holds; and the time up to which they are all. */
  whole(): { minutes: { minute: number; counts: MinuteCounts }[]; until: number } {
    const minutes = [...this.#minutes]
      .filter(([minute]) => minute < this.#wholeUntil)
      .sort(([a], [b]) => a - b)
      .map(([minute, counts]) => ({ minute, counts: largest(counts) }))
    const next = minutes[USAGE.requestMinutes]
    return {
      minutes: minutes.slice(0, USAGE.requestMinutes),
      until: next ? next.minute : this.#wholeUntil,
    }
  }

  /** The control plane has everything before this time. */
  forget(until: number): void {
    for (const minute of this.#minutes.keys()) if (minute < until) this.#minutes.delete(minute)
  }

  toJson(): { minutes: Minutes; wholeUntil: number } {
    return { minutes: Object.fromEntries(this.#minutes), wholeUntil: this.#wholeUntil }
  }
}

const oldest = (now: number): number =>
  Math.floor(now / MINUTE) * MINUTE - USAGE.backlogMinutes * MINUTE

const largest = (counts: MinuteCounts): MinuteCounts =>
  Object.fromEntries(
    Object.entries(counts)
      .sort(([, a], [, b]) => b.requests - a.requests)
      .slice(0, USAGE.environments),
  )
