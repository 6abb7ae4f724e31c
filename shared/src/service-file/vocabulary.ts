// Constructors of the schema. One call makes a zod schema, registers the message for an invalid value, and registers
// what the exported JSON Schema shows, so that rule, message and editor help cannot drift apart. There are two
// registries, because everything in the first one is copied into the exported schema.
import { z } from 'zod'
import { type ErrorCode, quoted } from './problem.ts'

/** Only what JSON Schema knows: description, examples, and rules that zod does not export. */
export const schemaNotes = z.registry<Record<string, unknown>>()
export const schemaWords = z.registry<Words>()

/** What is wrong with one text, printed after the path: "must be at most 6h". */
export interface Fault {
  says: string
  code?: ErrorCode
  suggestion?: string
}

export interface Words {
  /** "a whole number from 1 to 65535": completes "… must be". */
  expects: string
  /** A better message than `expects`, and rules beyond the exported schema. */
  fault?: (text: string) => Fault | undefined
  /** Limits and singular of a list or of a map with free names. */
  noun?: string
  min?: number
  max?: number
  isUnique?: boolean
  /** Values are variables: kept as written, never quoted in a message. */
  isEnv?: boolean
  rules?: KeyRules
}

/** Rules between the keys of one map. */
interface KeyRules {
  atLeastOne?: readonly string[]
  /** At most one of each group. */
  atMostOne?: readonly (readonly string[])[]
  /** Key → the key that it requires. */
  needs?: Readonly<Record<string, string>>
  /** Keys that only another kind of map has → why not here. */
  refused?: Readonly<Record<string, string>>
}

type Notes = Record<string, unknown>

export function say<T extends z.ZodType>(schema: T, words: Words, notes: Notes = {}): T {
  schemaWords.add(schema, words)
  schemaNotes.add(schema, notes)
  return schema
}

/** The same schema under another description; words are inherited. */
export function about<T extends z.ZodType>(schema: T, description: string, notes: Notes = {}): T {
  const copy = schema.clone() as T
  schemaNotes.add(copy, { ...notes, description })
  return copy
}

/** The same schema with further words. */
export function also<T extends z.ZodType>(schema: T, words: Partial<Words>): T {
  const copy = schema.clone() as T
  schemaWords.add(copy, { ...wordsOf(schema), ...words })
  return copy
}

export function wordsOf(schema: z.ZodType): Words {
  const words = schemaWords.get(schema)
  if (!words) throw new Error(`no words for a ${schema.type} of the service file's schema`)
  return words
}

/** Optional keys use `.optional()`, all others are required; every other key is unknown. */
export function map<T extends z.ZodRawShape>(
  shape: T,
  notes: Notes = {},
  rules: KeyRules = {},
): z.ZodObject<T, z.core.$strict> {
  const words = { expects: 'a map', rules }
  return say(z.strictObject(shape), words, { ...notes, ...rulesInSchema(rules) })
}

export function list<T extends z.ZodType>(
  item: T,
  words: { noun: string; expects?: string; min?: number; max?: number; isUnique?: boolean },
  notes: Notes = {},
): z.ZodArray<T> {
  let schema = z.array(item)
  if (words.min !== undefined) schema = schema.min(words.min)
  if (words.max !== undefined) schema = schema.max(words.max)
  const unique = words.isUnique ? { uniqueItems: true } : {}
  return say(schema, { expects: 'a list', ...words }, { ...notes, ...unique })
}

/** A map whose keys are free names. */
export function named<K extends z.ZodString, V extends z.ZodType>(
  name: K,
  value: V,
  words: { noun: string; min?: number; max: number; isEnv?: boolean },
  notes: Notes = {},
): z.ZodRecord<K, V> {
  const bounds = { ...(words.min ? { minProperties: words.min } : {}), maxProperties: words.max }
  return say(z.record(name, value), { expects: 'a map', ...words }, { ...notes, ...bounds })
}

export const text = (words: { min?: number; max?: number } = {}): z.ZodString => {
  const { min = 1, max } = words
  const schema = max === undefined ? z.string().min(min) : z.string().min(min).max(max)
  const atMost = max === undefined ? '' : ` of at most ${max} characters`
  return say(schema, { expects: min > 0 ? `text that is not empty${atMost}` : `text${atMost}` })
}

export const flag = (): z.ZodBoolean => say(z.boolean(), { expects: 'true or false' })

const UNITS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const SIZES = { k: 1_024, m: 1_024 ** 2, g: 1_024 ** 3 } as const

/** Milliseconds of `30s`, `10m`, `2h`, `7d`; the schema has checked the text. */
export const durationMs = (written: string): number =>
  Number(written.slice(0, -1)) * UNITS[written.at(-1) as keyof typeof UNITS]

/** Bytes of `512k`, `512m`, `2g`. */
export const sizeBytes = (written: string): number =>
  Number(written.slice(0, -1)) * SIZES[written.at(-1) as keyof typeof SIZES]

/** A duration with a limit that editors do not know. */
export function atMost(schema: z.ZodString, maxMs: number, written: string): z.ZodString {
  return also(schema, {
    fault: (value) =>
      schema.safeParse(value).success && durationMs(value) > maxMs
        ? { says: `must be at most ${written}, got ${quoted(value)}` }
        : undefined,
  })
}

/** The rules between keys in JSON Schema. */
function rulesInSchema({ atLeastOne, atMostOne, needs }: KeyRules): Notes {
  const refused = (atMostOne ?? []).flatMap((group) =>
    group.flatMap((key, index) => group.slice(index + 1).map((other) => [key, other])),
  )
  return {
    ...(atLeastOne && { anyOf: atLeastOne.map((key) => ({ required: [key] })) }),
    ...(refused.length > 0 && { not: { anyOf: refused.map((keys) => ({ required: keys })) } }),
    ...(needs && {
      dependencies: Object.fromEntries(Object.entries(needs).map(([key, other]) => [key, [other]])),
    }),
  }
}
