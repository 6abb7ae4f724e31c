// The exported schema and a hand-written one agree on every example and on thousands of changed ones, and what the
// schema refuses, `readServiceFile` refuses too. The small validator below knows the draft-07 keywords that the two
// use, and throws on any other.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of the file, not of JavaScript
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parse, stringify } from 'yaml'
import { jsonSchema, readServiceFile } from './index.ts'

type Schema = Record<string, unknown>
type Plain = Record<string, unknown>

const KNOWN = new Set(
  'type const enum pattern minLength maxLength minimum maximum exclusiveMinimum items minItems maxItems uniqueItems properties required additionalProperties patternProperties propertyNames minProperties maxProperties dependencies anyOf oneOf allOf not $ref'.split(
    ' ',
  ),
)
const SILENT = new Set(
  '$schema $id title description examples default definitions deprecationMessage id'.split(' '),
)

function validator(root: Schema): (value: unknown) => boolean {
  const isMap = (value: unknown): value is Plain =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
  const typeOf = (value: unknown): string =>
    value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value
  const isType = (value: unknown, type: string): boolean =>
    type === 'integer' ? Number.isInteger(value) : typeOf(value) === type
  const list = (value: unknown): Schema[] => value as Schema[]

  const rules: Record<string, (rule: never, value: never, schema: Schema) => boolean> = {
    $ref: (rule: string, value) =>
      test(
        (root.definitions as Record<string, Schema>)[rule.split('/')[2] as string] as Schema,
        value,
      ),
    type: (rule: string | string[], value) => [rule].flat().some((type) => isType(value, type)),
    const: (rule, value) => rule === value,
    enum: (rule: unknown[], value) => rule.includes(value),
    anyOf: (rule, value) => list(rule).some((one) => test(one, value)),
    oneOf: (rule, value) => list(rule).filter((one) => test(one, value)).length === 1,
    allOf: (rule, value) => list(rule).every((one) => test(one, value)),
    not: (rule: Schema, value) => !test(rule, value),
  }
  const textRules: typeof rules = {
    pattern: (rule: string, value: string) => new RegExp(rule, 'u').test(value),
    minLength: (rule: number, value: string) => [...value].length >= rule,
    maxLength: (rule: number, value: string) => [...value].length <= rule,
  }
  const numberRules: typeof rules = {
    minimum: (rule: number, value: number) => value >= rule,
    maximum: (rule: number, value: number) => value <= rule,
    exclusiveMinimum: (rule: number, value: number) => value > rule,
  }
  const listRules: typeof rules = {
    items: (rule: Schema, value: unknown[]) => value.every((item) => test(rule, item)),
    minItems: (rule: number, value: unknown[]) => value.length >= rule,
    maxItems: (rule: number, value: unknown[]) => value.length <= rule,
    uniqueItems: (_: boolean, value: unknown[]) =>
      new Set(value.map((item) => JSON.stringify(item))).size === value.length,
  }
  const mapRules: typeof rules = {
    required: (rule: string[], value: Plain) => rule.every((key) => Object.hasOwn(value, key)),
    properties: (rule: Record<string, Schema>, value: Plain) =>
      Object.entries(rule).every(
        ([key, one]) => !Object.hasOwn(value, key) || test(one, value[key]),
      ),
    propertyNames: (rule: Schema, value: Plain) =>
      Object.keys(value).every((key) => test(rule, key)),
    minProperties: (rule: number, value: Plain) => Object.keys(value).length >= rule,
    maxProperties: (rule: number, value: Plain) => Object.keys(value).length <= rule,
    dependencies: (rule: Record<string, string[]>, value: Plain) =>
      Object.entries(rule).every(
        ([key, others]) =>
          !Object.hasOwn(value, key) || others.every((other) => Object.hasOwn(value, other)),
      ),
    patternProperties: () => true, // has no rules; it only permits keys
    additionalProperties: (rule: boolean | Schema, value: Plain, schema) => {
      const known = Object.keys((schema.properties ?? {}) as Plain)
      const patterns = Object.keys((schema.patternProperties ?? {}) as Plain)
      const others = Object.keys(value).filter(
        (key) => !known.includes(key) && !patterns.some((pattern) => new RegExp(pattern).test(key)),
      )
      return rule === false
        ? others.length === 0
        : others.every((key) => test(rule as Schema, value[key]))
    },
  }
  const rulesFor = (value: unknown): typeof rules => ({
    ...rules,
    ...(typeof value === 'string' && textRules),
    ...(typeof value === 'number' && numberRules),
    ...(Array.isArray(value) && listRules),
    ...(isMap(value) && mapRules),
  })
  const test = (schema: Schema, value: unknown): boolean => {
    if ('$ref' in schema) return rules.$ref?.(schema.$ref as never, value as never, schema) ?? false
    const active = rulesFor(value)
    return Object.entries(schema).every(([word, rule]) => {
      if (!KNOWN.has(word) && !SILENT.has(word)) throw new Error(`unknown word ${word}`)
      return active[word]?.(rule as never, value as never, schema) ?? true
    })
  }
  return (value) => test(root, value)
}

