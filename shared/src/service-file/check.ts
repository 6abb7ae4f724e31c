// Checks a tree against the schema: unknown, missing and conflicting keys, types and values, each with its position and
// message. Returns the plain value, without prototypes; it fits the schema if nothing was reported. Rules come from the
// schema, messages from `vocabulary.ts`; this file has no list of its own.
import { z } from 'zod'
import { alternatives, join, type Path, quoted, type Report, type Span, shown } from './problem.ts'
import { isReference } from './references.ts'
import { isIgnoredKey } from './schema.ts'
import { suggest } from './suggestion.ts'
import { looksLikeSecret } from './variables.ts'
import { type Fault, schemaWords, type Words, wordsOf } from './vocabulary.ts'
import type { Entry, ListNode, MapNode, ScalarNode, TreeNode } from './yaml/tree.ts'

/** The location of a value; if the value is not written, its key. */
interface Place {
  path: Path
  keySpan: Span
}

type Found = { report: Report } & Place

export function check(schema: z.ZodType, root: TreeNode, report: Report): unknown {
  return checkValue(schema, root, { report, path: [], keySpan: { start: 0, end: 0 } })
}

function checkValue(wrapped: z.ZodType, node: TreeNode, found: Found): unknown {
  const schema = unwrap(wrapped)
  const collection = optionFor(schema, node)
  if (node.kind === 'map' && collection instanceof z.ZodObject) {
    return checkMap(collection, node, found)
  }
  if (node.kind === 'map' && collection instanceof z.ZodRecord) {
    return checkNamed(collection, node, found)
  }
  if (node.kind === 'list' && collection instanceof z.ZodArray) {
    return checkList(collection, node, found)
  }
  return checkLeaf(schema, node, found)
}

const unwrap = (schema: z.ZodType): z.ZodType =>
  schema instanceof z.ZodOptional ? (schema.unwrap() as z.ZodType) : schema

/** Of "a path, a map or false", returns the option that can hold this node; the options hold different kinds. */
function optionFor(schema: z.ZodType, node: Pick<TreeNode, 'kind'>): z.ZodType {
  if (!(schema instanceof z.ZodUnion)) return schema
  const options = schema.options as z.ZodType[]
  const isFor = (option: z.ZodType): boolean =>
    node.kind === 'map'
      ? option instanceof z.ZodObject || option instanceof z.ZodRecord
      : option instanceof z.ZodArray
  return options.find(isFor) ?? schema
}

function checkMap(schema: z.ZodObject, node: MapNode, found: Found): Record<string, unknown> {
  const shape = schema.shape as Record<string, z.ZodType>
  const known = Object.keys(shape)
  const value = Object.create(null) as Record<string, unknown>
  const meant = new Set<string>()
  for (const entry of node.entries) {
    if (Object.hasOwn(shape, entry.key)) {
      value[entry.key] = checkValue(shape[entry.key] as z.ZodType, entry.value, at(found, entry))
    } else if (found.path.length > 0 || !isIgnoredKey(entry.key)) {
      const refused = wordsOf(schema).rules?.refused ?? {}
      if (Object.hasOwn(refused, entry.key)) {
        reportRefused(entry, refused[entry.key] as string, found)
        continue
      }
      const suggestion = suggest(entry.key, known)
      if (suggestion) meant.add(suggestion)
      reportUnknown(entry, known, suggestion, found)
    }
  }
  // A misspelt key is not reported again as a missing one.
  const missing = known.filter(
    (key) =>
      !(shape[key] instanceof z.ZodOptional) && !Object.hasOwn(value, key) && !meant.has(key),
  )
  for (const key of missing) needs(found, node, [key])
  checkRules(wordsOf(schema), node, meant, found)
  return value
}

const at = (found: Found, entry: Entry): Found => ({
  report: found.report,
  path: [...found.path, entry.key],
  keySpan: entry.keySpan,
})

function reportUnknown(
  { key, keySpan }: Entry,
  known: readonly string[],
  suggestion: string | undefined,
  { report, path }: Found,
): void {
  const where = path.length > 0 ? ` in ${join(path)}` : ''
  const hint = suggestion ? `did you mean '${suggestion}'?` : `known keys: ${known.join(', ')}`
  const message = `unknown key '${shown(key)}'${where}; ${hint}`
  report.error(keySpan, [...path, key], 'unknown_key', message, suggestion)
}

