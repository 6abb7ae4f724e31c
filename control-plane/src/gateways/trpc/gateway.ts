// The dashboard's gateway: queries and mutations at /trpc/{procedure}, one socket at /trpc for subscriptions. JSON
// only; bodies have the common limit, and a request has a bounded number of calls.
import { AppError } from '@berth/shared'
import { fastifyRequestHandler } from '@trpc/server/adapters/fastify'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Context } from '../../context.ts'
import { requireQuota } from '../../identity/quotas.ts'
import { LIVE } from '../../limits/browser.ts'
import { Admission, askOrganization, identify } from '../../notifications/admission.ts'
import type { CallContext, Visitor } from './base.ts'
import { refusalOf } from './errors.ts'
import { countBad, logFault } from './faults.ts'
import { requireOwnOrigin } from './origin.ts'
import { appRouter } from './router.ts'
import { SOCKET_PATH, Sockets } from './sockets.ts'

export { SOCKET_PATH, type Sockets } from './sockets.ts'

export function openBrowserGateway(ctx: Context, http: FastifyInstance): Sockets {
  http.register(async (scope) => {
    scope.removeContentTypeParser('application/json')
    // tRPC parses it itself
    scope.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) =>
      done(null, body),
    )
    scope.route({
      method: ['GET', 'POST'],
      url: `${SOCKET_PATH}/:path`,
      schema: { hide: true },
      config: { needs: 'nothing' }, // each procedure checks what it needs
      handler: (request, reply) => answer(ctx, request, reply),
    })
  })
  return new Sockets(ctx, http.server)
}

// flat by full name, contrary to its type
const procedures = appRouter._def.procedures as object as Record<
  string,
  { _def: { type: string; meta?: { isOpen?: boolean } } }
>

async function answer(ctx: Context, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  requireOwnOrigin(ctx, request.headers, request.method === 'GET' ? 'read' : 'change')
  const { path } = request.params as { path: string }
  const asked = path.split(',').map((name) => procedures[name]?._def)
  if (asked.some((procedure) => procedure?.type === 'subscription')) {
    throw new AppError('invalid_parameter', 'Subscriptions go over the socket, not over HTTP.')
  }
  const open = asked.filter((procedure) => procedure?.meta?.isOpen === true).length
  const isOpen = open === asked.length ? 'all' : open > 0 ? 'some' : 'none'
  await fastifyRequestHandler({
    req: request,
    res: reply,
    path,
    router: appRouter,
    maxBatchSize: LIVE.callsPerRequest,
    createContext: () => contextOf(ctx, request, reply, isOpen),
    onError: ({ error, path: at }) => logFault(ctx, error, at),
    responseMeta: ({ errors }) => {
      const [first] = errors
      const refusal = first && refusalOf(first)
      const headers = new Headers({ 'cache-control': 'no-store' })
      const wait = refusal?.details.retry_after
      if (typeof wait === 'number') headers.set('retry-after', String(wait))
      return { status: first ? (refusal?.status ?? 500) : 200, headers }
    },
  })
}

function visitorOf(request: FastifyRequest, reply: FastifyReply): Visitor {
  return {
    address: request.ip,
    requestId: request.id,
    cookie: request.headers.cookie,
    userAgent: request.headers['user-agent'],
    setCookies(cookies) {
      for (const cookie of cookies) reply.header('set-cookie', cookie)
    },
  }
}

/** Each call of a batch is checked on its own: an open one also works without sign-in. */
async function contextOf(
  ctx: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  isOpen: 'all' | 'some' | 'none',
): Promise<CallContext> {
  const visitor = visitorOf(request, reply)
  const base = { ctx, requestId: request.id, visitor, socket: undefined }
  if (isOpen === 'all') return { ...base, admission: undefined }
  try {
    return { ...base, admission: await admit(ctx, request) }
  } catch (error) {
    if (isOpen === 'none' || !(error instanceof AppError) || error.status !== 401) throw error
    return { ...base, admission: undefined, refusal: error }
  }
}

async function admit(ctx: Context, request: FastifyRequest): Promise<Admission> {
  const { authorization, cookie } = request.headers
  const from = { address: request.ip, requestId: request.id }
  const found = await identify(ctx, { authorization, cookie }, from).catch(
    countBad(ctx, request.ip),
  )
  const { userId, origin } = found.caller
  requireQuota(await ctx.quotas.countRequest({ userId, tokenId: origin.tokenId }))
  const who = askOrganization(found, request.headers['x-service-organization'])
  const again = () => Promise.resolve(who) // a request is too short to authenticate again
  return new Admission(ctx, who, again, () => {})
}
