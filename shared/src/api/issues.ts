// What is wrong with a value, in plain words with the allowed range, for every schema of the API. A schema's own message
// wins. PURE, but for the last statement, which installs it.
import { z } from 'zod'

interface Issue {
  code: string
  input?: unknown
  origin?: string
  minimum?: number | bigint
  maximum?: number | bigint
  expected?: string
  values?: readonly unknown[]
  format?: string
}

const TYPES: Record<string, string> = {
  string: 'must be a text',
  number: 'must be a number',
  int: 'must be a whole number',
  boolean: 'must be true or false',
  array: 'must be a list',
  object: 'must be an object',
  null: 'must be null',
}

const FORMATS: Record<string, string> = {
  datetime: 'must be a time such as 2026-11-14T07:31:00Z',
  email: 'must be an e-mail address',
  url: 'must be an address such as https://example.com',
  uuid: 'must be a UUID',
}

const count = (n: number | bigint, one: string, many: string): string =>
  `${n} ${Number(n) === 1 ? one : many}`

function describeBound(word: 'at least' | 'at most', n: number | bigint, origin = ''): string {
  if (origin === 'string') {
    if (word === 'at least' && Number(n) === 1) return 'must not be empty'
    return `must have ${word} ${count(n, 'character', 'characters')}`
  }
  if (origin === 'array' || origin === 'set')
    return `must have ${word} ${count(n, 'entry', 'entries')}`
  return `must be ${word} ${n}`
}

/** Undefined: zod's own words are as good. */
export function describeIssue(issue: Issue): string | undefined {
  const { code, minimum, maximum, expected = '', values = [], format = '' } = issue
  if (code === 'invalid_type' && issue.input === undefined) return 'is missing'
  if (code === 'invalid_type') return TYPES[expected]
  if (code === 'too_small' && minimum !== undefined)
    return describeBound('at least', minimum, issue.origin)
  if (code === 'too_big' && maximum !== undefined)
    return describeBound('at most', maximum, issue.origin)
  if (code === 'invalid_value' && values.length === 1) return `must be ${String(values[0])}`
  if (code === 'invalid_value') return `must be one of ${values.map(String).join(', ')}`
  if (code === 'invalid_format') return FORMATS[format]
  if (code === 'invalid_union') return 'has a form that is not allowed here'
  return undefined
}

z.config({ customError: (issue) => describeIssue(issue as Issue) })
