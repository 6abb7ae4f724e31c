// Generates the OpenAPI 3.1 document from the zod schemas and the config of the routes; the glossary adds sentences and
// examples. Every object schema exported by shared/src/api that a route uses is a component under its own name. Response
// schemas are open in the document (clients ignore unknown fields) and closed in the contract test.

import { VERSION } from '@berth/shared'
import * as schemas from '@berth/shared/api'
import swagger from '@fastify/swagger'
import type { FastifySchema, RouteOptions } from 'fastify'
import {
  createJsonSchemaTransform,
  createJsonSchemaTransformObject,
} from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { Context } from '../../../context.ts'
import type { Api } from '../http/api.ts'
import { describeDocument } from './describe.ts'
import { OPERATIONS } from './glossary/glossary.ts'
import {
  completeOperation,
  type Document,
  HEADERS,
  type Json,
  type Operation,
  operationIdOf,
  PARAMETERS,
  type RouteFacts,
} from './operations.ts'

export type { Document } from './operations.ts'

declare module 'fastify' {
  interface FastifySchema {
    summary?: string
    operationId?: string
    description?: string
    hide?: boolean
  }
}

const TAGS: Record<string, string> = {
  me: 'The caller.',
  projects: 'A repository, a base domain and servers.',
  environments: 'A branch or pull request of a project, deployed at an address.',
  tasks: 'Deployments, removals and actions, with their logs.',
  servers: 'Machines that run an agent.',
  organizations: 'Organizations, members, invitations and their audit log.',
  forges: 'Connections of organizations to forges, and the repositories that they open.',
  channels: 'Where notifications go, by which rules, and what was sent.',
  events: 'A stream of what happens, so that integrations need not poll.',
  tokens: 'Access tokens of the caller.',
  oauth: 'Device login of clients (RFC 8628), refresh and revocation. No bearer token.',
  admin: 'For platform administrators.',
  agents: 'For agents, not for people: joining and renewing certificates. No bearer token.',
  documents: 'Documents about this API. No bearer token.',
  platform: 'The installation itself. No bearer token.',
}
const TAG_OF: Record<string, string> = {
  agent: 'agents',
  agent_updates: 'servers',
  artifacts: 'tasks',
  backups: 'environments',
  deliveries: 'projects',
  ssh: 'servers',
  health: 'platform',
  setup: 'platform',
  invitations: 'organizations',
  notifications: 'channels',
  'openapi.json': 'documents',
  docs: 'documents',
}

function tagOf(url: string): string {
  if (!url.startsWith('/api/')) return 'documents'
  const segment = url.split('/')[2] ?? ''
  return TAG_OF[segment] ?? segment
}

/** Object schemas by exported name; those that hold parameters must stay inline. */
function nameSchemas(routes: readonly RouteOptions[]): z.core.$ZodRegistry<{ id?: string }> {
  const inline = new Set<unknown>()
  for (const { schema } of routes) {
    inline.add(schema?.querystring).add(schema?.params).add(schema?.headers)
  }
  const registry = z.registry<{ id?: string }>()
  for (const [name, schema] of Object.entries(schemas)) {
    if (schema instanceof z.ZodObject && !inline.has(schema)) registry.add(schema, { id: name })
  }
  return registry
}

function factsOf(route: RouteOptions): RouteFacts {
  const schema: FastifySchema = route.schema ?? {}
  const query = schema.querystring
  const body = schema.body
  return {
    config: route.config ?? {},
    isBodyOptional: body instanceof z.ZodType && body.safeParse(undefined).success,
    hasParameters: schema.params !== undefined || query !== undefined,
    isPaged: query instanceof z.ZodObject && 'cursor' in query.shape,
  }
}

const isList = (route: RouteOptions): boolean => {
  const responses = (route.schema?.response ?? {}) as Record<string, unknown>
  return responses[200] instanceof z.ZodArray
}

/** `listProjectDeliveries` → `List project deliveries`, the fallback summary. */
const wordsOf = (id: string): string => {
  const text = id.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
  return (text[0]?.toUpperCase() ?? '') + text.slice(1)
}

const collected = new WeakMap<object, RouteOptions[]>()

/** Lists every route with its config; hidden routes are not part of the contract. */
export const routesOf = (app: Api): { method: string; path: string; route: RouteOptions }[] =>
  (collected.get(app) ?? []).flatMap((route) =>
    [route.method].flat().map((method) => ({ method, path: braced(route.url), route })),
  )

const braced = (url: string): string => url.replaceAll(/:([A-Za-z_]+)/g, '{$1}')

