// Field types that several resources share. Every documented field is always present; "no value" is null.
import { z } from 'zod'

/** Fits an integer column of either database. */
export const Id = z.int().positive().max(0x7fff_ffff)
/** UTC, without a fraction: 2026-11-15T09:12:33Z. */
export const Time = z.iso.datetime({ precision: 0 })
export const Person = z.object({ id: Id.nullable(), name: z.string() })
export const Commit = z
  .string()
  .regex(/^([0-9a-f]{40}|[0-9a-f]{64})$/, 'must be 40 or 64 hex digits')
/** A commit in full, or its first digits as git prints them. */
export const CommitPrefix = z
  .string()
  .regex(/^[0-9a-f]{7,64}$/, 'must be the first 7 or more hex digits of a commit')
/** A hostname of at least two labels, or one below localhost; lower case, no trailing dot. */
export const HostName = z
  .string()
  .max(253)
  .regex(
    /^(?=.{3,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/,
    'must be a host name such as shop.example.com',
  )
export const Name = z.string().trim().min(1).max(64)
export const Slug = z
  .string()
  .regex(
    /^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$/,
    'must be lower case letters, digits and dashes, at most 40',
  )

export const IdParams = z.object({
  id: z
    .string()
    .regex(/^[1-9][0-9]{0,9}$/, 'must be a positive integer')
    .transform(Number)
    .pipe(Id),
})

export const Paging = z.object({
  per_page: z.coerce.number().int().min(1).max(100).optional(),
  cursor: z.string().max(500).optional(),
})

/** A list that is always one page; clients may still send page parameters. */
export const OnePage = Paging.pick({ per_page: true })

/** RFC 9457. Programs switch on `code`; further members depend on it. */
export const Problem = z.looseObject({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  instance: z.string(),
  code: z.string(),
  request_id: z.string(),
  /** With `validation_failed` and `invalid_parameter`: what is wrong with which field. */
  errors: z
    .array(z.object({ field: z.string(), code: z.string(), message: z.string() }))
    .optional(),
})
export type Problem = z.infer<typeof Problem>

// What is wrong with a value, in plain words with the allowed range, for every schema of the API. A schema's own message
// wins.

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
function describeIssue(issue: Issue): string | undefined {
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
