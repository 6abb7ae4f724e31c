// Serves the dashboard's files: its page at every address it knows, its scripts and styles. The page may load nothing
// external, run only its own script and not be framed. It holds no data; that comes over /trpc after sign-in.
import { AppError } from '@berth/shared'
import type { FastifyReply, FastifyRequest } from 'fastify'
import {
  type Dashboard,
  type DashboardFile,
  readDashboard,
} from '../../../app/installation/dashboard-files.ts'
import type { Context } from '../../../context.ts'
import type { Api } from '../http/api.ts'
import { pathOf } from '../http/broken-requests.ts'
import { html, page, sendPage } from '../http/html.ts'

/** Addresses that the dashboard's router knows; TREES include everything below them. */
const PAGES = ['/', '/login', '/setup', '/device', '/docs/service-file']
const TREES = [
  '/invite',
  '/reset',
  '/projects',
  '/environments',
  '/tasks',
  '/servers',
  '/org',
  '/account',
  '/admin',
  '/secrets',
]
/** Files that browsers request at the root. */
const ROOT_FILES = ['/favicon.svg', '/favicon.ico', '/robots.txt', '/manifest.webmanifest']

const NOT_BUILT = page(
  'Berth',
  html`<h1>The dashboard is not built</h1>
<p>Run <code>npm run build:dashboard</code> where this control plane is installed, then load this page again. Everything
else works without it: <a href="/api/docs">the API</a>, and the client: <code>berth --help</code>.</p>`,
)

const IMMUTABLE = 'public, max-age=31536000, immutable'

function dashboardPolicy(baseUrl: string, scriptHashes: readonly string[]): string {
  const { protocol, host } = new URL(baseUrl)
  const socket = `${protocol === 'https:' ? 'wss' : 'ws'}://${host}`
  return [
    "default-src 'self'",
    ["script-src 'self'", ...scriptHashes].join(' '),
    "style-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    `connect-src 'self' ${socket}`,
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    "require-trusted-types-for 'script'",
  ].join('; ')
}

function sendFile(
  request: FastifyRequest,
  reply: FastifyReply,
  file: DashboardFile,
  cacheControl: string,
): FastifyReply {
  reply
    .header('x-content-type-options', 'nosniff')
    .header('cross-origin-resource-policy', 'same-origin')
    .header('cache-control', cacheControl)
    .header('vary', 'accept-encoding')
    .header('etag', file.tag)
  const known = String(request.headers['if-none-match'] ?? '').split(/,\s*(?:W\/)?/)
  if (known.includes(file.tag)) return reply.code(304).send()
  const takesGzip = /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:,|$))/.test(
    String(request.headers['accept-encoding'] ?? ''),
  )
  reply.type(file.type)
  if (!file.gzipped || !takesGzip) return reply.send(file.bytes)
  return reply.header('content-encoding', 'gzip').send(file.gzipped)
}

const loaded = new WeakMap<Context, Promise<Dashboard | undefined>>()

async function load(ctx: Context): Promise<Dashboard | undefined> {
  const found = loaded.get(ctx) ?? readDashboard(ctx.config.dashboardDir)
  loaded.set(ctx, found)
  const dashboard = await found.catch((error: unknown) => {
    ctx.log.error({ err: error }, 'the dashboard could not be read')
    return undefined
  })
  if (!dashboard) loaded.delete(ctx) // it may be built later
  return dashboard
}

async function sendIndex(
  ctx: Context,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const dashboard = await load(ctx)
  if (!dashboard) return sendPage(reply.code(503).header('cache-control', 'no-store'), NOT_BUILT)
  reply
    .header('content-security-policy', dashboardPolicy(ctx.baseUrl, dashboard.scriptHashes))
    .header('referrer-policy', 'same-origin') // keeps links of invitations and resets from other sites
    .header('cross-origin-opener-policy', 'same-origin')
    .header('permissions-policy', 'camera=(), microphone=(), geolocation=()')
  return sendFile(request, reply, dashboard.index, 'no-cache')
}

/** Whether a person opened an address in a browser; programs do not ask for HTML. */
export const isVisit = (request: FastifyRequest): boolean =>
  (request.method === 'GET' || request.method === 'HEAD') &&
  /\btext\/html\b/.test(request.headers.accept ?? '')

/** Documents, downloads and files are opened by people too. */
export const isMissingDocument = (request: FastifyRequest, error: unknown): boolean =>
  error instanceof AppError &&
  error.code === 'not_found' &&
  isVisit(request) &&
  /^\/(?:docs|downloads|assets|schemas)\//.test(pathOf(request))

/** An unknown address, for a person: the dashboard shows its page for that. */
export async function sendNotFoundPage(
  ctx: Context,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  return sendIndex(ctx, request, reply.code(404))
}

export function dashboardRoutes(api: Api, ctx: Context): void {
  const options = { config: { needs: 'nothing' as const }, schema: { hide: true } }
  const sendApp = (request: FastifyRequest, reply: FastifyReply) => sendIndex(ctx, request, reply)
  const sendPart = async (request: FastifyRequest, reply: FastifyReply) => {
    const path = request.url.split('?')[0]?.slice(1) ?? ''
    const file = (await load(ctx))?.files.get(path)
    if (!file) throw new AppError('not_found', 'The dashboard was updated. Reload the page.')
    return sendFile(request, reply, file, file.isImmutable ? IMMUTABLE : 'public, max-age=300')
  }
  for (const path of PAGES) api.get(path, options, sendApp)
  if (ctx.config.isDevelopment) {
    api.get('/design', options, sendApp)
    api.get('/design/on', options, (_request, reply) => reply.code(204).send())
  }
  for (const path of TREES) {
    api.get(path, options, sendApp)
    api.get(`${path}/*`, options, sendApp)
  }
  for (const path of ROOT_FILES) api.get(path, options, sendPart)
  api.get('/assets/*', options, sendPart)
}
