// Adds to the OpenAPI document what no schema knows: a sentence and an example for each operation, parameter and
// property, from the glossary, and whole examples of bodies and answers that are made of them.
import { ERRORS, type ErrorCode } from '@berth/shared'
import { PROBLEM } from '../http/problem.ts'
import {
  FIELDS,
  findKey,
  keysOfParameter,
  keysOfProperty,
  OPERATIONS,
} from './glossary/glossary.ts'
import type { Document, Json, Media, Operation } from './operations.ts'

/** A parameter or property of the document, and the keys of the glossary that may describe it. */
export interface Place {
  kind: 'parameter' | 'property'
  /** For people: `Task.failure.code`, or `getTask: id`. */
  where: string
  keys: string[]
  target: Json
  /** What an example must fit. */
  schema: Json
}

const DEPTH = 8
const TIME = '2026-11-15T09:12:33Z'

const isObject = (value: unknown): value is Json => value !== null && typeof value === 'object'
const schemasIn = (value: unknown): Json[] => (Array.isArray(value) ? value.filter(isObject) : [])

/** Lists the properties of a schema, also those of nested objects, but not behind a reference. */
function* properties(schema: unknown, path: readonly string[]): Generator<Place> {
  if (!isObject(schema)) return
  for (const [name, target] of Object.entries((schema.properties ?? {}) as Record<string, Json>)) {
    const own = [...path, name]
    yield {
      kind: 'property',
      where: own.join('.'),
      keys: keysOfProperty(own),
      target,
      schema: target,
    }
    yield* properties(target, own)
  }
  for (const key of ['items', 'additionalProperties']) yield* properties(schema[key], path)
  for (const key of ['anyOf', 'oneOf', 'allOf']) {
    for (const one of schemasIn(schema[key])) yield* properties(one, path)
  }
}

export function* operationsOf(
  document: Document,
): Generator<{ path: string; method: string; operation: Operation }> {
  for (const [path, item] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(item)) yield { path, method, operation }
  }
}

/** The bodies of requests and answers. */
function* contents(
  operation: Operation,
): Generator<{ status: string; type: string; media: Media }> {
  const bodies = { '': operation.requestBody, ...operation.responses }
  for (const [status, body] of Object.entries(bodies)) {
    for (const [type, media] of Object.entries(body?.content ?? {})) yield { status, type, media }
  }
}

/** Every parameter and property that the reference describes. */
export function* placesOf(document: Document): Generator<Place> {
  for (const [name, schema] of Object.entries(document.components.schemas ?? {})) {
    yield* properties(schema, [name])
  }
  for (const target of Object.values(document.components.parameters ?? {})) {
    const where = String(target.name)
    yield { kind: 'parameter', where, keys: [where], target, schema: target.schema as Json }
  }
  for (const { path, operation } of operationsOf(document)) {
    const { operationId: id, parameters } = operation
    for (const target of parameters) {
      if (target.$ref !== undefined) continue
      const named = { name: String(target.name), in: String(target.in) }
      const keys = keysOfParameter({ id, path }, named)
      const where = `${id}.${named.name}`
      yield { kind: 'parameter', where, keys, target, schema: (target.schema ?? {}) as Json }
    }
    for (const { type, media } of contents(operation)) {
      yield* properties(media.schema, [type === PROBLEM ? 'Problem' : id])
    }
  }
}

/** A value that fits a schema; undefined if the schema alone does not say enough. */
function exampleOf(document: Document, schema: Json, depth = 0): unknown {
  const own = schema.examples as unknown[] | undefined
  if (own?.[0] !== undefined) return own[0]
  if (depth > DEPTH) return undefined
  const inner = (one: unknown): unknown => exampleOf(document, one as Json, depth + 1)
  if (typeof schema.$ref === 'string') {
    return inner(document.components.schemas?.[schema.$ref.split('/').at(-1) ?? ''] ?? {})
  }
  if (schema.const !== undefined) return schema.const
  if (Array.isArray(schema.enum)) return schema.enum[0]
  const several = schemasIn(schema.anyOf ?? schema.oneOf)
  if (several.length > 0) return inner(several.find((one) => one.type !== 'null'))
  if (schema.type === 'object' && isObject(schema.properties)) return compose(schema, inner)
  if (schema.type === 'array') {
    const item = inner(schema.items)
    return item === undefined ? undefined : [item]
  }
  if (schema.type === 'boolean') return false
  return schema.format === 'date-time' ? TIME : undefined
}