function reportRefused({ key, keySpan }: Entry, why: string, { report, path }: Found): void {
  const full = [...path, key]
  report.error(keySpan, full, 'unknown_key', `${join(full)} is not possible: ${why}`)
}

const needs = ({ report, path, keySpan }: Found, node: MapNode, keys: readonly string[]): void =>
  report.error(
    path.length > 0 ? keySpan : { start: node.span.start, end: node.span.start },
    path,
    'missing_key',
    `${join(path) || 'the file'} needs ${alternatives(keys)}`,
  )

function checkRules({ rules = {} }: Words, node: MapNode, meant: Set<string>, found: Found): void {
  const { report, path } = found
  const present = (key: string): boolean => node.entries.some((entry) => entry.key === key)
  const { atLeastOne } = rules
  if (atLeastOne && !atLeastOne.some((key) => present(key) || meant.has(key))) {
    needs(found, node, atLeastOne)
  }
  for (const group of rules.atMostOne ?? []) {
    const [first, ...more] = node.entries.filter(({ key }) => group.includes(key))
    for (const second of first ? more : []) {
      const message = `${join(path)} has both '${first?.key}' and '${second.key}'; keep one`
      report.error(second.keySpan, path, 'conflicting_keys', message)
    }
  }
  for (const { key, keySpan } of node.entries) {
    const other = rules.needs && Object.hasOwn(rules.needs, key) ? rules.needs[key] : undefined
    if (other === undefined || present(other) || meant.has(other)) continue
    const full = [...path, key]
    const todo = `add '${other}' or remove '${key}'`
    const message = `${join(full)} is of use only with '${other}'; ${todo}`
    report.error(keySpan, full, 'missing_key', message)
  }
}

function checkNamed(schema: z.ZodRecord, node: MapNode, found: Found): Record<string, unknown> {
  const words = wordsOf(schema)
  checkCount(words, node.entries.length, node, found)
  const value = Object.create(null) as Record<string, unknown>
  for (const entry of node.entries) {
    const place = at(found, entry)
    checkName(schema.keyType as z.ZodType, words, entry, place)
    const item = checkValue(schema.valueType as z.ZodType, entry.value, place)
    value[entry.key] = words.isEnv ? asVariable(entry, place) : item
  }
  return value
}

function checkName(
  schema: z.ZodType,
  { noun }: Words,
  entry: Entry,
  { report, path }: Found,
): void {
  const { expects, fault } = wordsOf(schema)
  const wrong = fault?.(entry.key) ?? (fits(schema, entry.key) ? undefined : { says: expects })
  if (!wrong) return
  const message = `${noun} name '${shown(entry.key)}' ${wrong.says}`
  report.error(entry.keySpan, path, wrong.code ?? 'invalid_name', message, wrong.suggestion)
}

/** Numbers and booleans reach the process as written. */
function asVariable({ key, value }: Entry, { report, path }: Found): string {
  const text = value.kind === 'scalar' && value.value !== null ? value.source : ''
  const isWritten = text !== '' && !isReference(text)
  if (looksLikeSecret(key) && isWritten && typeof (value as ScalarNode).value !== 'boolean') {
    const message =
      `${join(path)} looks like a secret, and everybody who can read the repository can read it; ` +
      'make it a custom variable of the environment'
    report.warn(value.span, path, 'looks_like_secret', message)
  }
  return text
}

function checkList(schema: z.ZodArray, node: ListNode, found: Found): unknown[] {
  const words = wordsOf(schema)
  checkCount(words, node.items.length, node, found)
  const seen = new Set<unknown>()
  return node.items.map((item, index) => {
    const path = [...found.path, index]
    if (words.isUnique && item.kind === 'scalar') {
      if (seen.has(item.value)) {
        const message = `${join(found.path)} names '${shown(item.source)}' twice; remove one`
        found.report.error(item.span, path, 'invalid_value', message)
      }
      seen.add(item.value)
    }
    return checkValue(schema.element as z.ZodType, item, {
      report: found.report,
      path,
      keySpan: item.span,
    })
  })
}

