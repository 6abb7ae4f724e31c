// Values for fuzzing: those that a JSON schema of the OpenAPI document allows, and hostile ones.
import fc from 'fast-check'
import type { Schema } from '../contract/json-schema.ts'

type Resolve = (reference: string) => Schema
type Any = fc.Arbitrary<unknown>

const DEEP = 40
const nested = (open: unknown): unknown => {
  let value: unknown = open
  for (let n = 0; n < DEEP; n++) value = n % 2 === 0 ? [value] : { a: value }
  return value
}

/** Texts that once broke a parser, query, header, page or shell. */
export const HOSTILE_TEXTS = [
  '',
  ' ',
  '\0',
  'a\0b',
  '\r\nX-Evil: 1',
  '\n',
  '\u2028',
  '\u202e',
  '\ufeff',
  '\ud800',
  'é',
  '💥',
  "'; drop table users; --",
  '" or 1=1 --',
  '%s%n%x',
  '%00',
  '%zz',
  '../../etc/passwd',
  '..%2f..%2f',
  '<script>alert(1)</script>',
  '$(id)',
  '`id`',
  '--upload-pack=x',
  'ext::sh -c id',
  '__proto__',
  'constructor',
  'toString',
  'null',
  'undefined',
  'NaN',
  '-1',
  '0',
  '1e3',
  '2147483647',
  '2147483648',
  '4294967296',
  '9007199254740993',
  '99999999999999999999',
  'true',
  '2026-02-30T00:00:00Z',
  '+275760-09-13T00:00:00Z',
  '9999-12-31T23:59:59Z',
  'x'.repeat(300),
  'x'.repeat(5_000),
]

export const hostileText: fc.Arbitrary<string> = fc.oneof(
  { arbitrary: fc.constantFrom(...HOSTILE_TEXTS), weight: 3 },
  { arbitrary: fc.string({ unit: 'binary', maxLength: 20 }), weight: 1 },
)

export const hostile: Any = fc.oneof(
  hostileText,
  fc.constantFrom<unknown>(
    null,
    true,
    false,
    0,
    -1,
    1.5,
    1e308,
    -1e308,
    2 ** 31,
    2 ** 32,
    2 ** 53,
    [],
    {},
    [[]],
    [null],
    { a: 1 },
    nested(1),
    Array.from({ length: 500 }, (_, n) => n),
  ),
  fc.jsonValue({ maxDepth: 3 }),
)

const HOSTS = ['shop.example.com', 'a.b', 'x.localhost', 'pr-1.shop.example.com']

function texts(schema: Schema): Any {
  if (schema.format === 'date-time') {
    const years = { min: new Date('1990-01-01'), max: new Date('2090-01-01'), noInvalidDate: true }
    return fc.date(years).map((d) => `${d.toISOString().slice(0, 19)}Z`)
  }
  if (schema.format === 'email') return fc.integer().map((n) => `p${n}@example.com`)
  if (schema.format === 'uuid') return fc.uuid()
  const { minLength = 0, maxLength = 40 } = schema as { minLength?: number; maxLength?: number }
  const plain = fc.string({ minLength, maxLength: Math.min(maxLength, minLength + 40) })
  if (typeof schema.pattern !== 'string') {
    return fc.oneof(plain, fc.constantFrom('main', 'a', 'https://git.example.com/a.git', ...HOSTS))
  }
  try {
    return fc.stringMatching(new RegExp(schema.pattern, 'u'))
  } catch {
    return fc.oneof(fc.constantFrom(...HOSTS), plain) // a look-ahead occurs only in the pattern of hostnames
  }
}

