// The HTTP server: one Fastify with zod, one error shape, one not-found answer, the headers of every answer. Routes are
// thin and have their own files; this file holds what applies to all of them.
import { hash } from 'node:crypto'
import type { ServerOptions } from 'node:http'
import type { Socket } from 'node:net'
import { AppError, REST, VERSION } from '@berth/shared'
import Fastify, { type FastifyReply, type FastifyRequest, type RouteOptions } from 'fastify'
import { validatorCompiler, type ZodTypeProvider } from 'fastify-type-provider-zod'
import { authenticate } from '../../../app/people/callers.ts'
import type { Context } from '../../../context.ts'
import { trustProxies } from '../../../identity/client-address.ts'
import { askOrganization } from '../../../notifications/admission.ts'
import { isMissingDocument, isVisit, sendNotFoundPage } from '../installation/dashboard.ts'
import { registerOpenApi } from '../reference/openapi.ts'
import type { Api } from './api.ts'
import { pathOf, refuseUnfit, refuseUnknownParameters } from './broken-requests.ts'
import { drainOnClose } from './drain.ts'
import { boundHalfOpen } from './half-open.ts'
import { acceptRepeats, mayRepeat } from './idempotency.ts'
import { findNul } from './json-body.ts'
import { acceptSignedCursors } from './paging.ts'
import { sendProblem } from './problem.ts'
import { countBadToken, countRequest, giveBack, serializeQuotas } from './quotas.ts'
import { type AllowedAt, answerBroken, refuseTunnel, wrongMethod } from './raw-answers.ts'
import { requestId } from './request-ids.ts'

export function buildHttp(ctx: Context): Api {
  const routes = new Routes()
  const allowedAt = (path: string): string[] => routes.allowedAt(path)
  const app = Fastify({
    bodyLimit: REST.bodyBytes,
    requestTimeout: REST.requestMs,
    keepAliveTimeout: REST.idleMs,
    ...listenerOptions(ctx),
    forceCloseConnections: true, // after drain.ts, close() must not wait for idle connections and streams
    routerOptions: { maxParamLength: 5_000 },
    genReqId: requestId,
    clientErrorHandler: (error, socket) => answerBroken(ctx, error, socket, allowedAt),
    // BERTH_TRUSTED_PROXY: X-Forwarded-For is trusted only from there
    trustProxy: ctx.config.trustedProxies.length > 0 && trustProxies(ctx.config.trustedProxies),
    frameworkErrors: (error, request, reply) => {
      nameAnswer(ctx, request, reply)
      return void sendProblem(ctx, error, request, reply)
    },
  }).withTypeProvider<ZodTypeProvider>()
  app.server.on('connect', (request, socket) =>
    refuseTunnel(ctx, request, socket as Socket, allowedAt),
  )
  const stopBounding = boundHalfOpen(app.server, trustProxies(ctx.config.trustedProxies))
  app.addHook('onClose', (_app, done) => {
    stopBounding()
    done()
  })
  app.setValidatorCompiler(validatorCompiler)
  // serializers name every field, and tests check every answer against the document of the same schemas; checking again
  // here would cost as much as the rest of a request
  app.setSerializerCompiler(() => (data) => JSON.stringify(data))
  app.removeContentTypeParser('text/plain') // otherwise 400 from the schema instead of 415
  acceptEmptyBodies(app)
  app.decorateRequest('who', null)
  app.decorateRequest('counted', null)
  app.decorateRequest('turn', null)
  app.decorateRequest('bodyDigest', '')
  app.setErrorHandler((error, request, reply) =>
    isMissingDocument(request, error)
      ? sendNotFoundPage(ctx, request, reply)
      : sendProblem(ctx, error, request, reply),
  )
  app.addHook('onRoute', (route) => routes.add(route))
  registerOpenApi(app, ctx)
  // only a person's visit comes here: everything else is refused below, before the body is read
  app.setNotFoundHandler((request, reply) => sendNotFoundPage(ctx, request, reply))
  // synchronous hooks use callbacks, since their promises cost a tenth of a small answer
  app.addHook('onRequest', (request, reply, done) => {
    nameAnswer(ctx, request, reply)
    refuseUnfit(request)
    if (request.is404) {
      const refusal = refuseUnrouted(request, reply, allowedAt)
      // a person who mistyped an address gets a page, also below /api
      if (refusal.code !== 'not_found' || !isVisit(request)) throw refusal
    }
    done()
  })
  app.addHook('preValidation', (request, _reply, done) => {
    refuseUnknownParameters(request)
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    const route = request.is404 ? 'none' : (request.routeOptions.url ?? 'none')
    ctx.metrics.request(request.method, route, reply.statusCode, reply.elapsedTime / 1_000)
    if (!/^(GET|HEAD|OPTIONS)$/.test(request.method)) reportRequest(ctx, request, reply, route)
    done()
  })
  drainOnClose(app)
  app.addHook('onSend', (request, reply, payload, done) =>
    done(null, addHeaders(request, reply, payload)),
  )
  return app
}

/** Log and trace of a request that may have changed something. Refused ones are in the metrics only. */
function reportRequest(
  ctx: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  route: string,
): void {
  const { id, method } = request
  const { statusCode: status, elapsedTime } = reply
  if (status >= 400 && status < 500) return
  ctx.log.info({ requestId: id, method, route, status, ms: Math.round(elapsedTime) }, 'request')
  const endMs = ctx.clock.now()
  const times = { startMs: endMs - elapsedTime, endMs }
  const traceParent = request.headers.traceparent
  ctx.traces.request({ id, method, route, status, traceParent, ...times })
}

