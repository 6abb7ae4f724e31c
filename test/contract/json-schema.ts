// A small validator of JSON against the schemas of the OpenAPI document. Objects with named properties are closed here
// (the document leaves them open for later releases), so an undocumented field fails. An unknown keyword is an error,
// so nothing passes unchecked.
export type Schema = Record<string, unknown>

const IGNORED = new Set(['description', 'title', 'example', 'examples', 'default', 'deprecated'])
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number'
  return typeof value
}

type Judge = (expected: unknown, value: unknown, at: string, schema: Schema) => string[]

export class JsonSchemas {
  readonly #components: Record<string, Schema>

  constructor(components: Record<string, Schema>) {
    this.#components = components
  }

  /** Mismatches as sentences with their path; empty if there are none. */
  check(schema: Schema, value: unknown, at = '$'): string[] {
    const problems: string[] = []
    for (const [keyword, expected] of Object.entries(schema)) {
      if (IGNORED.has(keyword) || keyword.startsWith('x-')) continue
      const judge = this.#judges[keyword]
      if (!judge) throw new Error(`${at}: the keyword ${keyword} is not known to the contract test`)
      problems.push(...judge(expected, value, at, schema))
    }
    return problems
  }

  resolve(reference: string): Schema {
    const name = reference.split('/').at(-1) ?? ''
    const found = this.#components[name]
    if (!found) throw new Error(`there is no schema ${reference}`)
    return found
  }

  #some(list: unknown, value: unknown, at: string): string[] {
    const tries = (list as Schema[]).map((s) => this.check(s, value, at))
    if (tries.some((t) => t.length === 0)) return []
    // the closest branch explains most
    return tries.toSorted((a, b) => a.length - b.length)[0] ?? [`${at} fits nothing`]
  }

  #object(properties: unknown, value: unknown, at: string, schema: Schema): string[] {
    if (typeOf(value) !== 'object') return []
    const known = properties as Record<string, Schema>
    const closed = schema.additionalProperties === undefined && schema.allOf === undefined
    return Object.entries(value as object).flatMap(([key, item]) => {
      const inner = Object.hasOwn(known, key) ? known[key] : undefined
      if (inner) return this.check(inner, item, `${at}.${key}`)
      return closed ? [`${at}.${key} is not documented`] : []
    })
  }

  readonly #judges: Record<string, Judge> = {
    $ref: (name, value, at) => this.check(this.resolve(String(name)), value, at),
    type: (types, value, at) => {
      const found = typeOf(value)
      const wanted = [types].flat()
      const fits = wanted.includes(found) || (found === 'integer' && wanted.includes('number'))
      return fits ? [] : [`${at} is ${found}, not ${wanted.join(' or ')}`]
    },
    enum: (list, value, at) =>
      (list as unknown[]).includes(value) ? [] : [`${at} is ${JSON.stringify(value)}, not listed`],
    const: (one, value, at) => (value === one ? [] : [`${at} is not ${JSON.stringify(one)}`]),
    anyOf: (list, value, at) => this.#some(list, value, at),
    oneOf: (list, value, at) => this.#some(list, value, at),
    allOf: (list, value, at) => (list as Schema[]).flatMap((s) => this.check(s, value, at)),
    properties: (properties, value, at, schema) => this.#object(properties, value, at, schema),
    required: (names, value, at) =>
      typeOf(value) !== 'object'
        ? []
        : (names as string[])
            .filter((name) => !Object.hasOwn(value as object, name))
            .map((name) => `${at}.${name} is missing`),
    additionalProperties: (rule, value, at, schema) => {
      if (typeOf(value) !== 'object' || rule === true) return []
      const known = (schema.properties ?? {}) as object
      return Object.entries(value as object)
        .filter(([key]) => !Object.hasOwn(known, key))
        .flatMap(([key, item]) =>
          rule === false
            ? [`${at}.${key} is not documented`]
            : this.check(rule as Schema, item, `${at}.${key}`),
        )
    },
    propertyNames: (rule, value, at) =>
      typeOf(value) === 'object'
        ? Object.keys(value as object).flatMap((k) => this.check(rule as Schema, k, `${at} key`))
        : [],
    items: (rule, value, at) =>
      Array.isArray(value)
        ? value.flatMap((item, n) => this.check(rule as Schema, item, `${at}[${n}]`))
        : [],
    minItems: (least, value, at) =>
      Array.isArray(value) && value.length < Number(least) ? [`${at} is too short`] : [],
    maxItems: (most, value, at) =>
      Array.isArray(value) && value.length > Number(most) ? [`${at} is too long`] : [],
    minLength: (least, value, at) =>
      typeof value === 'string' && value.length < Number(least) ? [`${at} is too short`] : [],
    maxLength: (most, value, at) =>
      typeof value === 'string' && value.length > Number(most) ? [`${at} is too long`] : [],
    pattern: (pattern, value, at) =>
      typeof value === 'string' && !new RegExp(String(pattern), 'u').test(value)
        ? [`${at} is not of the form ${String(pattern)}`]
        : [],
    format: (format, value, at) =>
      format === 'date-time' && typeof value === 'string' && !TIME.test(value)
        ? [`${at} is no time`]
        : [],
    minimum: (least, value, at) =>
      typeof value === 'number' && value < Number(least) ? [`${at} is too small`] : [],
    maximum: (most, value, at) =>
      typeof value === 'number' && value > Number(most) ? [`${at} is too large`] : [],
    exclusiveMinimum: (least, value, at) =>
      typeof value === 'number' && value <= Number(least) ? [`${at} is too small`] : [],
    exclusiveMaximum: (most, value, at) =>
      typeof value === 'number' && value >= Number(most) ? [`${at} is too large`] : [],
  }
}
