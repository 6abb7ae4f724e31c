// What every request must be before a route looks at it: not too long, not too many headers, no NUL, an answer type we
// have. And the answer to bytes so broken that no route ever sees them.
import type { Socket } from 'node:net'
import { AppError, REST, VERSION } from '@berth/shared'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { PROBLEM } from './problem.ts'

/** The path alone, also of a request that named the whole address (RFC 9112, absolute form). */
export function pathOf(request: FastifyRequest): string {
  const end = request.url.search(/[?#]/)
  const path = end === -1 ? request.url : request.url.slice(0, end)
  return path.startsWith('/') ? path : path.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/]*/i, '') || '/'
}

/** The query as it was sent, with its question mark; empty when there is none. */
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

// ------------------------------------------------------------------------------------ Accept

const typesOf = new WeakMap<object, string[]>()

/** Media types a route answers with when all goes well; none when it has nothing to say. */
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

// ------------------------------------------------------------------------------------ no HTTP at all

const BROKEN = {
  headers: [
    431,
    'Request Header Fields Too Large',
    'headers_too_large',
    'The headers are too large',
    'The headers are over 16 KiB together.',
  ],
  address: [
    414,
    'URI Too Long',
    'uri_too_long',
    'The address is too long',
    'The address is over 8 KiB.',
  ],
  other: [
    400,
    'Bad Request',
    'invalid_header',
    'A header is not valid',
    'The request could not be read.',
  ],
} as const

type Broken = Error & { code?: string; rawPacket?: unknown }

function kindOf(error: Broken): keyof typeof BROKEN {
  if (error.code !== 'HPE_HEADER_OVERFLOW') return 'other'
  const packet = Buffer.isBuffer(error.rawPacket) ? error.rawPacket : Buffer.alloc(0)
  const start = packet.subarray(0, REST.uriBytes).toString('latin1')
  return /^[A-Z]+ [^\r\n]*$/.test(start) && start.length >= REST.uriBytes ? 'address' : 'headers'
}

/** Requests so broken that no route sees them: too many headers, no HTTP at all. */
export function answerBroken(error: Broken, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const [status, words, code, title, detail] = BROKEN[kindOf(error)]
  const body = JSON.stringify({ type: 'about:blank', title, status, code, detail })
  socket.end(
    `HTTP/1.1 ${status} ${words}\r\nContent-Type: ${PROBLEM}\r\nBerth-Version: ${VERSION}\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  )
}
