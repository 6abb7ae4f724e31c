// Walks the table of keys: every key is described, its misspellings are recognised, its wrong values get one of our
// messages at its place, and everything in the schema has words.
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parse, stringify } from 'yaml'
import { z } from 'zod'
import { readServiceFile } from './index.ts'
import { serviceFileSchema } from './schema.ts'
import { schemaNotes, schemaWords } from './vocabulary.ts'

interface Key {
  /** `*` for a free name or a position in a list. */
  path: string[]
  schema: z.ZodType
  siblings: string[]
}

/** Every key of every map, once for each place where it is allowed. */
function keysOf(wrapped: z.ZodType, path: string[] = []): Key[] {
  const schema = wrapped instanceof z.ZodOptional ? (wrapped.unwrap() as z.ZodType) : wrapped
  if (schema instanceof z.ZodUnion) {
    return (schema.options as z.ZodType[]).flatMap((option) => keysOf(option, path))
  }
  if (schema instanceof z.ZodArray) return keysOf(schema.element as z.ZodType, [...path, '*'])
  if (schema instanceof z.ZodRecord) return keysOf(schema.valueType as z.ZodType, [...path, '*'])
  if (!(schema instanceof z.ZodObject)) return []
  const shape = schema.shape as Record<string, z.ZodType>
  return Object.entries(shape).flatMap(([key, value]) => [
    { path: [...path, key], schema: value, siblings: Object.keys(shape) },
    ...keysOf(value, [...path, key]),
  ])
}

const keys = keysOf(serviceFileSchema)
const titled = keys.map((key) => ({ ...key, title: key.path.join('.') }))
const folder = new URL('../../../test/fixtures/service-yml/', import.meta.url)
const everyKey = readFileSync(new URL('every-key.yml', folder), 'utf8')

type Plain = Record<string, unknown> | unknown[]

/** The first place in every-key.yml that matches a path of the table. */
function placeOf(value: unknown, path: string[]): string[] | undefined {
  const [first, ...rest] = path
  if (first === undefined) return []
  if (typeof value !== 'object' || value === null) return undefined
  for (const key of first === '*' ? Object.keys(value) : [first]) {
    if (!Object.hasOwn(value, key)) continue
    const found = placeOf((value as Record<string, unknown>)[key], rest)
    if (found) return [key, ...found]
  }
  return undefined
}

function change(path: string[], edit: (map: Record<string, unknown>, key: string) => void): string {
  const whole = parse(everyKey) as Plain
  const last = path.at(-1) as string
  const parent = path.slice(0, -1).reduce<unknown>((value, key) => (value as never)[key], whole)
  edit(parent as Record<string, unknown>, last)
  return stringify(whole)
}

describe('the table of keys', () => {
  it('has the keys of the format', () => {
    expect(keys).toHaveLength(108)
  })

  it.each(titled)('$title is described', ({ schema }) => {
    const inner = schema instanceof z.ZodOptional ? (schema.unwrap() as z.ZodType) : schema
    expect(schemaNotes.get(inner)?.description).toMatch(/^[A-Za-z].{10,}\.$/)
    expect(schemaWords.get(inner)?.expects).toMatch(/^\S.*[^.]$/)
  })

  it.each(titled)('$title stands in every-key.yml', ({ path }) => {
    expect(placeOf(parse(everyKey), path)).toBeDefined()
  })

  it.each(titled)('$title: a misspelling is recognised', ({ path, siblings }) => {
    const place = placeOf(parse(everyKey), path) as string[]
    const key = place.at(-1) as string
    const wrong = `${key}z`
    const source = change(place, (map) => {
      map[wrong] = map[key]
      delete map[key]
    })
    const found = readServiceFile(source).problems.find(({ code }) => code === 'unknown_key')
    expect(siblings).not.toContain(wrong)
    expect(found?.suggestion).toBe(key)
    expect(found?.path).toBe([...place.slice(0, -1), wrong].join('.'))
  })

  it.each(titled)(
    '$title: a value of no known type is refused with our own sentence',
    ({ path }) => {
      const place = placeOf(parse(everyKey), path) as string[]
      for (const value of [null, [[]], { 'no such': [] }]) {
        const source = change(place, (map, key) => {
          map[key] = value
        })
        const { file, problems } = readServiceFile(source)
        expect(file).toBeUndefined()
        const own = problems.filter((problem) => problem.path.startsWith(place.join('.')))
        expect(own.length).toBeGreaterThan(0)
        for (const { message } of problems) expect(message).not.toMatch(RAW)
      }
    },
  )
})

/** Words of validators and parsers. */
const RAW =
  /Invalid input|Invalid option|expected (string|number|object|record|array)|oneOf|anyOf|regex|undefined|\[object/
