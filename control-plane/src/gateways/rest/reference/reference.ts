// Renders the API reference as one page from the OpenAPI document: one section per operation with its permission,
// fields, an example of its answer and its refusals. The browser's own search works; no script, no external request.
import { ERRORS, type ErrorCode } from '@berth/shared'
import { html, type Markup, page, prose } from '../http/html.ts'
import { PROBLEM } from '../http/problem.ts'
import type { Document } from './openapi.ts'
import type { Json, Operation } from './operations.ts'

const EXAMPLE_DEPTH = 6

interface Field {
  name: string
  type: string
  required: boolean
}

function resolve(document: Document, schema: Json): Json {
  const target = schema.$ref
  if (typeof target !== 'string') return schema
  const [, , kind = '', name = ''] = target.split('/')
  return document.components[kind]?.[name] ?? {}
}

const nameOf = (schema: Json): string | undefined =>
  typeof schema.$ref === 'string' ? schema.$ref.split('/').at(-1) : undefined

function typeWords(schema: Json): string {
  const name = nameOf(schema)
  if (name) return name
  if (Array.isArray(schema.enum)) return schema.enum.map((v) => JSON.stringify(v)).join(' | ')
  const several = (schema.anyOf ?? schema.oneOf) as Json[] | undefined
  if (several) return several.map(typeWords).join(' | ')
  if (schema.type === 'array') return `array of ${typeWords((schema.items ?? {}) as Json)}`
  if (schema.format === 'date-time') return 'time'
  return [schema.type ?? 'any'].flat().join(' | ')
}

/** The fields of an object schema, or of the elements of a list. */
function fieldsOf(document: Document, schema: Json): Field[] {
  const whole = resolve(document, schema)
  if (whole.type === 'array') return fieldsOf(document, (whole.items ?? {}) as Json)
  const several = (whole.anyOf ?? whole.oneOf) as Json[] | undefined
  if (several) return fieldsOf(document, several.find((s) => s.type !== 'null') ?? {})
  const required = new Set((whole.required ?? []) as string[])
  return Object.entries((whole.properties ?? {}) as Record<string, Json>).map(([name, field]) => ({
    name,
    type: typeWords(field),
    required: required.has(name),
  }))
}

/** A small value that fits a schema; enough to show the shape. */
function exampleOf(document: Document, schema: Json, depth = 0): unknown {
  const s = resolve(document, schema)
  if (depth > EXAMPLE_DEPTH) return null
  if (Array.isArray(s.enum)) return s.enum[0]
  const several = (s.anyOf ?? s.oneOf) as Json[] | undefined
  if (several) return exampleOf(document, several[0] ?? {}, depth)
  switch ([s.type].flat()[0]) {
    case 'object':
      return Object.fromEntries(
        Object.entries((s.properties ?? {}) as Record<string, Json>).map(([name, field]) => [
          name,
          exampleOf(document, field, depth + 1),
        ]),
      )
    case 'array':
      return [exampleOf(document, (s.items ?? {}) as Json, depth + 1)]
    case 'integer':
    case 'number':
      return typeof s.minimum === 'number' ? Math.max(1, s.minimum) : 1
    case 'boolean':
      return false
    case 'string':
      return s.format === 'date-time' ? '2026-11-15T09:12:33Z' : '…'
    default:
      return null
  }
}

const table = (fields: Field[], mayBeAbsent: string): Markup =>
  html`<div class="wide"><table><tr><th>Field</th><th>Type</th><th></th></tr>${fields.map(
    (f) =>
      html`<tr><td><code>${f.name}</code></td><td>${f.type}</td><td class="soft">${
        f.required ? '' : mayBeAbsent
      }</td></tr>`,
  )}</table></div>`

