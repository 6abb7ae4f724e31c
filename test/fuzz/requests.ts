// Requests drawn from the operations of the OpenAPI document: mostly as documented, often with one error.
import fc from 'fast-check'
import type { Document } from '../../control-plane/src/gateways/rest/reference/openapi.ts'
import type { Operation } from '../../control-plane/src/gateways/rest/reference/operations.ts'
import { JsonSchemas, type Schema } from '../contract/json-schema.ts'
import { damaged, fitting, hostileText } from './values.ts'

export interface FuzzRequest {
  method: string
  path: string
  /** The index of the token; the last ones are a missing and an invalid one. */
  actor: number
  headers: Record<string, string>
  body: string | undefined
}

interface Parameter {
  name: string
  in: string
  schema: Schema
}

const often = <T>(usual: fc.Arbitrary<T>, odd: fc.Arbitrary<T>, weight = 12): fc.Arbitrary<T> =>
  fc.oneof({ arbitrary: usual, weight }, { arbitrary: odd, weight: 1 })

/** One time in `freq`. */
const rarely = <T, N>(some: fc.Arbitrary<T>, nil: N, freq: number): fc.Arbitrary<T | N> =>
  fc.oneof({ arbitrary: some, weight: 1 }, { arbitrary: fc.constant(nil), weight: freq - 1 })

/** The first rows of each organization, and sometimes one created in the run. */
const someId = fc
  .oneof(
    { arbitrary: fc.integer({ min: 1, max: 4 }), weight: 5 },
    { arbitrary: fc.integer({ min: 5, max: 60 }), weight: 1 },
  )
  .map(String)

function resolved(document: Document, operation: Operation): Parameter[] {
  return operation.parameters.map((p) => {
    const name = typeof p.$ref === 'string' ? p.$ref.split('/').at(-1) : undefined
    return (name ? document.components.parameters?.[name] : p) as unknown as Parameter
  })
}

function paths(path: string): fc.Arbitrary<string> {
  const parts = path.split(/(\{\w+\})/)
  const pieces = parts.map((part) => {
    if (!part.startsWith('{')) return fc.constant(part)
    const odd = hostileText.map((text) => encodeURIComponent(text.toWellFormed()) || '%20')
    return often(part === '{code}' ? fc.constant('not_found') : someId, odd)
  })
  return fc.tuple(...pieces).map((all) => all.join(''))
}

function queries(parameters: Parameter[], schemas: JsonSchemas): fc.Arbitrary<string> {
  const own = parameters.filter((p) => p.in === 'query')
  const pairs = own.map((p) =>
    rarely(
      often(
        fitting(p.schema, (r) => schemas.resolve(r)).map((v) =>
          [v].flat().map((one) => [p.name, String(one)] as const),
        ),
        hostileText.map((text) => [[p.name, text] as const]),
        5,
      ),
      [],
      4,
    ),
  )
  const stray = rarely(
    fc.tuple(hostileText, hostileText).map((pair) => [pair] as const),
    [],
    30,
  )
  return fc.tuple(stray, ...pairs).map((all) => {
    const list = all.flat().map((pair) => pair.map((t) => encodeURIComponent(t.toWellFormed())))
    return list.length === 0 ? '' : `?${list.map((pair) => pair.join('=')).join('&')}`
  })
}

const printable = hostileText.map((text) => text.replaceAll(/[^\x20-\x7e]/g, '').slice(0, 300))

function headers(method: string): fc.Arbitrary<Record<string, string>> {
  const entry = (name: string, value: fc.Arbitrary<string>, freq: number) =>
    rarely(
      value.map((v) => [name, v] as const),
      undefined,
      freq,
    )
  return fc
    .tuple(
      entry(
        'x-service-organization',
        often(fc.integer({ min: 1, max: 5 }).map(String), printable, 4),
        4,
      ),
      entry(
        'idempotency-key',
        often(fc.constantFrom('a', 'b', 'c'), printable, 6),
        method === 'GET' ? 30 : 4,
      ),
      entry('if-none-match', printable, 20),
      entry(
        'accept',
        fc.constantFrom('*/*', 'application/json', 'text/html', 'text/plain', 'x'),
        10,
      ),
      entry(
        'range',
        fc.constantFrom('bytes=0-', 'bytes=5-1', 'bytes=-3', 'bytes=9999-', 'lines=1'),
        10,
      ),
      entry('berth-client', fc.constantFrom('cli/1', 'mcp/1', ''), 10),
    )
    .map((all) => Object.fromEntries(all.filter((pair) => pair !== undefined)))
}

const BROKEN_BODIES = ['{', '[', 'nul', '"', '{"a":1,}', '\u0000', '{"__proto__":{}}', '[[[[', '01']

function bodies(operation: Operation, schemas: JsonSchemas): fc.Arbitrary<string | undefined> {
  const schema = operation.requestBody?.content['application/json']?.schema
  const good = schema ? fitting(schema, (r) => schemas.resolve(r)) : fc.constant(null)
  const text = (value: fc.Arbitrary<unknown>) =>
    value.map((v) => JSON.stringify(v) as string | undefined)
  return fc.oneof(
    { arbitrary: text(good), weight: 10 },
    { arbitrary: text(damaged(good)), weight: 8 },
    { arbitrary: fc.constant(undefined), weight: schema ? 1 : 10 },
    { arbitrary: fc.constantFrom(...BROKEN_BODIES), weight: 1 },
  )
}

/** Documented methods, the ones that clients send on their own, and some that no route knows. */
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND']

/** A documented address with any method. */
const anyMethod = (path: string, actors: number): fc.Arbitrary<FuzzRequest> =>
  fc
    .record({
      method: fc.constantFrom(...METHODS),
      path: paths(path),
      actor: fc.integer({ min: 0, max: actors - 1 }),
      headers: headers('ANY'),
      body: fc.constantFrom(undefined, '{}', '[]', 'null', ...BROKEN_BODIES),
    })
    .map((request) => ({
      ...request,
      headers: { 'content-type': 'application/json', ...request.headers },
    }))

/** One arbitrary per operation, and one per address. */
export function requestsOf(
  document: Document,
  actors: number,
): Map<string, fc.Arbitrary<FuzzRequest>> {
  const schemas = new JsonSchemas((document.components.schemas ?? {}) as Record<string, Schema>)
  const made = new Map<string, fc.Arbitrary<FuzzRequest>>()
  for (const [path, item] of Object.entries(document.paths)) {
    made.set(`ANY ${path}`, anyMethod(path, actors))
    for (const [name, operation] of Object.entries(item)) {
      const method = name.toUpperCase()
      const parameters = resolved(document, operation)
      const request = fc
        .tuple(
          paths(path),
          queries(parameters, schemas),
          fc.integer({ min: 0, max: actors - 1 }),
          headers(method),
          method === 'GET' ? fc.constant(undefined) : bodies(operation, schemas),
          fc.integer({ min: 0, max: 19 }),
        )
        .map(([where, query, actor, given, body, dice]) => ({
          method: method === 'GET' && dice === 0 ? 'HEAD' : method,
          path: where + query,
          actor,
          headers:
            body === undefined
              ? given
              : { 'content-type': dice === 1 ? 'text/plain' : 'application/json', ...given },
          body,
        }))
      made.set(`${method} ${path}`, request)
    }
  }
  return made
}
