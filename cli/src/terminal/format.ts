// Numbers and times in readable form. Pure; the clock is an argument.
import { usage } from './exit.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

const two = (value: number) => String(value).padStart(2, '0')

/** 32s, 1m18s, 2h05m. */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / SECOND))
  if (seconds < 60) return `${seconds}s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes}m${two(seconds % 60)}s`
  return `${Math.floor(minutes / 60)}h${two(minutes % 60)}m`
}

/** A phase or step, where tenths matter: 1.8s, 41.2s, then 1m02s. */
export function formatStepDuration(ms: number): string {
  const tenths = Math.max(0, Math.round(ms / 100))
  return tenths < 600 ? `${(tenths / 10).toFixed(1)}s` : formatDuration(ms)
}

/** 4 min, 2 h, 14 days: rounded to the nearest, so 59.6 min is 1 h. */
export function formatSpan(ms: number): string {
  const of = (unit: number): number => Math.max(0, Math.round(ms / unit))
  if (of(SECOND) < 60) return `${of(SECOND)} s`
  if (of(MINUTE) < 60) return `${of(MINUTE)} min`
  if (of(HOUR) < 48) return `${of(HOUR)} h`
  return `${of(DAY)} days`
}

export function formatAgo(time: string | null, now: number): string {
  if (time === null) return '-'
  const ms = now - Date.parse(time)
  return ms < 10 * SECOND ? 'just now' : `${formatSpan(ms)} ago`
}

export function formatUntil(time: string | null, now: number): string {
  if (time === null) return 'never expires'
  const ms = Date.parse(time) - now
  return ms <= 0 ? 'has expired' : `expires in ${formatSpan(ms)}`
}

/** The local time of day of a progress line. */
export function formatClock(now: number): string {
  const date = new Date(now)
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
}

export const shortCommit = (sha: string | null): string => (sha === null ? '-' : sha.slice(0, 7))

export function formatBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let value = bytes
  let unit = 0
  while (value >= 1_000 && unit < units.length - 1) {
    value /= 1_000
    unit++
  }
  return `${unit === 0 || value >= 10 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`
}

const UNITS: Record<string, number> = { ms: 1, s: SECOND, m: MINUTE, h: HOUR, d: DAY }

/** 90s, 60m, 1h30m; a bare number is refused, because its unit is ambiguous. */
export function parseDuration(flag: string, text: string, maxMs: number): number {
  let ms = 0
  let rest = text
  while (rest !== '') {
    const part = /^(\d{1,9})(ms|s|m|h|d)/.exec(rest)
    if (!part) break
    ms += Number(part[1]) * (UNITS[part[2] ?? ''] ?? 0)
    rest = rest.slice(part[0].length)
  }
  if (text === '' || rest !== '' || ms < 1 || ms > maxMs) {
    const most = formatDuration(maxMs)
    throw usage(`${flag} takes a time such as 90s, 60m or 1h30m (at most ${most}), got '${text}'`)
  }
  return ms
}

/** A time ago (2h, 26h, 3d) or a moment (2026-11-14, 2026-11-14T07:31:00Z), as UTC. */
export function parseMoment(flag: string, text: string, now: number, maxAgoMs: number): string {
  if (/^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?$/.test(text)) {
    const ms = Date.parse(text)
    if (!Number.isNaN(ms)) return new Date(ms).toISOString()
  }
  try {
    return new Date(now - parseDuration(flag, text, maxAgoMs)).toISOString()
  } catch {
    const most = `${Math.floor(maxAgoMs / DAY)}d`
    throw usage(
      `${flag} takes a time ago such as 2h or 3d (at most ${most}), or one such as 2026-11-14T07:31:00Z, got '${text}'`,
    )
  }
}

export function parseCount(flag: string, text: string, max: number): number {
  const value = Number(text)
  if (!/^\d{1,9}$/.test(text) || value < 1 || value > max) {
    throw usage(`${flag} takes a whole number from 1 to ${max}, got '${text}'`)
  }
  return value
}
