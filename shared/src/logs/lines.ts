// Lines of running services and of the proxy: the level that a line names, and the filters that agent, control plane and
// client apply alike. PURE. A level is recognised by fixed rules near the start of a line; standard error alone says
// nothing, because many programs write all their output there.
import { stripEscapes } from '../escapes.ts'

export const LOG_LEVELS = ['error', 'warn', 'info', 'debug'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

/** `other`: lines that name no level. */
export const LOG_LEVEL_FILTERS = [...LOG_LEVELS, 'other'] as const
export type LogLevelFilter = (typeof LOG_LEVEL_FILTERS)[number]

export const STATUS_CLASSES = ['2xx', '3xx', '4xx', '5xx'] as const
export type StatusClass = (typeof STATUS_CLASSES)[number]

const WORDS: Record<string, LogLevel> = {
  error: 'error',
  err: 'error',
  fatal: 'error',
  critical: 'error',
  crit: 'error',
  panic: 'error',
  severe: 'error',
  emerg: 'error',
  emergency: 'error',
  alert: 'error',
  warn: 'warn',
  warning: 'warn',
  info: 'info',
  information: 'info',
  notice: 'info',
  debug: 'debug',
  trace: 'debug',
  verbose: 'debug',
}

/** Only the start of a line is looked at, so that a message about an error is not one. */
const NEAR = 96
/** A longer document is not parsed; its level is looked for as text. */
const DOCUMENT = 32_768
const KEYS = ['level', 'severity', 'lvl', 'levelname', 'log.level'] as const

const ALL = Object.keys(WORDS).join('|')
/** `level=warn`, `"level":"warn"`, `severity: ERROR`. */
const PAIR = new RegExp(`\\b(?:level|severity|lvl)"?\\s*[=:]\\s*"?(${ALL}|\\d{1,3})\\b`, 'i')
/** `[error]`, `<warn>`, `(info)`. */
const BRACKETS = new RegExp(`[[(<|]\\s*(${ALL})\\s*[\\])>|]`, 'i')
/** `ERROR something`, `2026-11-17 09:12:30 WARN something`. */
const CAPITALS = new RegExp(`(?:^|[\\s:|-])(${ALL.toUpperCase()})(?=$|[\\s:!|,-])`)
/** `error: something` and `TypeError: something` at the very start. */
const LABEL = new RegExp(`^(${ALL}):`, 'i')
const EXCEPTION = /^(?:Uncaught )?[A-Za-z.]*(?:Error|Exception)(?: \[[A-Z_]+\])?:/
/** `E1117 09:12:30.123456`, as klog writes it. */
const KLOG = /^([IWEF])\d{4} \d\d:\d\d:\d\d/
const KLOG_LEVELS: Record<string, LogLevel> = { I: 'info', W: 'warn', E: 'error', F: 'error' }

/** Numbers of pino and bunyan (10 to 60), or of syslog (0 to 7). */
function levelOfNumber(n: number): LogLevel | null {
  if (n >= 10) return n >= 50 ? 'error' : n >= 40 ? 'warn' : n >= 30 ? 'info' : 'debug'
  if (!(n >= 0 && n <= 7)) return null
  return n <= 3 ? 'error' : n === 4 ? 'warn' : n <= 6 ? 'info' : 'debug'
}

function levelOfValue(value: unknown): LogLevel | null {
  if (typeof value === 'number') return levelOfNumber(value)
  if (typeof value !== 'string') return null
  return (
    WORDS[value.toLowerCase()] ?? (/^\d{1,3}$/.test(value) ? levelOfNumber(Number(value)) : null)
  )
}

function levelOfDocument(text: string): LogLevel | null | undefined {
  if (!text.startsWith('{') || text.length > DOCUMENT) return undefined
  let document: Record<string, unknown>
  try {
    document = JSON.parse(text) as Record<string, unknown>
  } catch {
    return undefined
  }
  for (const key of KEYS) if (Object.hasOwn(document, key)) return levelOfValue(document[key])
  return null
}

/** Null: the line names no level. */
export function levelOf(line: string): LogLevel | null {
  const start = stripEscapes(line.slice(0, 4 * NEAR)).trimStart()
  if (start.startsWith('{')) {
    const found = levelOfDocument(stripEscapes(line).trim())
    if (found !== undefined) return found
  }
  const near = start.slice(0, NEAR)
  const klog = KLOG.exec(near)
  if (klog) return KLOG_LEVELS[klog[1] ?? ''] ?? null
  const pair = PAIR.exec(start)
  if (pair) return levelOfValue(Number.isNaN(Number(pair[1])) ? pair[1] : Number(pair[1]))
  const word = (LABEL.exec(near) ?? BRACKETS.exec(near) ?? CAPITALS.exec(near))?.[1]
  if (word !== undefined) return WORDS[word.toLowerCase()] ?? null
  return EXCEPTION.test(near) ? 'error' : null
}

export interface LineFilter {
  /** Plain text, without regard to case; empty or absent: every line. */
  search?: string | undefined
  /** Empty or absent: every line. */
  levels?: readonly LogLevelFilter[] | undefined
}

/** Undefined when every line passes. */
export function createLineFilter({
  search = '',
  levels = [],
}: LineFilter): ((text: string) => boolean) | undefined {
  const wanted = search.toLowerCase()
  const isEvery = levels.length === 0 || LOG_LEVEL_FILTERS.every((level) => levels.includes(level))
  if (wanted === '' && isEvery) return undefined
  return (text) =>
    (wanted === '' || stripEscapes(text).toLowerCase().includes(wanted)) &&
    (isEvery || levels.includes(levelOf(text) ?? 'other'))
}

export const statusClassOf = (status: number): StatusClass | null =>
  STATUS_CLASSES[Math.floor(status / 100) - 2] ?? null
