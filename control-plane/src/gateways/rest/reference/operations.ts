// Builds one operation of the OpenAPI document from what the route declares: the refusals of every operation, those of
// its shape, its own, and the common headers. The contract test checks routes against exactly this.
import { ERRORS, type ErrorCode, REST } from '@berth/shared'
import type { FastifyContextConfig } from 'fastify'
import { PROBLEM } from '../http/problem.ts'
import { OPERATIONS } from './glossary/glossary.ts'
import { type OperationPermission, permissionOf } from './permissions.ts'

export type Json = Record<string, unknown>

export interface Media {
  schema: Json
  example?: unknown
  /** Of problems, by their code. */
  examples?: Record<string, Json>
}

interface Response {
  description: string
  headers?: Record<string, Json>
  content?: Record<string, Media>
}

export interface Operation {
  operationId: string
  summary: string
  /** What it does, and in the last paragraph who may call it. */
  description?: string
  tags: string[]
  security: Json[]
  parameters: Json[]
  requestBody?: { required: boolean; content: Record<string, Media> }
  responses: Record<string, Response>
  'x-permission': OperationPermission
  [extension: `x-${string}`]: unknown
}

export interface Document {
  openapi: string
  info: Json
  servers: { url: string }[]
  tags: { name: string; description: string }[]
  paths: Record<string, Record<string, Operation>>
  components: Record<string, Record<string, Json>>
}

/** What the transform of a route leaves for the finished document. */
export interface RouteFacts {
  config: FastifyContextConfig
  isBodyOptional: boolean
  hasParameters: boolean
  isPaged: boolean
}

const EVERYWHERE: readonly ErrorCode[] = [
  'invalid_header',
  'invalid_parameter',
  'not_found',
  'not_acceptable',
  'request_timeout',
  'uri_too_long',
  'headers_too_large',
  'rate_limited',
  'internal_error',
  'unavailable',
  'database_unavailable',
  'outcome_unknown',
  'storage_full',
]
const WITH_TOKEN: readonly ErrorCode[] = [
  'invalid_organization',
  'token_missing',
  'token_invalid',
  'token_expired',
  'token_revoked',
  'organization_forbidden',
  'account_disabled',
]
const WITH_BODY: readonly ErrorCode[] = [
  'malformed_json',
  'body_too_large',
  'unsupported_media_type',
  'validation_failed',
]
const REPEATABLE: readonly ErrorCode[] = [
  'idempotency_in_flight',
  'idempotency_not_replayable',
  'idempotency_key_reused',
]

/** Lists every code that an operation may answer with. */
function refusalsOf(method: string, { config, isPaged }: RouteFacts): ErrorCode[] {
  const { needs = 'token', errors = [] } = config
  const codes = new Set<ErrorCode>([...EVERYWHERE, ...errors])
  const add = (list: readonly ErrorCode[]): void => list.forEach((code) => void codes.add(code))
  if (needs !== 'nothing') add(WITH_TOKEN)
  if (needs === 'platform_admin') add(['platform_admin_only', 'insufficient_scope'])
  else if (needs !== 'nothing' && needs !== 'token')
    add(['permission_denied', 'insufficient_scope'])
  if (method !== 'get') add(WITH_BODY)
  if (isPaged) add(['invalid_cursor'])
  if (needs !== 'nothing' && (method === 'post' || method === 'patch')) add(REPEATABLE)
  return [...codes].toSorted()
}

/** One response per status, with its possible codes. */
function problemResponses(codes: readonly ErrorCode[]): Record<string, Response> {
  const byStatus = Object.groupBy(codes, (code) => String(ERRORS[code][0]))
  return Object.fromEntries(
    Object.entries(byStatus).map(([status, some = []]) => [
      status,
      {
        description: some.map((code) => `\`${code}\`: ${ERRORS[code][1]}`).join('. '),
        content: {
          [PROBLEM]: {
            schema: {
              allOf: [{ $ref: '#/components/schemas/Problem' }],
              properties: { code: { type: 'string', enum: some } },
            },
          },
        },
      },
    ]),
  )
}

export const PARAMETERS: Record<string, Json> = {
  Organization: {
    name: 'X-Service-Organization',
    in: 'header',
    required: false,
    description: 'Acts in this organization alone: lists are filtered, new things go there.',
    schema: { type: 'string', pattern: '^[1-9][0-9]*$' },
    example: '7',
  },
  IdempotencyKey: {
    name: 'Idempotency-Key',
    in: 'header',
    required: false,
    description: 'The same key and body within 24 hours give the same reply and no second effect.',
    schema: { type: 'string', minLength: 1, maxLength: REST.idempotencyKeyChars },
    example: '3f1d7e0a-deploy-pr-42',
  },
  IfNoneMatch: {
    name: 'If-None-Match',
    in: 'header',
    required: false,
    description: 'An ETag seen before: an unchanged answer is 304 and costs no quota.',
    schema: { type: 'string' },
    example: '"Zk3T9wq1xR"',
  },
}

const text = (description: string): Json => ({ description, schema: { type: 'string' } })

