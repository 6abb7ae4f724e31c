// OAuth for clients: device login, refresh, revocation (RFC 8628, 6749, 7009) and metadata (RFC 8414). Form bodies,
// OAuth's own error bodies for every failure, no caching. Unknown parameters are ignored, as RFC 6749 requires.
import { PEOPLE } from '@berth/shared'
import {
  AuthorizationServer,
  DEVICE_GRANT,
  DeviceAuthorization,
  OauthError,
  type OauthErrorCode,
  SCOPES,
  TokenAnswer,
} from '@berth/shared/api'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import {
  OauthRefusal,
  pollDevice,
  requireClient,
  startDevice,
} from '../../../app/people/device-login.ts'
import { refreshTokens, revokeByToken } from '../../../app/people/login-tokens.ts'
import type { Context } from '../../../context.ts'
import { parseScopes } from '../../../domain/people/people.ts'
import type { Api } from '../http/api.ts'
import { toAppError } from '../http/problem.ts'

const Parameter = z.string().max(500)
const errors = { 400: OauthError, 429: OauthError, 500: OauthError, 503: OauthError }
const consumes = ['application/x-www-form-urlencoded']

/** RFC 6749: a parameter must not be repeated. */
function readForm(text: string): Record<string, string> {
  const form: Record<string, string> = Object.create(null)
  for (const [key, value] of new URLSearchParams(text)) {
    if (key in form) throw new OauthRefusal('invalid_request', 'A parameter came twice.')
    form[key] = value
  }
  return { ...form }
}

function refuse(
  ctx: Context,
  error: unknown,
  reply: FastifyReply,
  requestId: string,
): FastifyReply {
  const send = (status: number, code: OauthErrorCode, text: string) =>
    reply
      .code(status)
      .type('application/json')
      .header('cache-control', 'no-store')
      .send({ error: code, error_description: text })
  if (error instanceof OauthRefusal) return send(400, error.code, error.message)
  const refusal = toAppError(error)
  if (!refusal) {
    ctx.log.error({ err: error, requestId }, 'request failed')
    return send(500, 'server_error', `Internal error, request ${requestId}`)
  }
  if (refusal.status === 429 || refusal.status === 503) {
    reply.header('retry-after', String(refusal.details.retry_after ?? 5))
    return send(refusal.status, 'temporarily_unavailable', refusal.message)
  }
  return send(400, 'invalid_request', refusal.message)
}

export function oauthRoutes(api: Api, ctx: Context): void {
  api.removeAllContentTypeParsers()
  api.addContentTypeParser(consumes, { parseAs: 'string' }, (_request, body, done) => {
    try {
      done(null, readForm(body as string))
    } catch (error) {
      done(error as Error)
    }
  })
  api.setErrorHandler((error, request, reply) => refuse(ctx, error, reply, request.id))
  deviceRoute(api, ctx)
  tokenRoute(api, ctx)
  revokeRoute(api, ctx)
}

function deviceRoute(api: Api, ctx: Context): void {
  const { deviceStarts } = ctx.quotas.narrow
  api.post(
    '/api/oauth/device_authorization',
    {
      bodyLimit: PEOPLE.authBodyBytes,
      config: { needs: 'nothing', showsSecret: true, anyQuery: true },
      schema: {
        summary: 'Start a device login',
        consumes,
        body: z.object({
          client_id: Parameter.optional(),
          scope: Parameter.optional(),
          device_name: Parameter.optional(),
        }),
        response: { 200: DeviceAuthorization, ...errors },
      },
    },
    async (request, reply) => {
      await deviceStarts.take(request.ip)
      const { client_id, scope, device_name: deviceName } = request.body
      requireClient(client_id)
      const started = await startDevice(ctx, { scope, deviceName }, request.ip)
      reply.header('cache-control', 'no-store')
      return {
        device_code: started.deviceCode,
        user_code: started.userCode,
        verification_uri: started.verificationUri,
        verification_uri_complete: started.verificationUriComplete,
        expires_in: started.expiresInMs / 1_000,
        interval: started.intervalMs / 1_000,
      }
    },
  )
}

