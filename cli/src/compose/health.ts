// A compose health check in the words of .service.yml. A plain request of curl or wget to the service itself becomes an
// HTTP check; anything else stays a command. PURE.
import {
  durationOf,
  interpolate,
  isMap,
  isScalar,
  listOf,
  type Plain,
  splitWords,
} from './values.ts'

interface Check {
  health: unknown
  notes: string[]
  /** Variables of its command that have no default. */
  missing: string[]
}

/** Flags that do not change what counts as healthy; curl must have one that fails on an error status. */
const CURL_FLAGS = /^(?:-[fsS]+|--fail|--silent|--show-error)$/
const WGET_FLAGS =
  /^(?:-q|-nv|-S|-qO-|-O-|--quiet|--no-verbose|--spider|--tries=\d+|--output-document=(?:-|\/dev\/null))$/
const LOCAL = /^http:\/\/(?:localhost|127\.0\.0\.1)(?::(\d{1,5}))?(\/[^\s?#]*)?$/

interface Request {
  port: number
  path: string
}

/** The request of `curl -f http://localhost:3000/up`; null if it is any other command. */
export function requestOf(words: readonly string[]): Request | null {
  const [program = '', ...rest] = words
  const given = rest.filter((_, i) => !isPairedFlag(rest, i) && !isFlagValue(rest, i))
  const flags = given.filter((word) => word.startsWith('-'))
  const [address, ...others] = given.filter((word) => !word.startsWith('-'))
  const match = LOCAL.exec(address ?? '')
  if (!match || others.length > 0) return null
  const isCurl = program === 'curl' && flags.every((flag) => CURL_FLAGS.test(flag))
  const fails = flags.some((flag) => flag === '--fail' || /^-[sS]*f/.test(flag))
  const isWget = program === 'wget' && flags.every((flag) => WGET_FLAGS.test(flag))
  if (!(isCurl && fails) && !isWget) return null
  return { port: Number(match[1] ?? 80), path: match[2] ?? '/' }
}

const PAIRED: Record<string, RegExp> = {
  '-o': /^\/dev\/null$/,
  '-O': /^(?:-|\/dev\/null)$/,
  '-t': /^\d+$/,
}
const isPairedFlag = (words: readonly string[], i: number): boolean =>
  PAIRED[words[i] ?? '']?.test(words[i + 1] ?? '') === true
const isFlagValue = (words: readonly string[], i: number): boolean => isPairedFlag(words, i - 1)

/** Shell text that is one plain command, with or without `|| exit 1`. */
function plainWords(text: string): string[] | null {
  const one = text.trim().replace(/\s*\|\|\s*exit 1$/, '')
  return /[|&;<>$`*?()\n]/.test(one) ? null : splitWords(one)
}

export function healthOf(value: unknown, port: number | null): Check {
  const notes: string[] = []
  const missing: string[] = []
  const fill = (text: string): string => {
    const filled = interpolate(text)
    missing.push(...filled.missing)
    return filled.text
  }
  const done = (health: unknown): Check => ({ health, notes, missing })
  if (!isMap(value)) return done(undefined)
  if (value.disable === true) return done(false)
  const timing = timingOf(value, notes)
  const test = value.test
  const words = Array.isArray(test) ? test.filter(isScalar).map((word) => fill(String(word))) : null
  if (words?.[0] === 'NONE') return done(false)
  let command: string | string[] | undefined
  if (typeof test === 'string') command = fill(test)
  else if (words?.[0] === 'CMD-SHELL') command = words.slice(1).join(' ')
  else if (words?.[0] === 'CMD') command = words.slice(1)
  if (command === undefined || command.length === 0) {
    const isTimed = Object.keys(timing).length > 0
    if (test !== undefined) notes.push('test is not one of CMD, CMD-SHELL, NONE')
    return done(isTimed ? timing : undefined)
  }
  const plain = typeof command === 'string' ? plainWords(command) : command
  const request = plain && requestOf(plain)
  if (!request) return done({ command, ...timing })
  const { path } = request
  if (request.port !== port) return done({ path, port: request.port, ...timing })
  return done(Object.keys(timing).length > 0 ? { path, ...timing } : path)
}

function timingOf(value: Plain, notes: string[]): Record<string, string | number> {
  const timing: Record<string, string | number> = {}
  for (const key of ['interval', 'timeout', 'start_period']) {
    if (value[key] === undefined) continue
    const duration = durationOf(value[key])
    if (duration !== null) timing[key] = duration
  }
  const retries = Number(value.retries)
  if (Number.isInteger(retries) && retries > 0) timing.retries = retries
  for (const key of Object.keys(value)) {
    if (['test', 'disable', 'retries', 'interval', 'timeout', 'start_period'].includes(key))
      continue
    if (!key.startsWith('x-')) notes.push(`${key} has no counterpart`)
  }
  return timing
}

export const dependencyNames = (value: unknown): { name: string; condition: string }[] =>
  isMap(value)
    ? Object.entries(value).map(([name, one]) => ({
        name,
        condition:
          isMap(one) && typeof one.condition === 'string' ? one.condition : 'service_started',
      }))
    : listOf(value)
        .filter((one) => typeof one === 'string')
        .map((name) => ({ name, condition: 'service_started' }))
