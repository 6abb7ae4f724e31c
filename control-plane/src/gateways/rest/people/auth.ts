// Sign-in, sign-out, password change and reset for browsers, passed unchanged to the sign-in library, and the decision
// about a device that wants to log in. It uses cookies, so every request must come from our own pages. Not part of the
// REST contract.
import { AppError, PEOPLE } from '@berth/shared'
import { DeviceDescription, UserCodeRequest } from '@berth/shared/api'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { authenticateSession } from '../../../app/people/browser-callers.ts'
import { answerSignIn, askLibrary, beginReset } from '../../../app/people/browser-sign-in.ts'
import type { Authenticated } from '../../../app/people/callers.ts'
import { approveDevice, denyDevice, describeDevice } from '../../../app/people/device-login.ts'
import type { Context } from '../../../context.ts'
import type { Caller } from '../../../domain/core/access.ts'
import { AUTH_PATHS } from '../../../identity/sign-in/auth.ts'
import { serializeDevice } from '../../serializers/people.ts'
import type { Api } from '../http/api.ts'

const PREFIX = '/api/auth'
const fromOf = (request: FastifyRequest) => ({ address: request.ip, requestId: request.id })

/** A cookie alone proves nothing, because browsers send it from any page. */
function requireOwnOrigin(ctx: Context, request: FastifyRequest): void {
  const { origin, cookie } = request.headers
  const site = request.headers['sec-fetch-site']
  const own = new URL(ctx.baseUrl).origin
  const foreign = origin === undefined ? cookie !== undefined : origin !== own
  if (!foreign && site !== 'cross-site') return
  throw new AppError('origin_forbidden', `Only pages of ${own} may do this.`)
}

/** Returns the signed-in user of a browser's request. */
async function browserCaller(ctx: Context, request: FastifyRequest): Promise<Caller> {
  requireOwnOrigin(ctx, request)
  return (await signedIn(ctx, request)).caller
}

async function signedIn(ctx: Context, request: FastifyRequest): Promise<Authenticated> {
  const { cookie } = request.headers
  const who = await authenticateSession(ctx, { cookie }, fromOf(request))
  if (!who) throw new AppError('token_missing', 'Sign in first.')
  return who
}

/** Builds the library's request: our own address, and only the headers it needs. */
function toRequest(ctx: Context, request: FastifyRequest): Request {
  const headers = new Headers({ 'x-berth-address': request.ip })
  for (const name of ['cookie', 'origin', 'content-type', 'user-agent', 'sec-fetch-site']) {
    const value = request.headers[name]
    if (typeof value === 'string') headers.set(name, value)
  }
  const url = new URL(request.url, new URL(ctx.baseUrl).origin)
  const hasBody = request.method !== 'GET' && typeof request.body === 'string'
  return new Request(url, {
    method: request.method,
    headers,
    ...(hasBody ? { body: request.body as string } : {}),
  })
}

/** Removes the login's token, which belongs only in the cookie. */
function withoutTokens(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), (key, value) => (key === 'token' ? undefined : value))
  } catch {
    return text
  }
}

async function report(answer: Response, reply: FastifyReply): Promise<void> {
  for (const cookie of answer.headers.getSetCookie()) reply.header('set-cookie', cookie)
  reply.code(answer.status).type('application/json').header('cache-control', 'no-store')
  reply.send(withoutTokens(await answer.text()))
}

function emailOf(body: unknown): string {
  try {
    const { email } = JSON.parse(String(body)) as { email?: unknown }
    if (typeof email === 'string' && email.length <= 254) return email
  } catch {
    // handled below
  }
  throw new AppError('validation_failed', 'email is missing.')
}

