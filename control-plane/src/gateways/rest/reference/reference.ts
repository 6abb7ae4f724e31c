// Renders the API reference as one page from the OpenAPI document: one section per operation with its permission,
// fields, examples and refusals. The browser's own search works; no script, no external request.
import { ERRORS } from '@berth/shared'
import { html, type Markup, page, prose } from '../http/html.ts'
import { PROBLEM } from '../http/problem.ts'
import { codesOf } from './describe.ts'
import type { Document, Json, Operation } from './operations.ts'

interface Field {
  name: string
  type: string
  says: string
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

/** The fields of an object schema, or of the elements of a list; nested ones follow their parent. */
function fieldsOf(document: Document, schema: Json, prefix = ''): Field[] {
  const whole = prefix === '' ? resolve(document, schema) : schema
  if (whole.type === 'array') return fieldsOf(document, (whole.items ?? {}) as Json, prefix)
  const several = (whole.anyOf ?? whole.oneOf) as Json[] | undefined
  if (several) {
    const fields = several.flatMap((one) => fieldsOf(document, one, prefix))
    return fields.filter((f, n) => fields.findIndex(({ name }) => name === f.name) === n)
  }
  const required = new Set((whole.required ?? []) as string[])
  const properties = Object.entries((whole.properties ?? {}) as Record<string, Json>)
  return properties.flatMap(([name, field]) => [
    {
      name: prefix + name,
      type: typeWords(field),
      says: String(field.description ?? ''),
      required: required.has(name),
    },
    ...fieldsOf(document, field, `${prefix}${name}.`),
  ])
}

const table = (fields: Field[], mayBeAbsent: string): Markup =>
  html`<div class="wide"><table><tr><th>Field</th><th>Type</th><th>Meaning</th></tr>${fields.map(
    (f) =>
      html`<tr><td><code>${f.name}</code></td><td>${f.type}</td><td>${prose(f.says)}${
        f.required ? undefined : html` <span class="soft">${mayBeAbsent}</span>`
      }</td></tr>`,
  )}</table></div>`

const inCode = (example: unknown): Markup =>
  html`<code>${typeof example === 'string' ? example : JSON.stringify(example)}</code>`

function parameters(document: Document, operation: Operation): Markup | undefined {
  const list = operation.parameters.map((p) => resolve(document, p))
  if (list.length === 0) return undefined
  const rows = list.map(
    (p) =>
      html`<tr><td><code>${String(p.name)}</code></td><td>${String(p.in)}</td><td>${typeWords(
        (p.schema ?? {}) as Json,
      )}</td><td>${prose(String(p.description ?? ''))} <span class="soft">${
        p.required ? 'required, ' : ''
      }such as ${inCode(p.example)}</span></td></tr>`,
  )
  return html`<h3>Parameters</h3><div class="wide"><table><tr><th>Name</th><th>In</th><th>Type</th><th>Meaning</th></tr>${rows}</table></div>`
}

const shownExample = (example: unknown): Markup | undefined => {
  if (example === undefined) return undefined
  const text = typeof example === 'string' ? example : JSON.stringify(example, undefined, 2)
  return html`<details><summary>Example</summary><pre><code>${text}</code></pre></details>`
}

function answers(document: Document, operation: Operation): Markup[] {
  return Object.entries(operation.responses)
    .filter(([status]) => status.startsWith('2'))
    .map(([status, response]) => {
      const media = Object.entries(response.content ?? {})
      const parts = media.map(([type, { schema, example }]) => {
        const shown = shownExample(example)
        if (!type.includes('json')) return html`<p><code>${type}</code></p>${shown}`
        const fields = fieldsOf(document, schema)
        return html`<p><code>${type}</code> ${typeWords(schema)}</p>${
          fields.length > 0 ? table(fields, 'may be absent') : undefined
        }${shown}`
      })
      return html`<h3>${status}: ${response.description}</h3>${parts}`
    })
}

function refusals(operation: Operation): Markup {
  const codes = Object.values(operation.responses).flatMap((response) => {
    return codesOf(response.content?.[PROBLEM]?.schema)
  })
  const items = codes
    .toSorted((a, b) => ERRORS[a][0] - ERRORS[b][0])
    .map((code) => html`<a href="/docs/errors/${code}">${ERRORS[code][0]} ${code}</a> `)
  return html`<h3>Refusals</h3><p>${items}</p>`
}

/** Lets a long path wrap after a slash. */
const breakable = (path: string): Markup =>
  html`<span class="path">${path.split('/').map((part, n) => (n === 0 ? part : html`/<wbr>${part}`))}</span>`

function body(document: Document, { requestBody }: Operation): Markup[] {
  return Object.entries(requestBody?.content ?? {}).map(
    ([type, { schema, example }]) =>
      html`<h3>Body${requestBody?.required ? '' : ' (optional)'}</h3><p><code>${type}</code></p>${table(
        fieldsOf(document, schema),
        'optional',
      )}${shownExample(example)}`,
  )
}

function section(document: Document, path: string, method: string, o: Operation): Markup {
  return html`<section id="${o.operationId}"><h2><span class="verb">${method.toUpperCase()}</span> ${breakable(path)}</h2>
<p><strong>${o.summary}.</strong> <span class="soft">${o.operationId}; rate limit ${String(
    o['x-rate-limit-policy'],
  )}</span>${o['x-shows-secret'] ? html` <strong>Shows a secret once.</strong>` : undefined}</p>
${(o.description ?? '').split('\n\n').map((text) => html`<p>${prose(text)}</p>`)}
${parameters(document, o)}${body(document, o)}${answers(document, o)}${refusals(o)}</section>`
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