/** Plain HTTP behind a proxy, or HTTPS. */
function listenerOptions({ certificates }: Context): { http: ServerOptions } {
  const options: ServerOptions = {
    maxHeaderSize: REST.headerBytes,
    headersTimeout: REST.headersMs,
    connectionsCheckingInterval: REST.timesMs,
    // any other Upgrade (h2c) is a request that may be ignored
    shouldUpgradeCallback: ({ headers }) => headers.upgrade?.toLowerCase() === 'websocket',
  }
  if (!certificates) return { http: options }
  const https = { ...options, ...certificates.context, handshakeTimeout: REST.headersMs }
  // its type differs by the kind of server, which nothing here depends on
  return { https } as object as { http: ServerOptions }
}

const A_YEAR = 'max-age=31536000'

/** Sets the headers of every answer, successful or not. */
function nameAnswer(ctx: Context, request: FastifyRequest, reply: FastifyReply): void {
  reply.header('x-request-id', request.id)
  reply.header('berth-version', VERSION)
  if (isEncrypted(ctx, request)) reply.header('strict-transport-security', A_YEAR)
}

/**
 * Returns whether the browser came over TLS, as the proxy in front says; a false claim changes only the client's own
 * answer. HSTS leaves out subdomains, because environments there have their own rules.
 */
const isEncrypted = (ctx: Context, request: FastifyRequest): boolean =>
  ctx.baseUrl.startsWith('https:') &&
  (request.protocol === 'https' || request.headers['x-forwarded-proto'] === 'https')

/** Distinguishes an unknown method from an unknown path. */
function refuseUnrouted(
  request: FastifyRequest,
  reply: FastifyReply,
  allowedAt: AllowedAt,
): AppError {
  const allowed = allowedAt(pathOf(request))
  if (allowed.length === 0) return missing(request)
  reply.header('allow', allowed.join(', '))
  return wrongMethod(request.method, allowed)
}

function missing(request: FastifyRequest): AppError {
  return /^\/api\/environments\/\d+\/logs\b/.test(pathOf(request))
    ? new AppError('not_found', 'Container logs are read with the client: berth logs.')
    : new AppError('not_found', "Not found, or you don't have access.")
}

/** POST without a body is the Deploy button; a body that is present must be JSON. */
function acceptEmptyBodies(app: Api): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeContentTypeParser('application/json')
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    const text = body as string
    if (mayRepeat(request)) {
      request.bodyDigest = hash('sha256', text)
    }
    if (text === '') done(null, undefined)
    else {
      // an unknown route is answered 404 regardless of its body
      const refuse = (value: unknown) => (request.is404 ? null : findNul(text, value))
      void parse(request, text, (error, value) => done(error ?? refuse(value), value))
    }
  })
}

/** Which methods a path has. */
class Routes {
  readonly #routes: { pattern: RegExp; method: string }[] = []

  add(route: RouteOptions & { path: string }): void {
    const escaped = route.path.replaceAll(/[.+?^$()|[\]\\{}]/g, '\\$&')
    const pattern = new RegExp(`^${escaped.replaceAll(/:[^/]+/g, '[^/]+').replaceAll('*', '.*')}$`)
    for (const method of [route.method].flat()) this.#routes.push({ pattern, method })
  }

  allowedAt(path: string): string[] {
    return [
      ...new Set(this.#routes.filter((r) => r.pattern.test(path)).map(({ method }) => method)),
    ]
  }
}

/** Sets a weak ETag from the serialized body; an unchanged answer is 304. */
function addHeaders(request: FastifyRequest, reply: FastifyReply, payload: unknown): unknown {
  if (!pathOf(request).startsWith('/api/')) return payload
  reply.header('vary', 'Authorization, X-Service-Organization')
  if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'private, no-cache')
  const cacheable = request.method === 'GET' || request.method === 'HEAD'
  if (!cacheable || reply.statusCode !== 200 || typeof payload !== 'string') return payload
  const tag = `W/"${hash('sha256', payload, 'base64url').slice(0, 16)}"`
  reply.header('etag', tag)
  const known = request.headers['if-none-match']
  if (known === undefined || !known.split(/,\s*/).includes(tag)) return payload
  reply.code(304).removeHeader('content-type').removeHeader('content-length')
  return request.method === 'HEAD' ? '' : null
}

/** A scope in which every route has a caller. Bad tokens count by address. */
export function requireToken(api: Api, ctx: Context): void {
  acceptSignedCursors(api, ctx)
  acceptRepeats(api, ctx)
  api.addHook('onSend', (request, reply, payload, done) => {
    if (request.counted && reply.statusCode === 304) {
      giveBack(request.counted).then(() => answer(), done)
    } else answer()
    function answer(): void {
      serializeQuotas(request, reply)
      done(null, payload)
    }
  })
  api.addHook('onRequest', async (request) => {
    try {
      const from = { address: request.ip, requestId: request.id }
      request.who = await authenticate(ctx, request.headers.authorization, from)
    } catch (error) {
      if (error instanceof AppError && error.status === 401) await countBadToken(ctx, request)
      throw error
    }
    const { userId, origin } = request.who.caller
    await countRequest(ctx, request, { userId, tokenId: origin.tokenId })
    request.who = askOrganization(request.who, request.headers['x-service-organization'])
  })
}