/** What a schema allows. */
export function fitting(schema: Schema, resolve: Resolve): Any {
  if (typeof schema.$ref === 'string') return fitting(resolve(schema.$ref), resolve)
  if (Array.isArray(schema.enum)) return fc.constantFrom(...(schema.enum as unknown[]))
  const several = (schema.anyOf ?? schema.oneOf) as Schema[] | undefined
  if (several) return fc.oneof(...several.map((s) => fitting(s, resolve)))
  const types = [schema.type].flat()
  if (types.length > 1) {
    return fc.oneof(...types.map((type) => fitting({ ...schema, type }, resolve)))
  }
  switch (types[0]) {
    case 'null':
      return fc.constant(null)
    case 'boolean':
      return fc.boolean()
    case 'number':
      return fc.oneof(
        fitting({ ...schema, type: 'integer' }, resolve),
        fc.double({
          min: Number(schema.minimum ?? schema.exclusiveMinimum ?? 0),
          max: Number(schema.maximum ?? 1_000_000),
          minExcluded: schema.exclusiveMinimum !== undefined,
          noNaN: true,
        }),
      )
    case 'integer': {
      const { minimum, exclusiveMinimum, maximum } = schema as Record<string, number | undefined>
      const least = exclusiveMinimum === undefined ? -1_000 : exclusiveMinimum + 1
      const min = Math.ceil(minimum ?? least)
      const max = Math.max(min, Math.min(maximum ?? 1_000_000, 2 ** 31 - 1))
      return fc.oneof(
        { arbitrary: fc.integer({ min, max: Math.max(min, Math.min(max, min + 4)) }), weight: 4 },
        { arbitrary: fc.integer({ min, max }), weight: 1 },
      )
    }
    case 'array':
      return fc.array(fitting((schema.items ?? {}) as Schema, resolve), {
        minLength: Number(schema.minItems ?? 0),
        maxLength: Number(schema.minItems ?? 0) + 3,
      })
    case 'object':
      return objects(schema, resolve)
    case 'string':
      return texts(schema)
    default:
      return hostile
  }
}

const number = fc.integer({ min: 1, max: 9_999 })

/** Rules outside the schemas; without these nearly every request would fail at the first of them. */
const HINTS: Record<string, Any> = {
  repo_url: number.map((n) => `http://127.0.0.1:9/r${n}.git`),
  branch: fc.constantFrom('main', 'next', 'feature/a'),
  default_branch: fc.constantFrom('main', 'next'),
  domain: number.map((n) => `d${n}.example.com`),
  server_ids: fc.integer({ min: 1, max: 3 }).map((n) => [n]),
  server_id: fc.integer({ min: 1, max: 3 }),
  variables: fc.dictionary(fc.stringMatching(/^[A-Z]{1,6}$/), fc.string(), { maxKeys: 3 }),
}

function objects(schema: Schema, resolve: Resolve): Any {
  const properties = Object.entries((schema.properties ?? {}) as Record<string, Schema>)
  const field = ([name, s]: [string, Schema]): [string, Any] => {
    const hint = Object.hasOwn(HINTS, name) ? HINTS[name] : undefined
    const any = fitting(s, resolve)
    return [
      name,
      hint ? fc.oneof({ arbitrary: hint, weight: 4 }, { arbitrary: any, weight: 1 }) : any,
    ]
  }
  const model = Object.fromEntries(properties.map(field))
  const requiredKeys = (schema.required ?? []) as string[]
  const known = fc.record(model, { requiredKeys })
  const rest = schema.additionalProperties
  if (properties.length > 0 || typeof rest !== 'object') return known
  return fc.dictionary(fc.stringMatching(/^[A-Z_]{1,8}$/), fitting(rest as Schema, resolve), {
    maxKeys: 4,
  })
}

/** The same with one error: a field dropped, added, replaced, or the whole value turned into another type. */
export function damaged(value: Any): Any {
  return fc
    .tuple(value, hostile, hostileText, fc.nat(), fc.integer({ min: 0, max: 4 }))
    .map(([base, bad, name, pick, how]) => {
      if (base === null || typeof base !== 'object' || Array.isArray(base) || how === 0) return bad
      const entries = Object.entries(base)
      const at = entries.length === 0 ? 0 : pick % entries.length
      if (how === 1) return Object.fromEntries([...entries, [name, bad]])
      if (how === 2) return Object.fromEntries(entries.filter((_, n) => n !== at))
      return Object.fromEntries(entries.map(([k, v], n) => [k, n === at ? bad : v]))
    })
}