function parameters(document: Document, operation: Operation): Markup | undefined {
  const list = operation.parameters.map((p) => resolve(document, p))
  if (list.length === 0) return undefined
  const rows = list.map(
    (p) =>
      html`<tr><td><code>${String(p.name)}</code></td><td>${String(p.in)}</td><td>${typeWords(
        (p.schema ?? {}) as Json,
      )}</td><td class="soft">${p.required ? 'required' : ''} ${String(p.description ?? '')}</td></tr>`,
  )
  return html`<h3>Parameters</h3><div class="wide"><table><tr><th>Name</th><th>In</th><th>Type</th><th></th></tr>${rows}</table></div>`
}

function answers(document: Document, operation: Operation): Markup[] {
  return Object.entries(operation.responses)
    .filter(([status]) => status.startsWith('2'))
    .map(([status, response]) => {
      const media = Object.entries(response.content ?? {})
      const parts = media.map(([type, { schema }]) => {
        if (!type.includes('json')) return html`<p><code>${type}</code></p>`
        const fields = fieldsOf(document, schema)
        const example = JSON.stringify(exampleOf(document, schema), undefined, 2)
        return html`<p><code>${type}</code> ${typeWords(schema)}</p>${
          fields.length > 0 ? table(fields, 'may be absent') : undefined
        }<details><summary>Example</summary><pre><code>${example}</code></pre></details>`
      })
      return html`<h3>${status}: ${response.description}</h3>${parts}`
    })
}

function refusals(operation: Operation): Markup {
  const codes = Object.values(operation.responses).flatMap((response) => {
    const schema = response.content?.[PROBLEM]?.schema as
      | { properties?: { code?: { enum?: ErrorCode[] } } }
      | undefined
    return schema?.properties?.code?.enum ?? []
  })
  const items = codes
    .toSorted((a, b) => ERRORS[a][0] - ERRORS[b][0])
    .map((code) => html`<a href="/docs/errors/${code}">${ERRORS[code][0]} ${code}</a> `)
  return html`<h3>Refusals</h3><p>${items}</p>`
}

/** Lets a long path wrap after a slash. */
const breakable = (path: string): Markup =>
  html`<span class="path">${path.split('/').map((part, n) => (n === 0 ? part : html`/<wbr>${part}`))}</span>`

function section(document: Document, path: string, method: string, o: Operation): Markup {
  const body = o.requestBody?.content['application/json']?.schema
  const needs = String(o['x-needs'])
  return html`<section id="${o.operationId}"><h2><span class="verb">${method.toUpperCase()}</span> ${breakable(path)}</h2>
<p>${o.summary}. <span class="soft">${o.operationId}; needs ${needs}; rate limit ${String(
    o['x-rate-limit-policy'],
  )}</span>${o['x-shows-secret'] ? html` <strong>Shows a secret once.</strong>` : undefined}</p>
${parameters(document, o)}
${
  body
    ? html`<h3>Body${o.requestBody?.required ? '' : ' (optional)'}</h3>${table(
        fieldsOf(document, body),
        'optional',
      )}`
    : undefined
}
${answers(document, o)}${refusals(o)}</section>`
}

export function serializeReference(document: Document): string {
  const all = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
  )
  const groups = document.tags.map(({ name, description }) => {
    const some = all.filter((o) => o.operation.tags.includes(name))
    return {
      index: html`<h3>${name}</h3><p class="soft">${description}</p><ul class="index">${some.map(
        (o) =>
          html`<li><a href="#${o.operation.operationId}">${o.method.toUpperCase()} ${breakable(o.path)}</a></li>`,
      )}</ul>`,
      sections: some.map((o) => section(document, o.path, o.method, o.operation)),
    }
  })
  return page(
    'Berth API',
    html`<h1>Berth API ${String(document.info.version)}</h1>
<p>${prose(
      'Every request carries `Authorization: Bearer <token>`. Lists are bare arrays, paged by the `Link` header. Errors are `application/problem+json` with a stable `code`. Fields may be added; ignore those you do not know. For programs: ',
    )}<a href="/api/openapi.json">OpenAPI 3.1</a>.</p>
${groups.map((g) => g.index)}${groups.map((g) => g.sections)}`,
  )
}