export const HEADERS: Record<string, Json> = {
  'X-Request-Id': text('Names this request in the logs of the control plane.'),
  'Berth-Version': text('The release that answered.'),
  'Cache-Control': text('private, no-cache; no-store where a secret is shown.'),
  Vary: text('Authorization, X-Service-Organization'),
  'RateLimit-Policy': text('Which limits count here: "name";q=requests;w=seconds.'),
  RateLimit: text('What is left of each: "name";r=requests;t=seconds until it is full again.'),
  'Retry-After': text('Seconds to wait.'),
  ETag: text('Of this answer; send it back in If-None-Match.'),
  Link: text('RFC 8288: rel="first", and rel="next" unless this is the last page.'),
  Location: text('Where the made thing is.'),
  'Idempotent-Replayed': text('"true": this is the reply of the first request with this key.'),
  'WWW-Authenticate': text('RFC 6750: what is wrong with the token, or which scope is missing.'),
  Allow: text('Methods this address has.'),
}

const ref = (kind: string, name: string): Json => ({ $ref: `#/components/${kind}/${name}` })

/** The headers of one response. */
function headersOf(method: string, status: string, facts: RouteFacts): Record<string, Json> {
  const { needs = 'token', headers = {} } = facts.config
  const names = ['X-Request-Id', 'Berth-Version', 'Cache-Control']
  if (needs !== 'nothing') names.push('Vary', 'RateLimit-Policy', 'RateLimit')
  if (status === '429' || status === '503') names.push('Retry-After')
  if (status === '401' || status === '403') names.push('WWW-Authenticate')
  if (method === 'get' && (status === '200' || status === '304')) names.push('ETag')
  if (facts.isPaged && status === '200') names.push('Link')
  if (status === '201') names.push('Location')
  if (needs !== 'nothing' && (method === 'post' || method === 'patch'))
    names.push('Idempotent-Replayed')
  const own = status.startsWith('2') ? headers : {}
  return {
    ...Object.fromEntries(names.map((name) => [name, ref('headers', name)])),
    ...Object.fromEntries(Object.entries(own).map(([name, says]) => [name, text(says)])),
  }
}

const WITHOUT_BODY = new Set(['204', '304'])
const SUCCESS: Record<string, string> = {
  200: 'As asked.',
  201: 'Made.',
  202: 'Accepted; it continues in the background.',
  204: 'Done; nothing to say.',
  206: 'The asked part.',
  304: 'Unchanged since the ETag that was sent.',
}

/** Returns the operation as documented; `raw` is what the schemas alone produce. */
export function completeOperation(method: string, raw: Operation, facts: RouteFacts): Operation {
  const { needs = 'token', showsSecret = false, policy } = facts.config
  const responses: Record<string, Response> = {}
  for (const [status, response] of Object.entries(raw.responses)) {
    const { content, ...rest } = response
    const description =
      rest.description === 'Default Response'
        ? (SUCCESS[status] ?? 'See `code`.')
        : rest.description
    responses[status] = { ...rest, description }
    if (content && !WITHOUT_BODY.has(status)) responses[status].content = content
  }
  for (const [status, problem] of Object.entries(problemResponses(refusalsOf(method, facts)))) {
    const declared = responses[status]
    responses[status] = declared
      ? { ...declared, content: { ...declared.content, ...problem.content } }
      : problem
  }
  if (method === 'get' && responses['200']) responses['304'] ??= { description: SUCCESS[304] ?? '' }
  for (const [status, response] of Object.entries(responses)) {
    response.headers = { ...response.headers, ...headersOf(method, status, facts) }
  }
  const parameters = [...(raw.parameters ?? [])]
  if (needs !== 'nothing') parameters.push(ref('parameters', 'Organization'))
  if (needs !== 'nothing' && (method === 'post' || method === 'patch'))
    parameters.push(ref('parameters', 'IdempotencyKey'))
  if (method === 'get') parameters.push(ref('parameters', 'IfNoneMatch'))
  return {
    ...raw,
    security: needs === 'nothing' ? [] : [{ bearer: [] }],
    parameters,
    ...(raw.requestBody
      ? { requestBody: { ...raw.requestBody, required: !facts.isBodyOptional } }
      : {}),
    responses,
    'x-needs': needs,
    'x-permission': permissionOf(facts.config, OPERATIONS.get(raw.operationId)),
    ...(showsSecret ? { 'x-shows-secret': true } : {}),
    'x-rate-limit-policy': needs === 'nothing' ? 'address' : (policy ?? 'default'),
  }
}

const words = (segment: string): string =>
  segment
    .split(/[._-]/)
    .filter(Boolean)
    .map((w) => (w[0]?.toUpperCase() ?? '') + w.slice(1))
    .join('')
const singular = (word: string): string =>
  word.replace(/ies$/, 'y').replace(/(ss)?s$/, (end) => (end === 'sss' || end === 'ss' ? end : ''))

/** `GET /api/projects/{id}/environments` → `listProjectEnvironments`; stable as long as the path is. */
export function operationIdOf(method: string, path: string, isList: boolean): string {
  const segments = path
    .replace(/^\/api\//, '')
    .split('/')
    .filter(Boolean)
  const names = segments.flatMap((segment, n) => {
    if (segment.startsWith('{')) return []
    const named = segments[n + 1]?.startsWith('{') === true
    const keeps = isList && n === segments.length - 1
    const one = named || (method === 'post' && n === segments.length - 1 && !keeps)
    return [words(one ? singular(segment) : segment)]
  })
  const last = segments.at(-1) ?? ''
  const isCollection = last.endsWith('s') && !last.endsWith('ss')
  const verb =
    method === 'get'
      ? isList
        ? 'list'
        : 'get'
      : method === 'post'
        ? isCollection
          ? 'create'
          : 'post'
        : method === 'patch'
          ? 'update'
          : method === 'put'
            ? 'set'
            : 'delete'
  return verb + names.join('')
}
