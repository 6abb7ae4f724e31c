// Single values of a compose file in the words of .service.yml: names, words of a command, times, sizes, variables. PURE.

export type Plain = Readonly<Record<string, unknown>>

export const isMap = (value: unknown): value is Plain =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const isScalar = (value: unknown): value is string | number | boolean =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'

export const listOf = (value: unknown): unknown[] =>
  Array.isArray(value) ? value : value === undefined || value === null ? [] : [value]

const TOKEN = /\$\$|\$\{([A-Za-z_]\w*)(?:(:?[-?+])((?:[^{}]|\$\{[^{}]*\})*))?\}|\$([A-Za-z_]\w*)/g

export interface Filled {
  text: string
  /** Variables without a default; they stay in the text as `${NAME}`. */
  missing: string[]
}

/** Compose's interpolation where no variable is set: a default counts, everything else is missing. */
export function interpolate(text: string): Filled {
  const missing: string[] = []
  const filled = text.replaceAll(TOKEN, (whole, braced, operator, operand, bare) => {
    if (whole === '$$') return '$'
    const name = braced ?? bare
    if (operator?.endsWith('-')) {
      const inner = interpolate(operand ?? '')
      missing.push(...inner.missing)
      return inner.text
    }
    if (operator?.endsWith('+')) return ''
    missing.push(name)
    return `\${${name}}`
  })
  return { text: filled, missing }
}

/** The name as .service.yml writes it; null if nothing of it is left. */
export function serviceName(name: string): string | null {
  const tidy = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^[^a-z]+|-+$/g, '')
    .slice(0, 39)
    .replace(/-+$/, '')
  return tidy === '' ? null : tidy
}

/** The words of a command line, as compose splits it: quotes and backslashes, no shell. */
export function splitWords(line: string): string[] {
  const words: string[] = []
  let word = ''
  let isOpen = false
  let quote = ''
  for (let i = 0; i < line.length; i++) {
    const letter = line[i] as string
    if (quote === "'") {
      if (letter === "'") quote = ''
      else word += letter
    } else if (letter === '\\' && i + 1 < line.length) {
      const next = line[++i] as string
      word += quote === '"' && !'"\\$`'.includes(next) ? `\\${next}` : next
      isOpen = true
    } else if (quote === '"') {
      if (letter === '"') quote = ''
      else word += letter
    } else if (letter === '"' || letter === "'") {
      quote = letter
      isOpen = true
    } else if (/\s/.test(letter)) {
      if (isOpen) words.push(word)
      word = ''
      isOpen = false
    } else {
      word += letter
      isOpen = true
    }
  }
  if (isOpen) words.push(word)
  return words
}

/** One shell command line of these words. */
export const quoteWords = (words: readonly string[]): string =>
  words
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`))
    .join(' ')

const UNITS: Record<string, number> = {
  us: 0.001,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}

/** `1m30s` is `90s`; null if it is no time or zero. */
export function durationOf(value: unknown): string | null {
  const text = typeof value === 'number' ? `${value}s` : value
  if (typeof text !== 'string' || !/^(?:\d+(?:\.\d+)?(?:us|ms|s|m|h|d))+$/.test(text)) return null
  let ms = 0
  for (const [, amount = '', unit = ''] of text.matchAll(/(\d+(?:\.\d+)?)(us|ms|s|m|h|d)/g)) {
    ms += Number(amount) * (UNITS[unit] ?? 0)
  }
  const seconds = Math.ceil(ms / 1_000)
  if (seconds === 0) return null
  for (const [unit, size] of [
    ['h', 3_600],
    ['m', 60],
  ] as const) {
    if (seconds % size === 0) return `${seconds / size}${unit}`
  }
  return `${seconds}s`
}

const SIZES: Record<string, number> = { '': 1, b: 1, k: 1_024, m: 1_024 ** 2, g: 1_024 ** 3 }

/** Bytes, `512m`, `1gb`, `1.5g` as `512m`, `1g`, `1536m`; null if it is no size. */
export function sizeOf(value: unknown): string | null {
  const [, amount = '', unit = ''] =
    /^(\d+(?:\.\d+)?)\s*(b|k|m|g)?(?:i?b)?$/i.exec(String(value)) ?? []
  const kilobytes = Math.ceil((Number(amount) * (SIZES[unit.toLowerCase()] ?? 1)) / 1_024)
  if (amount === '' || kilobytes === 0) return null
  if (kilobytes % 1_024 ** 2 === 0) return `${kilobytes / 1_024 ** 2}g`
  return kilobytes % 1_024 === 0 ? `${kilobytes / 1_024}m` : `${kilobytes}k`
}

/** `KEY=value` lines or a map; null: the value comes from the shell of the person who starts compose. */
export function pairsOf(value: unknown): [key: string, value: string | null][] {
  if (isMap(value)) {
    return Object.entries(value).map(([key, one]) => [key, isScalar(one) ? String(one) : null])
  }
  return listOf(value)
    .filter(isScalar)
    .map((line) => {
      const [, key = '', , given] = /^([^=]*)(=([\s\S]*))?$/.exec(String(line)) ?? []
      return [key, given ?? null]
    })
}
