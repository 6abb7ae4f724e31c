// Renders the OpenAPI document as two pages of docs/reference: operations with their parameters, and the properties of
// every body and answer. Nothing in them depends on one installation or release.
import { ERRORS, type ErrorCode } from '@berth/shared'
import { PROBLEM } from '../http/problem.ts'
import { codesOf, operationsOf } from './describe.ts'
import type { Document, Json, Media, Operation } from './operations.ts'

const GENERATED = 'Generated from the code by `npm run gen`.'
const SCHEMAS = 'api-schemas.md'

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll(/\s*\n\s*/g, ' ')
const row = (...cells: string[]): string => `| ${cells.map(cell).join(' | ')} |`
const table = (head: string[], rows: string[][]): string[] =>
  rows.length === 0
    ? []
    : [row(...head), row(...head.map(() => '---')), ...rows.map((one) => row(...one)), '']

const code = (value: unknown): string => `\`${String(value).replaceAll('`', "'")}\``
const exampleText = (example: unknown): string =>
  example === undefined ? '' : code(typeof example === 'string' ? example : JSON.stringify(example))

const nameOf = (schema: Json): string | undefined =>
  typeof schema.$ref === 'string' ? schema.$ref.split('/').at(-1) : undefined
const link = (name: string, page = ''): string => `[${name}](${page}#${name.toLowerCase()})`

function typeText(schema: Json, page = ''): string {
  const name = nameOf(schema)
  if (name) return link(name, page)
  if (schema.const !== undefined) return code(schema.const)
  if (Array.isArray(schema.enum)) return schema.enum.map(code).join(', ')
  const several = (schema.anyOf ?? schema.oneOf) as Json[] | undefined
  if (several) return [...new Set(several.map((one) => typeText(one, page)))].join(' or ')
  if (schema.type === 'array') return `list of ${typeText((schema.items ?? {}) as Json, page)}`
  if (schema.format === 'date-time') return 'time'
  return [schema.type ?? 'any'].flat().join(' or ')
}

/** An example in a cell stays short; objects and lists are shown below the table. */
const cellExample = (example: unknown): string => {
  const text = exampleText(example)
  const isNested = example !== null && typeof example === 'object' && !Array.isArray(example)
  return isNested || text.length > 120 ? 'below' : text
}

/** Variants of an object have a field in common: one row with the types of all. */
function mergeRows(rows: readonly string[][]): string[][] {
  const merged = new Map<string, string[]>()
  for (const [name = '', type = '', ...rest] of rows) {
    const types = new Set([...(merged.get(name)?.[1]?.split(', ') ?? []), type])
    merged.set(name, [name, [...types].join(', '), ...(merged.get(name)?.slice(2) ?? rest)])
  }
  return [...merged.values()]
}

function fieldRows(schema: Json, prefix: string, page: string): string[][] {
  if (schema.type === 'array') return fieldRows((schema.items ?? {}) as Json, prefix, page)
  const several = (schema.anyOf ?? schema.oneOf) as Json[] | undefined
  if (several) {
    return mergeRows(several.flatMap((one) => fieldRows(one, prefix, page)))
  }
  const required = new Set((schema.required ?? []) as string[])
  const fields = Object.entries((schema.properties ?? {}) as Record<string, Json>)
  const own = fields.flatMap(([name, field]) => [
    [
      code(prefix + name),
      typeText(field, page) + (required.has(name) ? '' : ', optional'),
      String(field.description ?? ''),
      cellExample((field.examples as unknown[] | undefined)?.[0]),
    ],
    ...fieldRows(field, `${prefix}${name}.`, page),
  ])
  // of the values behind any key
  const values = schema.additionalProperties
  return values instanceof Object ? [...own, ...fieldRows(values as Json, prefix, page)] : own
}

const FIELD_HEAD = ['Field', 'Type', 'Meaning', 'Example']

const json = (value: unknown): string[] => [
  '```json',
  JSON.stringify(value, undefined, 2),
  '```',
  '',
]

