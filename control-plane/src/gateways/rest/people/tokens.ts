// The caller's own access tokens.
import { IdParams, Paging, Token, TokenCreate, TokenCreated } from '@berth/shared/api'
import { z } from 'zod'
import { createToken, listOwnTokens, revokeToken } from '../../../app/people/tokens.ts'
import type { Context } from '../../../context.ts'
import { serializeToken } from '../../serializers/people.ts'
import { type Api, callerOf } from '../http/api.ts'
import { pageById } from '../http/id-pages.ts'

export function tokenRoutes(api: Api, ctx: Context): void {
  api.get(
    '/api/tokens',
    {
      config: { needs: 'token', errors: ['insufficient_scope'] },
      schema: {
        summary: 'Your tokens, without the tokens themselves',
        querystring: Paging,
        response: { 200: z.array(Token) },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request)
      const rows = await pageById(
        ctx,
        request,
        reply,
        ({ limit, from }) => listOwnTokens(ctx, caller, { limit, before: from }),
        (token) => token.id,
      )
      return rows.map(serializeToken)
    },
  )
  api.post(
    '/api/tokens',
    {
      config: {
        needs: 'token',
        errors: ['insufficient_scope', 'second_factor_required'],
        showsSecret: true,
      },
      schema: {
        summary: 'Make a personal token; shown once',
        body: TokenCreate,
        response: { 201: TokenCreated },
      },
    },
    async (request, reply) => {
      const { token, secret } = await createToken(ctx, callerOf(request), request.body)
      return reply
        .code(201)
        .header('cache-control', 'no-store')
        .send({ ...serializeToken(token), token: secret })
    },
  )
  api.delete(
    '/api/tokens/:id',
    {
      config: { needs: 'token', errors: ['insufficient_scope'] },
      schema: {
        summary: 'Revoke one of your tokens',
        params: IdParams,
        response: { 204: z.null() },
      },
    },
    async (request, reply) => {
      await revokeToken(ctx, callerOf(request), request.params.id)
      return reply.code(204).send(null)
    },
  )
}