function checkCount(words: Words, count: number, node: TreeNode, found: Found): void {
  const { min = 0, max = Number.POSITIVE_INFINITY, noun } = words
  if (count >= min && count <= max) return
  const wanted =
    count < min ? `needs at least ${min} ${noun}` : `holds ${count} ${noun}s; at most ${max}`
  const more = count < min ? (min > 1 ? 's' : '') : ' are possible'
  found.report.error(
    spanIn(node, found),
    found.path,
    'invalid_value',
    `${join(found.path)} ${wanted}${more}`,
  )
}

function checkLeaf(schema: z.ZodType, node: TreeNode, found: Found): unknown {
  const { expects } = wordsOf(schema)
  const fault = faultOf(schema)
  if (node.kind !== 'scalar' || !typesOf(schema).has(typeof node.value)) {
    return wrongType(schema, node, found)
  }
  const { value } = node
  const wrong: Fault | undefined =
    typeof value === 'string' ? (carriageFault(value) ?? fault?.(value)) : undefined
  const { report, path } = found
  if (wrong) {
    const message = `${join(path)} ${wrong.says}`
    report.error(
      spanIn(node, found),
      path,
      wrong.code ?? 'invalid_value',
      message,
      wrong.suggestion,
    )
  } else if (!fits(schema, value)) {
    const message = `${join(path)} must be ${expects}, got ${described(node, false)}`
    report.error(spanIn(node, found), path, 'invalid_value', message)
  }
  return value
}

/** Of "a path, a map or false", returns the path's own. */
function faultOf(schema: z.ZodType): Words['fault'] {
  const options = schema instanceof z.ZodUnion ? (schema.options as z.ZodType[]) : []
  const text = options.find((option) => option instanceof z.ZodString)
  return wordsOf(schema).fault ?? (text && schemaWords.get(text)?.fault)
}

function wrongType(schema: z.ZodType, node: TreeNode, found: Found): undefined {
  const { path, report } = found
  const name = join(path) || 'the file'
  const { hint = '', suggestion } = node.kind === 'scalar' ? otherSpelling(schema, node) : {}
  const message = `${name} must be ${wordsOf(schema).expects}, got ${described(node, true)}${hint}`
  report.error(spanIn(node, found), path, 'invalid_type', message, suggestion)
}

/** The right value with or without quotes. */
function otherSpelling(
  schema: z.ZodType,
  { value, source }: ScalarNode,
): { hint?: string; suggestion?: string } {
  const types = typesOf(schema)
  if (typeof value === 'string' && types.has('number') && value.trim() !== '') {
    return fits(schema, Number(value))
      ? { hint: '; remove the quotes', suggestion: value.trim() }
      : {}
  }
  if (typeof value !== 'string' && value !== null && types.has('string') && fits(schema, source)) {
    return { hint: '; put it in quotes', suggestion: `"${source}"` }
  }
  return {}
}

const fits = (schema: z.ZodType, value: unknown): boolean => schema.safeParse(value).success

/** JavaScript's names of the scalar types that a schema accepts. */
function typesOf(schema: z.ZodType): Set<string> {
  if (schema instanceof z.ZodUnion) {
    return new Set((schema.options as z.ZodType[]).flatMap((option) => [...typesOf(option)]))
  }
  if (schema instanceof z.ZodString || schema instanceof z.ZodEnum) return new Set(['string'])
  if (schema instanceof z.ZodNumber) return new Set(['number'])
  if (schema instanceof z.ZodBoolean) return new Set(['boolean'])
  if (schema instanceof z.ZodLiteral)
    return new Set([...schema.values].map((value) => typeof value))
  return new Set()
}

/** `text "three thousand"`, `a list`, `nothing`. */
function described(node: TreeNode, isOtherType: boolean): string {
  if (node.kind !== 'scalar') return node.kind === 'list' ? 'a list' : 'a map'
  if (node.value === null) return 'nothing'
  if (typeof node.value === 'string') return `${isOtherType ? 'text ' : ''}${quoted(node.value)}`
  return `${isOtherType && typeof node.value === 'number' ? 'number ' : ''}${shown(node.source)}`
}

/** A command line or a variable cannot carry these. */
const carriageFault = (value: string): Fault | undefined =>
  value.includes('\0') || !value.isWellFormed()
    ? { says: 'holds a character that cannot be passed on (NUL, or half of a pair)' }
    : undefined

const spanIn = (node: TreeNode, { keySpan }: Found): Span =>
  node.span.end > node.span.start ? node.span : keySpan