const folder = new URL('../../../test/fixtures/service-yml/', import.meta.url)
const byHand = validator(
  JSON.parse(readFileSync(new URL('service.v1.schema.json', folder), 'utf8')) as Schema,
)
const exported = validator(jsonSchema())
const names = readdirSync(folder).filter((name) => name.endsWith('.yml'))
const examples = names.map((name) => ({
  name,
  value: parse(readFileSync(new URL(name, folder), 'utf8'), { merge: true }) as Plain,
}))

const VALUES: unknown[] = [
  null,
  true,
  false,
  0,
  1,
  -1,
  1.5,
  257,
  600,
  70_000,
  '',
  'x',
  'auto',
  'file',
  'Bad Name',
  '/abs',
  '../up',
  'a/../b',
  'https://example.com/a.git',
  'git@example.com:a/b.git',
  '-x',
  '--privileged',
  'Upper/case:1',
  'registry.example.com:5000/team/app_one:v1.2',
  `a@sha256:${'0'.repeat(64)}`,
  '10m',
  '10x',
  '0s',
  '512m',
  '1.5g',
  'a.example.com',
  '${SERVICE_DOMAIN}',
  '${HOME}.example.com',
  'data:/srv',
  '/host:/srv',
  'x'.repeat(81),
  'x'.repeat(301),
  'x'.repeat(513),
  [],
  ['a'],
  ['a', 'a'],
  [1],
  Array.from({ length: 51 }, (_, index) => `n${index}`),
  {},
  { run: 'x' },
  { path: '/x' },
  { a: 'b' },
  { SERVICE_DOMAIN: 'b' },
  { 'no such': 1 },
]

/** Puts every value at every place, removes every key, adds unknown keys. */
function* changed(value: unknown): Generator<unknown> {
  if (Array.isArray(value)) {
    yield value.toSpliced(0, 1)
    yield [...value, ...value]
    for (const [index, item] of value.entries()) {
      for (const other of [...VALUES, ...changed(item)]) yield value.with(index, other)
    }
  } else if (typeof value === 'object' && value !== null) {
    for (const key of ['typo', 'x-note', 'Bad', 'run', 'port', 'image', 'BERTH_A']) {
      yield { [key]: 'x', ...value }
    }
    for (const [key, item] of Object.entries(value)) {
      const { [key]: _, ...rest } = value as Plain
      yield rest
      for (const other of [...VALUES, ...changed(item)]) yield { ...value, [key]: other }
    }
  }
}

describe('the exported schema', () => {
  it('is draft-07 with a name', () => {
    expect(jsonSchema()).toMatchObject({
      $schema: 'http://json-schema.org/draft-07/schema#',
      $id: 'urn:berth:schema:service-file:v1',
      title: '.service.yml',
    })
    expect(JSON.stringify(jsonSchema())).toContain('"deprecationMessage"')
  })

  it.each(examples)('gives $name the verdict of the one by hand', ({ name, value }) => {
    expect([exported(value), byHand(value)]).toEqual([name !== 'bad.yml', name !== 'bad.yml'])
  })

  it.each(examples)('gives each change of $name the verdict of the one by hand', ({ value }) => {
    let valid = 0
    let invalid = 0
    for (const other of changed(value)) {
      const verdict = exported(other)
      if (verdict !== byHand(other)) expect({ other, verdict }).toBe('the same verdict')
      if (verdict) valid++
      else invalid++
    }
    expect(invalid).toBeGreaterThan(100)
    if (value.actions && !('Legacy Export' in (value.actions as Plain)))
      expect(valid).toBeGreaterThan(20)
  })

  it.each(examples)('refuses no change of $name that readServiceFile takes', ({ value }) => {
    let looked = 0
    let index = 0
    for (const other of changed(value)) {
      if (index++ % 20 !== 0 || exported(other)) continue // reading is slow, so every twentieth
      looked++
      const { file, problems } = readServiceFile(stringify(other))
      if (file) expect({ other, problems }).toBe('refused')
    }
    expect(looked).toBeGreaterThan(10)
  })
})