const resolve = (document: Document, parameter: Json): Json =>
  document.components.parameters?.[nameOf(parameter) ?? ''] ?? parameter

/** The call as people would type it: the path with its example, and the body. */
function callOf(document: Document, method: string, path: string, operation: Operation): string[] {
  const own = operation.parameters.map((p) => resolve(document, p))
  const filled = own
    .filter((p) => p.in === 'path')
    .reduce((text, p) => text.replace(`{${String(p.name)}}`, String(p.example)), path)
  const asked = own
    .filter((p) => p.in === 'query' && p.required)
    .map((p) => `${String(p.name)}=${String(p.example)}`)
  const address = `"$BERTH_URL${filled}${asked.length > 0 ? `?${asked.join('&')}` : ''}"`
  const parts = [`curl${method === 'get' ? '' : ` -X ${method.toUpperCase()}`} ${address}`]
  if (operation.security.length > 0) parts.push('-H "Authorization: Bearer $BERTH_TOKEN"')
  const [type, media] = Object.entries(operation.requestBody?.content ?? {})[0] ?? []
  if (type === 'application/json') parts.push("-H 'Content-Type: application/json'", bodyOf(media))
  else if (media) parts.push(...formOf(media))
  return ['```sh', parts.join(' \\\n  '), '```', '']
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
const bodyOf = (media: Media | undefined): string => `-d ${quoted(JSON.stringify(media?.example))}`
const formOf = ({ example }: Media): string[] =>
  Object.entries((example ?? {}) as Json).map(
    ([key, value]) => `--data-urlencode ${quoted(`${key}=${String(value)}`)}`,
  )

function bodyLines({ requestBody }: Operation): string[] {
  return Object.entries(requestBody?.content ?? {}).flatMap(([type, { schema }]) => [
    `Body${requestBody?.required ? '' : ' (optional)'}: \`${type}\`, ${typeText(schema, SCHEMAS)}.`,
    '',
    ...table(FIELD_HEAD, fieldRows(schema, '', SCHEMAS)),
  ])
}

function answerLines(operation: Operation): string[] {
  const answers = Object.entries(operation.responses).filter(([status]) => status.startsWith('2'))
  return answers.flatMap(([status, { content = {} }]) => {
    const types = Object.entries(content).map(
      ([type, { schema }]) => `\`${type}\`, ${typeText(schema, SCHEMAS)}`,
    )
    return [
      `Answer ${status}: ${types.join(' or ') || 'no body'}.`,
      '',
      ...Object.values(content).flatMap(({ schema }) =>
        table(FIELD_HEAD, fieldRows(schema, '', SCHEMAS)),
      ),
    ]
  })
}

function codesIn(operation: Operation): ErrorCode[] {
  return Object.values(operation.responses).flatMap(({ content }) =>
    codesOf(content?.[PROBLEM]?.schema),
  )
}

/** Codes of more than a quarter of the operations are told once, at the top. */
function commonCodes(document: Document): ReadonlySet<ErrorCode> {
  const counts = new Map<ErrorCode, number>()
  let all = 0
  for (const { operation } of operationsOf(document)) {
    all += 1
    for (const one of codesIn(operation)) counts.set(one, (counts.get(one) ?? 0) + 1)
  }
  return new Set([...counts].filter(([, n]) => n > all / 4).map(([one]) => one))
}

const refusals = (codes: readonly ErrorCode[]): string =>
  codes
    .toSorted((a, b) => ERRORS[a][0] - ERRORS[b][0] || (a < b ? -1 : 1))
    .map((one) => `${ERRORS[one][0]} \`${one}\``)
    .join(', ')

export function renderOperations(document: Document): string {
  const common = commonCodes(document)
  const all = [...operationsOf(document)].toSorted((a, b) => (a.path < b.path ? -1 : 1))
  const sections = document.tags.flatMap(({ name, description }) => [
    `## ${name}`,
    '',
    description,
    '',
    ...all
      .filter(({ operation }) => operation.tags.includes(name))
      .flatMap(({ path, method, operation }) => {
        const own = codesIn(operation).filter((one) => !common.has(one))
        const parameters = operation.parameters.map((p) => resolve(document, p))
        return [
          `### ${operation.operationId}`,
          '',
          `\`${method.toUpperCase()} ${path}\` · ${operation.summary}.${operation['x-shows-secret'] ? ' Shows a secret once.' : ''}`,
          '',
          operation.description ?? '',
          '',
          ...table(
            ['Parameter', 'In', 'Type', 'Meaning', 'Example'],
            parameters
              .filter((p) => p.in !== 'header')
              .map((p) => [
                code(p.name),
                `${String(p.in)}${p.required ? '' : ', optional'}`,
                typeText((p.schema ?? {}) as Json, SCHEMAS),
                String(p.description ?? ''),
                exampleText(p.example),
              ]),
          ),
          ...bodyLines(operation),
          ...answerLines(operation),
          ...(own.length > 0 ? [`Refusals: ${refusals(own)}.`, ''] : []),
          ...callOf(document, method, path, operation),
        ]
      }),
  ])
  const headers = Object.values(document.components.parameters ?? {})
  return [
    '# REST operations',
    '',
    `${GENERATED} [REST API](api.md) is the introduction; [REST schemas](${SCHEMAS}) has`,
    'every property of bodies and answers. Each installation shows the same at `/api/docs`, and as OpenAPI 3.1 at',
    '`/api/openapi.json`.',
    '',
    'Each operation says who may call it. Roles and scopes are explained in [People and tokens](api.md#people-and-tokens).',
    '',
    '## Headers of requests',
    '',
    'Operations that need a token take the organization header; POST and PATCH take an idempotency key; GET takes an ETag.',
    '',
    ...table(
      ['Header', 'Meaning', 'Example'],
      headers.map((p) => [code(p.name), String(p.description ?? ''), exampleText(p.example)]),
    ),
    '## Refusals of many operations',
    '',
    `${refusals([...common])}. Each operation lists its own below.`,
    '',
    ...sections,
  ]
    .join('\n')
    .replace(/\n+$/, '\n')
}

/** Which operations take or answer a schema. */
function usersOf(document: Document): Map<string, Set<string>> {
  const users = new Map<string, Set<string>>()
  for (const { operation } of operationsOf(document)) {
    const { requestBody, responses, operationId } = operation
    const successes = Object.entries(responses).filter(([status]) => status.startsWith('2'))
    const text = JSON.stringify([requestBody, successes])
    for (const [, name = ''] of text.matchAll(/#\/components\/schemas\/(\w+)/g)) {
      users.set(name, (users.get(name) ?? new Set()).add(operationId))
    }
  }
  return users
}

export function renderSchemas(document: Document): string {
  const users = usersOf(document)
  const sections = Object.entries(document.components.schemas ?? {}).flatMap(([name, schema]) => {
    const links = [...(users.get(name) ?? [])].map((id) => link(id, 'api-operations.md'))
    const example = Object.fromEntries(
      Object.entries((schema.properties ?? {}) as Record<string, Json>).map(([field, one]) => [
        field,
        (one.examples as unknown[] | undefined)?.[0],
      ]),
    )
    return [
      `## ${name}`,
      '',
      ...(links.length > 0 ? [`In ${links.join(', ')}.`, ''] : []),
      ...table(FIELD_HEAD, fieldRows(schema, '', '')),
      ...json(example),
    ]
  })
  return [
    '# REST schemas',
    '',
    `${GENERATED} Every property of the bodies and answers of [REST operations](api-operations.md).`,
    '',
    'Answers always have the fields that are not optional; later releases may add more. Examples show one project, `shop`,',
    'whose pull request 42 is deployed on the server `fra-1`.',
    '',
    ...sections,
  ]
    .join('\n')
    .replace(/\n+$/, '\n')
}
