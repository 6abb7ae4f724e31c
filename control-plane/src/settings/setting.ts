// One setting of the control plane, and the kinds of values. A parser throws what the value must be; the reader of
// settings adds where the value came from.
import { isIP, isIPv6 } from 'node:net'

/** How a value is written and checked. */
export interface Kind<T> {
  /** For the reference: 'port', 'list of text'. */
  name: string
  /** Its type in server.toml; numbers and booleans may be text too. */
  toml: 'string' | 'number' | 'boolean' | 'array'
  /** Lists arrive as text with commas. Throws an Error that begins with "must be" and never contains the value. */
  parse: (text: string) => T
}

export interface Setting<T = unknown> {
  variable: string
  /** In server.toml: `port`, or `mail.from` for `from` in the section `[mail]`. Undefined: environment only. */
  key: string | undefined
  kind: Kind<T>
  fallback: T | undefined
  /** What applies without a value, for people. */
  without: string
  /** One sentence for people. */
  description: string
  /** Never shown: "set" or "not set". */
  secret: boolean
}

type Row = Pick<Setting, 'variable' | 'description'> & {
  key?: string
  without?: string
  secret?: true
}

/** A setting that always has a value. */
export const withDefault = <T>(
  kind: Kind<T>,
  fallback: T,
  row: Row,
): Setting<T> & { always: true } => ({
  key: undefined,
  secret: false,
  without: formatValue(fallback),
  ...row,
  kind,
  fallback,
  always: true,
})

/** A setting that may have no value. */
export const optional = <T>(kind: Kind<T>, row: Row): Setting<T> => ({
  key: undefined,
  secret: false,
  without: 'none',
  ...row,
  kind,
  fallback: undefined,
})

export const formatValue = (value: unknown): string =>
  Array.isArray(value) ? value.join(', ') || 'none' : String(value)

function must(isFine: boolean, be: string): void {
  if (!isFine) throw new Error(`must be ${be}`)
}

export const text: Kind<string> = { name: 'text', toml: 'string', parse: (given) => given }
export const path: Kind<string> = { name: 'path', toml: 'string', parse: (given) => given }

/** A text with a form of its own; `parse` throws what it must be. */
export const form = (name: string, check: (given: string) => void): Kind<string> => ({
  name,
  toml: 'string',
  parse(given) {
    check(given)
    return given
  },
})

export const number = (
  from: number,
  to: number,
  { whole = true, name = 'number' } = {},
): Kind<number> => ({
  name: `${name} from ${from} to ${to}`,
  toml: 'number',
  parse(given) {
    const n = Number(given)
    const isFine = n >= from && n <= to && (!whole || Number.isInteger(n)) && given.trim() !== ''
    must(
      isFine,
      `a ${whole ? (name === 'port' ? 'port' : 'whole number') : 'number'} from ${from} to ${to}`,
    )
    return n
  },
})

export const port = number(0, 65_535, { name: 'port' })

export const flag: Kind<boolean> = {
  name: 'true or false',
  toml: 'boolean',
  parse(given) {
    must(given === 'true' || given === 'false', 'true or false')
    return given === 'true'
  },
}

export const choice = <T extends string>(...words: readonly T[]): Kind<T> => ({
  name: words.join(', '),
  toml: 'string',
  parse(given) {
    must((words as readonly string[]).includes(given), `one of ${words.join(', ')}`)
    return given as T
  },
})

/** Separated by commas or spaces in a variable. */
export const list = (
  name: string,
  be: string,
  isFine: (one: string) => boolean = () => true,
): Kind<string[]> => ({
  name,
  toml: 'array',
  parse(given) {
    const words = given.split(/[\s,]+/).filter(Boolean)
    must(words.every(isFine), be)
    return words
  },
})

/** Without a slash at the end. */
export const webAddress: Kind<string> = {
  name: 'web address',
  toml: 'string',
  parse(given) {
    const url = URL.canParse(given) ? new URL(given) : undefined
    const isFine = url !== undefined && /^https?:$/.test(url.protocol) && url.hostname !== ''
    must(isFine, 'an address such as https://deploy.example.com')
    return given.replace(/\/+$/, '')
  },
}

export const isNetwork = (one: string): boolean => {
  const [address = '', bits, ...rest] = one.split('/')
  const most = isIPv6(address) ? 128 : 32
  const fits = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= most)
  return isIP(address) !== 0 && fits && rest.length === 0
}

/** `host:port`, also `[::1]:7443`. */
export const isEndpoint = (one: string): boolean => {
  const [, host = '', at = ''] = /^(\[[^\]]+\]|[^:/@\s]+):(\d{1,5})$/.exec(one) ?? []
  return host !== '' && Number(at) >= 1 && Number(at) <= 65_535
}
