// Documents about the API that need no token: the OpenAPI document, a page to read it, one page per error code, the
// schema of .service.yml. All are generated from the code.
import { createHash } from 'node:crypto'
import { AppError, ERRORS, type ErrorCode } from '@berth/shared'
import { jsonSchema } from '@berth/shared/service-file'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import type { Context } from '../../../context.ts'
import type { Api } from '../http/api.ts'
import { sendPage } from '../http/html.ts'
import { serializeErrorIndex, serializeErrorPage } from './error-pages.ts'
import { documentOf } from './openapi.ts'
import { serializeReference } from './reference.ts'

const HTML = { content: { 'text/html': { schema: z.string() } } }
const PUBLIC = 'public, max-age=300'
const CodeParams = z.object({ code: z.string().max(64) })

export function documentRoutes(api: Api, ctx: Context): void {
  const config = { needs: 'nothing' as const, anyQuery: true }
  let document: string | undefined
  let reference: string | undefined
  const send = (reply: FastifyReply, text: string): FastifyReply =>
    reply.type('application/json').header('cache-control', PUBLIC).send(text)
  const sendUnchanged = (reply: FastifyReply): FastifyReply =>
    reply.header('cache-control', PUBLIC).code(304).send()
  api.get(
    '/api/openapi.json',
    {
      config,
      schema: { summary: 'This document: OpenAPI 3.1', response: { 200: z.looseObject({}) } },
    },
    async (_request, reply) => {
      document ??= JSON.stringify(documentOf(api))
      return send(reply, document)
    },
  )
  api.get(
    '/api/docs',
    { config, schema: { summary: 'This reference as a page', response: { 200: HTML } } },
    async (_request, reply) => {
      reference ??= serializeReference(documentOf(api))
      return sendPage(reply.header('cache-control', PUBLIC), reference)
    },
  )
  api.get('/docs/errors', { config, schema: { hide: true } }, async (_request, reply) =>
    sendPage(reply.header('cache-control', PUBLIC), serializeErrorIndex()),
  )
  api.get(
    '/docs/errors/:code',
    {
      config,
      schema: { summary: 'What an error code means', params: CodeParams, response: { 200: HTML } },
    },
    async (request, reply) => {
      const { code } = request.params
      if (!Object.hasOwn(ERRORS, code)) throw new AppError('not_found', 'There is no such code.')
      const text = serializeErrorPage(code as ErrorCode, ctx.baseUrl)
      return sendPage(reply.header('cache-control', PUBLIC), text)
    },
  )
  const service = JSON.stringify(jsonSchema())
  const serviceTag = `"${createHash('sha256').update(service).digest('base64url').slice(0, 16)}"`
  api.get(
    '/schemas/service.v1.json',
    {
      config,
      schema: { summary: 'JSON schema of .service.yml', response: { 200: z.looseObject({}) } },
    },
    async (request, reply) => {
      // editors in browsers fetch it from any origin; it is the same for every client and holds no private data
      reply.header('access-control-allow-origin', '*').header('etag', serviceTag)
      const known = String(request.headers['if-none-match'] ?? '').split(/,\s*(?:W\/)?/)
      return known.includes(serviceTag) ? sendUnchanged(reply) : send(reply, service)
    },
  )
}