function compose(schema: Json, inner: (one: unknown) => unknown): Json {
  const fields = Object.entries(schema.properties as Json)
    .map(([name, one]) => [name, inner(one)] as const)
    .filter(([, value]) => value !== undefined)
  return Object.fromEntries(fields)
}

/** An entry for many places may have an example that is not among the values of one of them. */
const fits = (schema: Json, example: unknown): boolean =>
  Array.isArray(schema.enum)
    ? schema.enum.includes(example)
    : schema.const === undefined || schema.const === example

function describePlace({ kind, keys, target, schema }: Place): void {
  const entry = FIELDS.get(findKey(keys) ?? '')
  const own = (target.examples as unknown[] | undefined)?.[0] ?? target.example
  if (entry) target.description = entry[0]
  const example = entry && entry.length > 1 ? entry[1] : own
  delete target.examples
  delete target.example
  if (example === undefined || !fits(schema, example)) return
  if (kind === 'parameter') target.example = example
  else target.examples = [example]
}

/** A sentence about the permission ends every description, so that it is read where the operation is. */
function describeOperation(operation: Operation): void {
  const entry = OPERATIONS.get(operation.operationId)
  const says = entry?.says ?? operation.description
  const { says: permission } = operation['x-permission']
  operation.description = says ? `${says}\n\n${permission}` : permission
}

function addExamples(document: Document, operation: Operation): void {
  const entry = OPERATIONS.get(operation.operationId)
  for (const { status, type, media } of contents(operation)) {
    if (type === PROBLEM) {
      const [code] = codesOf(media.schema)
      if (code) media.examples = { [code]: { $ref: `#/components/examples/${code}` } }
      continue
    }
    const composed = exampleOf(document, media.schema)
    const example =
      status === ''
        ? (entry?.body ?? composed)
        : status.startsWith('2')
          ? merge(composed, entry?.answer)
          : (composed ?? entry?.answer)
    if (example !== undefined) media.example = example
  }
}

function merge(composed: unknown, changed: Json | string | undefined): unknown {
  if (changed === undefined) return composed
  if (typeof changed === 'string') return composed ?? changed
  if (Array.isArray(composed)) return composed.map((one) => merge(one, changed))
  return isObject(composed) ? { ...composed, ...changed } : changed
}

export function codesOf(schema: unknown): ErrorCode[] {
  const code = (schema as { properties?: { code?: { enum?: ErrorCode[] } } } | undefined)
    ?.properties?.code
  return code?.enum ?? []
}

/** One example for each code that some operation answers with. */
function problemExamples(document: Document): Record<string, Json> {
  const codes = new Set<ErrorCode>()
  for (const { operation } of operationsOf(document)) {
    for (const { type, media } of contents(operation)) {
      if (type === PROBLEM) for (const code of codesOf(media.schema)) codes.add(code)
    }
  }
  const made = [...codes].toSorted().map((code): [string, Json] => {
    const [status, title] = ERRORS[code]
    const value = {
      type: `https://deploy.example.com/docs/errors/${code}`,
      title,
      status,
      detail: `${title}.`,
      instance: '/api/environments/101/tasks',
      code,
      request_id: 'req_8f14e45f',
    }
    return [code, { summary: title, value }]
  })
  return Object.fromEntries(made)
}

/** Describes a document in place. */
export function describeDocument(document: Document): Document {
  const places = [...placesOf(document)]
  for (const place of places) describePlace(place)
  // after all sentences: an object's example is made of the examples of its properties
  for (const { kind, target, schema } of places) {
    if ((kind === 'parameter' ? target.example : target.examples) !== undefined) continue
    const example = exampleOf(document, schema)
    if (example === undefined) continue
    if (kind === 'parameter') target.example = example
    else target.examples = [example]
  }
  document.components.examples = problemExamples(document)
  for (const { operation } of operationsOf(document)) {
    describeOperation(operation)
    addExamples(document, operation)
  }
  return document
}
