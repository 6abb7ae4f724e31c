// Checks every request before a route sees it: length, number of headers, no NUL, an answer type we have, no undeclared
// parameter. raw-answers.ts answers what never becomes a request.
import { AppError, REST } from '@berth/shared'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { displayName } from '../../../domain/core/display-name.ts'

/** Returns the path alone, also for a request in absolute form (RFC 9112). */
export function pathOf(request: FastifyRequest): string {
  const end = request.url.search(/[?#]/)
  const path = end === -1 ? request.url : request.url.slice(0, end)
  return path.startsWith('/') ? path : path.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/]*/i, '') || '/'
}

/** Returns the query as sent, with its question mark; empty if there is none. */
export const queryOf = (request: FastifyRequest): string => {
  const at = request.url.indexOf('?')
  return at === -1 ? '' : request.url.slice(at)
}

export function refuseUnfit(request: FastifyRequest): void {
  if (request.url.length > REST.uriBytes) {
    throw new AppError('uri_too_long', 'The address is over 8 KiB.')
  }
  if (request.raw.rawHeaders.length > 2 * REST.headerCount) {
    throw new AppError('headers_too_large', `There are more than ${REST.headerCount} headers.`)
  }
  if (request.url.includes('%00')) {
    throw new AppError('invalid_parameter', 'The address holds a NUL character.')
  }
  refuseUnacceptable(request)
}

// ------------------------------------------------------------------------------------ parameters

/** A mistyped filter would otherwise be ignored. HTML pages may receive more parameters than they read. */
export function refuseUnknownParameters(request: FastifyRequest): void {
  const { schema, config } = request.routeOptions
  if (schema === undefined || schema.hide === true || config.anyQuery === true) return
  const given = Object.keys((request.query ?? {}) as object)
  if (given.length === 0) return
  const shape = schema.querystring instanceof z.ZodObject ? schema.querystring.shape : {}
  const unknown = given.filter((name) => !Object.hasOwn(shape, name))
  if (unknown.length === 0) return
  const known = Object.keys(shape)
  const hint = known.length === 0 ? 'This address takes none.' : `Known: ${known.join(', ')}.`
  const errors = unknown.slice(0, MOST_NAMED).map((name) => ({
    field: displayName(name),
    code: 'unknown_field',
    message: `There is no parameter "${displayName(name).slice(0, 60)}" here. ${hint}`,
  }))
  throw new AppError('invalid_parameter', errors[0]?.message ?? hint, { errors })
}

const MOST_NAMED = 20

// ------------------------------------------------------------------------------------ Accept

const typesOf = new WeakMap<object, string[]>()

/** Media types of a route's successful answers; empty if it has no body. */
function producedBy(schema: object & { response?: unknown }): string[] {
  const known = typesOf.get(schema)
  if (known) return known
  const responses = Object.entries((schema.response ?? {}) as Record<string, unknown>)
  const types = responses
    .filter(([status]) => status.startsWith('2') && status !== '204')
    .flatMap(([, response]) =>
      response instanceof z.ZodType
        ? ['application/json']
        : Object.keys((response as { content?: object }).content ?? {}),
    )
  const made = [...new Set(types)]
  typesOf.set(schema, made)
  return made
}

const RANGE = /^([\w!#$&^.+-]+|\*)\/([\w!#$&^.+-]+|\*)$/

function accepts(header: string, type: string): boolean {
  const [main] = type.split('/')
  let best = { weight: -1, q: 0 }
  for (const part of header.split(',')) {
    const [range = '', ...parameters] = part.split(';').map((p) => p.trim().toLowerCase())
    if (!RANGE.test(range)) continue
    const weight = range === '*/*' ? 0 : range === `${main}/*` ? 1 : range === type ? 2 : -1
    if (weight <= best.weight) continue
    const q = parameters.find((p) => p.startsWith('q='))?.slice(2)
    best = { weight, q: q === undefined ? 1 : Number(q) }
  }
  return best.weight >= 0 && best.q > 0
}

function refuseUnacceptable(request: FastifyRequest): void {
  const header = request.headers.accept
  const schema = header ? request.routeOptions.schema : undefined
  if (!header || !schema) return
  const types = producedBy(schema)
  if (types.length === 0 || types.some((type) => accepts(header, type))) return
  throw new AppError('not_acceptable', `This answers with ${types.join(' or ')}.`)
}