export function authRoutes(api: Api, ctx: Context): void {
  api.removeAllContentTypeParsers()
  api.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) =>
    done(null, body),
  )
  api.route({
    method: ['GET', 'POST'],
    url: `${PREFIX}/*`,
    bodyLimit: PEOPLE.authBodyBytes,
    config: { needs: 'nothing' },
    schema: { hide: true },
    handler: async (request, reply) => {
      const path = request.url.split('?')[0]?.slice(PREFIX.length) ?? ''
      if (AUTH_PATHS[path] !== request.method) {
        throw new AppError('not_found', "Not found, or you don't have access.")
      }
      if (request.method === 'POST') requireOwnOrigin(ctx, request)
      const from = fromOf(request)
      if (path === '/sign-in/email') {
        const email = emailOf(request.body)
        await report(await answerSignIn(ctx, email, toRequest(ctx, request), from), reply)
      } else if (path === '/request-password-reset') {
        const message = await beginReset(ctx, emailOf(request.body), toRequest(ctx, request), from)
        reply.header('cache-control', 'no-store').send({ status: true, message })
      } else if (path === '/change-password') {
        // a guess here counts like one at sign-in, for the same account
        const { user } = await signedIn(ctx, request)
        const asked = toRequest(ctx, endOtherSessions(request))
        await report(await answerSignIn(ctx, user.email, asked, from), reply)
      } else if (path === '/callback/oidc') {
        await reportProvider(ctx, request, reply)
      } else {
        if (path === '/reset-password') await ctx.quotas.narrow.links.take(request.ip)
        await report(await askLibrary(ctx, toRequest(ctx, request), from), reply)
      }
      return reply
    },
  })
}

/** The provider sent the browser back: on to the page that asked, or to the sign-in page with the reason. */
async function reportProvider(
  ctx: Context,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  await ctx.quotas.narrow.ceremonies.take(request.ip)
  const { origin } = new URL(ctx.baseUrl)
  reply.header('cache-control', 'no-store').header('referrer-policy', 'no-referrer')
  try {
    const answer = await askLibrary(ctx, toRequest(ctx, request), fromOf(request))
    for (const cookie of answer.headers.getSetCookie()) reply.header('set-cookie', cookie)
    const to = new URL(answer.headers.get('location') ?? '/login?error=failed', origin)
    reply.redirect(to.origin === origin ? to.href : `${origin}/login?error=failed`, 302)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    const reason = String(error.details.reason ?? error.code)
    reply.redirect(`${origin}/login?error=${encodeURIComponent(reason)}`, 302)
  }
}

/** A password change ends every login; the library then begins a new one for this browser. */
function endOtherSessions(request: FastifyRequest): FastifyRequest {
  if (typeof request.body !== 'string') return request
  try {
    const body = JSON.parse(request.body) as object
    request.body = JSON.stringify({ ...body, revokeOtherSessions: true })
  } catch {
    // the library reports what is wrong with it
  }
  return request
}

/** The page `/device` shows the requesting device, then decides. Opening a link decides nothing. */
export function deviceRoutes(api: Api, ctx: Context): void {
  const Decided = z.object({ status: z.enum(['approved', 'denied']) })
  const route = { config: { needs: 'nothing' as const }, bodyLimit: PEOPLE.authBodyBytes }
  const schema = { hide: true, body: UserCodeRequest }
  api.post(
    `${PREFIX}/device/describe`,
    { ...route, schema: { ...schema, response: { 200: DeviceDescription } } },
    async (request, reply) => {
      const caller = await browserCaller(ctx, request)
      const view = await describeDevice(ctx, caller, request.body.user_code)
      reply.header('cache-control', 'no-store')
      return serializeDevice(view)
    },
  )
  api.post(
    `${PREFIX}/device/approve`,
    { ...route, schema: { ...schema, response: { 200: Decided } } },
    async (request) => {
      await approveDevice(ctx, await browserCaller(ctx, request), request.body.user_code)
      return { status: 'approved' as const }
    },
  )
  api.post(
    `${PREFIX}/device/deny`,
    { ...route, schema: { ...schema, response: { 200: Decided } } },
    async (request) => {
      await denyDevice(ctx, await browserCaller(ctx, request), request.body.user_code)
      return { status: 'denied' as const }
    },
  )
}