/** Collects the routes; the document is built on first request, after all of them. */
export function registerOpenApi(app: Api, ctx: Context): void {
  const routes: RouteOptions[] = []
  const facts = new Map<string, RouteFacts>()
  app.addHook('onRoute', (route) => {
    if (route.method !== 'HEAD') routes.push(route)
  })
  collected.set(app, routes)
  let registry: ReturnType<typeof nameSchemas> | undefined
  const named = (): ReturnType<typeof nameSchemas> => {
    registry ??= nameSchemas(routes)
    return registry
  }
  app.register(swagger, {
    stripBasePath: false,
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Berth',
        version: VERSION,
        description: 'Deploys applications from source repositories onto registered servers.',
      },
    },
    transform: (input) => {
      const route = input.route
      const made = createJsonSchemaTransform({ schemaRegistry: named() })(input)
      const method = String(route.method).toLowerCase()
      const path = braced(route.url)
      facts.set(`${method} ${path}`, factsOf(route))
      const id = route.schema?.operationId ?? operationIdOf(method, path, isList(route))
      const schema = {
        summary: OPERATIONS.get(id)?.title ?? wordsOf(id),
        ...made.schema,
        operationId: id,
        tags: [tagOf(route.url)],
      }
      return { ...made, schema: { ...schema, hide: route.schema?.hide === true } }
    },
    transformObject: (input) => {
      const whole = createJsonSchemaTransformObject({ schemaRegistry: named() })(input)
      const finished = finish(whole as unknown as Document, facts, ctx)
      return describeDocument(dropInputSuffix(finished)) as never
    },
  })
}

/** Bodies use their schema's own name unless a response has another shape under it. */
function dropInputSuffix(document: Document): Document {
  const names = Object.keys(document.components.schemas ?? {})
  const free = names.filter((n) => n.endsWith('Input') && !names.includes(n.slice(0, -5)))
  const rename = new Map(free.map((n) => [n, n.slice(0, -5)]))
  const schemas = Object.entries(document.components.schemas ?? {}).map(
    ([name, schema]) => [rename.get(name) ?? name, schema] as const,
  )
  const components = { ...document.components, schemas: Object.fromEntries(schemas) }
  return JSON.parse(JSON.stringify({ ...document, components }), (key, value) => {
    if (key !== '$ref' || typeof value !== 'string') return tidyTime(value)
    const name = value.split('/').at(-1) ?? ''
    return value.replace(name, rename.get(name) ?? name)
  }) as Document
}

/** The format is enough; the library's expression for dates has 400 characters. */
function tidyTime(value: unknown): unknown {
  const schema = value as { format?: unknown; pattern?: unknown } | null
  if (typeof schema === 'object' && schema?.format === 'date-time') delete schema.pattern
  return value
}

function finish(made: Document, facts: Map<string, RouteFacts>, ctx: Context): Document {
  const paths: Document['paths'] = {}
  const used = new Set<string>()
  for (const [path, item] of Object.entries(made.paths)) {
    for (const [method, raw] of Object.entries(item)) {
      const known = facts.get(`${method} ${path}`)
      if (!known) throw new Error(`${method} ${path} has no route`)
      const operation = openResponses(completeOperation(method, raw, known))
      for (const tag of operation.tags) used.add(tag)
      paths[path] = { ...paths[path], [method]: operation }
    }
  }
  const components = {
    securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
    parameters: PARAMETERS,
    headers: HEADERS,
    schemas: {},
  }
  const names = Object.keys(TAGS).concat([...used].filter((tag) => !(tag in TAGS)).toSorted())
  return {
    openapi: made.openapi,
    info: made.info,
    servers: [{ url: ctx.baseUrl }],
    tags: names.filter((n) => used.has(n)).map((n) => ({ name: n, description: TAGS[n] ?? '' })),
    paths,
    components: { ...components, schemas: reachable(paths, made.components.schemas ?? {}) },
  }
}

/** Responses guarantee the fields they name; a later release may add more. */
function openResponses(operation: Operation): Operation {
  return { ...operation, responses: open(operation.responses) as Operation['responses'] }
}

function open(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(open)
  if (value === null || typeof value !== 'object') return value
  const entries = Object.entries(value).filter(
    ([key, item]) => key !== 'additionalProperties' || item !== false,
  )
  return Object.fromEntries(entries.map(([key, item]) => [key, open(item)]))
}

/** Returns the components that operations reach; those that only responses use become open. */
function reachable(paths: Document['paths'], all: Record<string, Json>): Record<string, Json> {
  const found = new Map<string, Json>()
  const inputs = new Set<string>()
  const visit = (value: unknown, asInput: boolean): void => {
    if (value === null || typeof value !== 'object') return
    const target = (value as { $ref?: unknown }).$ref
    const name = typeof target === 'string' && /^#\/components\/schemas\/(.+)$/.exec(target)?.[1]
    if (name && !found.has(name)) {
      const schema = all[name]
      if (!schema) throw new Error(`no schema ${name}`)
      found.set(name, schema)
      if (asInput) inputs.add(name)
      visit(schema, asInput)
    }
    for (const item of Object.values(value)) visit(item, asInput)
  }
  for (const item of Object.values(paths)) {
    for (const { requestBody, parameters, responses } of Object.values(item)) {
      visit([requestBody, parameters], true)
      visit(responses, false)
    }
  }
  return Object.fromEntries(
    [...found]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, schema]) => [name, inputs.has(name) ? schema : (open(schema) as Json)]),
  )
}

/** Returns the document of a started control plane. */
export const documentOf = (app: Api): Document =>
  (app as unknown as { swagger(): Document }).swagger()
