// Renders the API reference as one page from the OpenAPI document: one section per operation with its permission,
// fields, examples and refusals. The browser's own search works; no script, no external request.
import { ERRORS } from '@berth/shared'
import { html, Markup, page, prose } from '../http/html.ts'
import { PROBLEM } from '../http/problem.ts'
import { codesOf } from './describe.ts'
import type { Document, Json, Media, Operation } from './operations.ts'

interface Field {
  name: string
  type: Markup
  says: string
  example: unknown
  isRequired: boolean
}

function resolve(document: Document, schema: Json): Json {
  const target = schema.$ref
  if (typeof target !== 'string') return schema
  const [, , kind = '', name = ''] = target.split('/')
  return document.components[kind]?.[name] ?? {}
}

const nameOf = (schema: Json): string | undefined =>
  typeof schema.$ref === 'string' ? schema.$ref.split('/').at(-1) : undefined

/** Without repeating a part. */
const joined = (parts: readonly Markup[], between: string): Markup =>
  new Markup([...new Set(parts.map(({ text }) => text))].join(between))

function typeOf(schema: Json): Markup {
  const name = nameOf(schema)
  if (name) return html`<a href="#schema-${name}">${name}</a>`
  if (schema.const !== undefined) return inCode(schema.const)
  if (Array.isArray(schema.enum)) return joined(schema.enum.map(inCode), ', ')
  const several = (schema.anyOf ?? schema.oneOf) as Json[] | undefined
  if (several) return joined(several.map(typeOf), ' or ')
  if (schema.type === 'array') return html`list of ${typeOf((schema.items ?? {}) as Json)}`
  if (schema.format === 'date-time') return html`time`
  return html`${[schema.type ?? 'any'].flat().join(' or ')}`
}

/** The fields of an object, or of the elements of a list; nested ones follow their parent, named schemas have links. */
function fieldsOf(schema: Json, prefix = ''): Field[] {
  if (schema.type === 'array') return fieldsOf((schema.items ?? {}) as Json, prefix)
  const several = (schema.anyOf ?? schema.oneOf) as Json[] | undefined
  if (several) return several.flatMap((one) => fieldsOf(one, prefix))
  const required = new Set((schema.required ?? []) as string[])
  const properties = Object.entries((schema.properties ?? {}) as Record<string, Json>)
  const own = properties.flatMap(([name, field]) => [
    {
      name: prefix + name,
      type: typeOf(field),
      says: String(field.description ?? ''),
      example: (field.examples as unknown[] | undefined)?.[0],
      isRequired: required.has(name),
    },
    ...fieldsOf(field, `${prefix}${name}.`),
  ])
  // of the values behind any key
  const values = schema.additionalProperties
  return values instanceof Object ? [...own, ...fieldsOf(values as Json, prefix)] : own
}

const table = (fields: Field[], mayBeAbsent: string): Markup | undefined =>
  fields.length === 0
    ? undefined
    : html`<div class="wide"><table><tr><th>Field</th><th>Type</th><th>Meaning</th></tr>${fields.map(
        (f) =>
          html`<tr><td><code>${f.name}</code></td><td>${f.type}</td><td>${prose(f.says)} <span class="soft">${
            f.isRequired ? undefined : mayBeAbsent
          }${shortExample(f.example)}</span></td></tr>`,
      )}</table></div>`

const inCode = (example: unknown): Markup =>
  html`<code>${typeof example === 'string' ? example : JSON.stringify(example)}</code>`

const LONG = 120

/** An object's example would repeat those of its fields, which follow. */
const shortExample = (example: unknown): Markup | undefined =>
  typeof example === 'object' && JSON.stringify(example).length > LONG
    ? undefined
    : html` Example: ${inCode(example)}`

function parameters(document: Document, operation: Operation): Markup | undefined {
  const list = operation.parameters.map((p) => resolve(document, p))
  if (list.length === 0) return undefined
  const rows = list.map(
    (p) =>
      html`<tr><td><code>${String(p.name)}</code></td><td>${String(p.in)}</td><td>${typeOf(
        (p.schema ?? {}) as Json,
      )}</td><td>${prose(String(p.description ?? ''))} <span class="soft">${
        p.required ? 'Required.' : ''
      } Example: ${inCode(p.example)}</span></td></tr>`,
  )
  return html`<h3>Parameters</h3><div class="wide"><table><tr><th>Name</th><th>In</th><th>Type</th><th>Meaning</th></tr>${rows}</table></div>`
}

const shownExample = (example: unknown): Markup | undefined => {
  if (example === undefined) return undefined
  const text = typeof example === 'string' ? example : JSON.stringify(example, undefined, 2)
  return html`<details><summary>Example</summary><pre><code>${text}</code></pre></details>`
}

const content = (contents: Record<string, Media>, mayBeAbsent: string): Markup[] =>
  Object.entries(contents).map(
    ([type, { schema, example }]) =>
      html`<p><code>${type}</code> ${typeOf(schema)}</p>${table(fieldsOf(schema), mayBeAbsent)}${shownExample(example)}`,
  )

function answers({ responses }: Operation): Markup[] {
  return Object.entries(responses)
    .filter(([status]) => status.startsWith('2'))
    .map(
      ([status, response]) =>
        html`<h3>${status}: ${response.description}</h3>${content(response.content ?? {}, 'May be absent.')}`,
    )
}

function refusals(operation: Operation): Markup {
  const codes = Object.values(operation.responses).flatMap((response) =>
    codesOf(response.content?.[PROBLEM]?.schema),
  )
  const items = codes
    .toSorted((a, b) => ERRORS[a][0] - ERRORS[b][0])
    .map((code) => html`<a href="/docs/errors/${code}">${ERRORS[code][0]} ${code}</a> `)
  return html`<h3>Refusals</h3><p>${items}</p>`
}

/** Lets a long path wrap after a slash. */
const breakable = (path: string): Markup =>
  html`<span class="path">${path.split('/').map((part, n) => (n === 0 ? part : html`/<wbr>${part}`))}</span>`

const body = ({ requestBody }: Operation): Markup | undefined =>
  requestBody &&
  html`<h3>Body${requestBody.required ? '' : ' (optional)'}</h3>${content(requestBody.content, 'Optional.')}`

function section(document: Document, path: string, method: string, o: Operation): Markup {
  return html`<section id="${o.operationId}"><h2><span class="verb">${method.toUpperCase()}</span> ${breakable(path)}</h2>
<p><strong>${o.summary}.</strong> <span class="soft">${o.operationId}; rate limit ${String(
    o['x-rate-limit-policy'],
  )}</span>${o['x-shows-secret'] ? html` <strong>Shows a secret once.</strong>` : undefined}</p>
${(o.description ?? '').split('\n\n').map((text) => html`<p>${prose(text)}</p>`)}
${parameters(document, o)}${body(o)}${answers(o)}${refusals(o)}</section>`
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
  const schemas = Object.entries(document.components.schemas ?? {}).map(
    ([name, schema]) =>
      html`<section id="schema-${name}"><h2>${name}</h2>${table(fieldsOf(schema), 'May be absent.')}</section>`,
  )
  return page(
    'Berth API',
    html`<h1>Berth API ${String(document.info.version)}</h1>
<p>${prose(
      'Every request carries `Authorization: Bearer <token>`. Lists are bare arrays, paged by the `Link` header. Errors are `application/problem+json` with a stable `code`. Fields may be added; ignore those you do not know. For programs: ',
    )}<a href="/api/openapi.json">OpenAPI 3.1</a>.</p>
${groups.map((g) => g.index)}${groups.map((g) => g.sections)}${schemas}`,
  )
}
