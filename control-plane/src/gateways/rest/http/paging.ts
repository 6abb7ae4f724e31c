// Pages by key: an opaque cursor and RFC 8288 links. A page costs the same in a list of any length. Cursors are signed
// for their list; a forged, changed or foreign one is refused before the route sees it.
import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto'
import { AppError, REST } from '@berth/shared'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Context } from '../../../context.ts'
import type { Api } from './api.ts'
import { pathOf } from './broken-requests.ts'

const SIGNATURE_BYTES = 16

export const pageSize = (query: { per_page?: number | undefined }): number =>
  query.per_page ?? REST.perPage

export const makeCursor = (key: object): string =>
  Buffer.from(JSON.stringify(key)).toString('base64url')

const invalid = (): AppError =>
  new AppError('invalid_cursor', 'Follow the Link header; do not build cursors yourself.')

/** Returns what `makeCursor` was given; the hook below has checked the signature. */
export function readCursor<T>(cursor: string | undefined, shape: z.ZodType<T>): T | undefined {
  if (cursor === undefined) return undefined
  try {
    return shape.parse(JSON.parse(Buffer.from(cursor, 'base64url').toString()))
  } catch {
    throw invalid()
  }
}

const keys = new WeakMap<object, KeyObject>()

function sign(ctx: Context, path: string, cursor: string): Buffer {
  const key =
    keys.get(ctx.secretStore) ?? (ctx.secretStore.deriveKeys('sign cursor')[0] as KeyObject)
  keys.set(ctx.secretStore, key)
  return createHmac('sha256', key)
    .update(`${path}\n${cursor}`)
    .digest()
    .subarray(0, SIGNATURE_BYTES)
}

/** Removes the signature from every incoming cursor, or refuses it. */
export function acceptSignedCursors(api: Api, ctx: Context): void {
  api.addHook('preValidation', (request, _reply, done) => {
    takeSignatureOff(ctx, request)
    done()
  })
}

function takeSignatureOff(ctx: Context, request: FastifyRequest): void {
  const query = request.query as { cursor?: unknown }
  if (query.cursor === undefined) return
  const shape = request.routeOptions.schema?.querystring
  if (!(shape instanceof z.ZodObject) || !('cursor' in shape.shape)) return
  const [cursor = '', signature = '', ...rest] = String(query.cursor).split('.')
  const given = Buffer.from(signature, 'base64url')
  const expected = sign(ctx, pathOf(request), cursor)
  const fits = given.length === SIGNATURE_BYTES && timingSafeEqual(given, expected)
  if (!fits || rest.length > 0) throw invalid()
  query.cursor = cursor
}

const MANY_LINKS = 1_000
const LONG_LINK = 1_000 // characters; longer links are not cached
const links = new WeakMap<object, Map<string, string>>()

/** Cached by address and end, because lists are polled and a signature costs more than most pages. */
export function linkPages(
  ctx: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  next: string | undefined,
): void {
  const known = links.get(ctx) ?? new Map<string, string>()
  links.set(ctx, known)
  const key = `${request.url} ${next ?? ''}`
  let link = known.get(key)
  if (link === undefined) {
    link = writeLinks(ctx, request, next)
    if (known.size >= MANY_LINKS) known.clear()
    if (key.length <= LONG_LINK) known.set(key, link)
  }
  reply.header('link', link)
}

function writeLinks(ctx: Context, request: FastifyRequest, next: string | undefined): string {
  const path = pathOf(request)
  const url = new URL(path, ctx.baseUrl)
  for (const [name, value] of Object.entries(request.query as Record<string, unknown>)) {
    if (name === 'cursor' || value === undefined) continue
    for (const one of [value].flat()) url.searchParams.append(name, String(one))
  }
  const first = `<${url.href}>; rel="first"`
  if (next === undefined) return first
  url.searchParams.set('cursor', `${next}.${sign(ctx, path, next).toString('base64url')}`)
  return `<${url.href}>; rel="next", ${first}`
}

export const ById = z.strictObject({ i: z.int().positive() })
export const ByName = z.strictObject({ n: z.string(), i: z.int().positive() })