const TokenForm = z.object({
  grant_type: Parameter.optional(),
  client_id: Parameter.optional(),
  device_code: Parameter.optional(),
  refresh_token: Parameter.optional(),
  /** With a refresh token: the scopes that the login keeps. */
  scope: Parameter.optional(),
})

async function grant(
  ctx: Context,
  form: z.infer<typeof TokenForm>,
  from: { address: string; requestId: string },
): Promise<TokenAnswer> {
  requireClient(form.client_id)
  if (form.grant_type === DEVICE_GRANT) {
    if (!form.device_code) throw new OauthRefusal('invalid_request', 'device_code is missing.')
    return pollDevice(ctx, form.device_code, from)
  }
  if (form.grant_type === 'refresh_token') {
    if (!form.refresh_token) throw new OauthRefusal('invalid_request', 'refresh_token is missing.')
    const wanted = form.scope === undefined ? undefined : parseScopes(form.scope)
    if (form.scope !== undefined && !wanted?.includes('read')) {
      throw new OauthRefusal('invalid_scope', 'scope must have read, and fewer scopes than before.')
    }
    const answer = await refreshTokens(ctx, form.refresh_token, from, wanted)
    if (answer) return answer
    throw new OauthRefusal(
      'invalid_grant',
      'This refresh token is not good any more. Log in again.',
    )
  }
  throw new OauthRefusal('unsupported_grant_type', 'Use the device code or a refresh token.')
}

function tokenRoute(api: Api, ctx: Context): void {
  const { wrongGrants } = ctx.quotas.narrow
  api.post(
    '/api/oauth/token',
    {
      bodyLimit: PEOPLE.authBodyBytes,
      config: { needs: 'nothing', showsSecret: true, anyQuery: true },
      schema: {
        summary: 'Fetch the tokens of an approved device, or refresh them',
        consumes,
        body: TokenForm,
        response: { 200: TokenAnswer, ...errors },
      },
    },
    async (request, reply) => {
      const from = { address: request.ip, requestId: request.id }
      reply.header('cache-control', 'no-store')
      return grant(ctx, request.body, from).catch(async (error: unknown) => {
        const isWrong = error instanceof OauthRefusal && error.code === 'invalid_grant'
        if (isWrong) await wrongGrants.take(request.ip)
        throw error
      })
    },
  )
}

function revokeRoute(api: Api, ctx: Context): void {
  const { revocations } = ctx.quotas.narrow
  api.post(
    '/api/oauth/revoke',
    {
      bodyLimit: PEOPLE.authBodyBytes,
      config: { needs: 'nothing', anyQuery: true },
      schema: {
        summary: 'End a token, and the login it belongs to',
        consumes,
        body: z.object({ token: Parameter.optional(), client_id: Parameter.optional() }),
        response: { 200: z.object({}), ...errors },
      },
    },
    async (request, reply) => {
      await revocations.take(request.ip)
      const { token } = request.body
      if (!token) throw new OauthRefusal('invalid_request', 'token is missing.')
      await revokeByToken(ctx, token, { address: request.ip, requestId: request.id })
      reply.header('cache-control', 'no-store')
      return {}
    },
  )
}

/** Outside the scope of form bodies, because it is an ordinary document. */
export function oauthMetadataRoute(api: Api, ctx: Context): void {
  api.get(
    '/.well-known/oauth-authorization-server',
    {
      config: { needs: 'nothing', anyQuery: true },
      schema: {
        summary: 'Where clients log in (RFC 8414)',
        response: { 200: AuthorizationServer },
      },
    },
    async () => ({
      issuer: ctx.baseUrl,
      token_endpoint: `${ctx.baseUrl}/api/oauth/token`,
      device_authorization_endpoint: `${ctx.baseUrl}/api/oauth/device_authorization`,
      revocation_endpoint: `${ctx.baseUrl}/api/oauth/revoke`,
      grant_types_supported: [DEVICE_GRANT, 'refresh_token'],
      response_types_supported: [],
      token_endpoint_auth_methods_supported: ['none'],
      revocation_endpoint_auth_methods_supported: ['none'],
      scopes_supported: [...SCOPES],
    }),
  )
}
