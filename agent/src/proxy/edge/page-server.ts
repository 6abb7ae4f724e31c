// The edge's own HTTP server on loopback: pages for hostnames without an application, redirects to https, and Caddy's
// check whether a hostname may have a certificate. It answers immediately and reads no body.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { isLocalHost } from '../client.ts'
import { type Page, renderPage } from './pages.ts'

interface PageRules {
  /** Undefined when an application serves it (or did a moment ago). */
  pageFor: (host: string, path: string) => Page | undefined
  isKnownHost: (host: string) => boolean
  /** Null when there is no https here. */
  httpsPort: number | null
  askKey: string
}

const hostOf = (request: IncomingMessage): string =>
  (request.headers.host ?? '').replace(/:\d+$/, '').toLowerCase()

function answerPage(rules: PageRules, request: IncomingMessage, answer: ServerResponse): void {
  const url = request.url ?? '/'
  const [path = '/', query = ''] = url.split('?', 2)
  if (path === `/ask/${rules.askKey}`) {
    const domain = (new URLSearchParams(query).get('domain') ?? '').toLowerCase()
    const isGranted = rules.httpsPort !== null && !isLocalHost(domain) && rules.isKnownHost(domain)
    answer.writeHead(isGranted ? 200 : 404).end()
    return
  }
  const host = hostOf(request)
  const wantsRedirect = request.headers['x-berth-page'] === 'redirect'
  if (wantsRedirect && rules.httpsPort !== null && rules.isKnownHost(host)) {
    const port = rules.httpsPort === 443 ? '' : `:${rules.httpsPort}`
    const to = url.startsWith('/') ? url : '/'
    answer.writeHead(308, { location: `https://${host}${port}${to}`, 'cache-control': 'no-store' })
    answer.end()
    return
  }
  const page = rules.pageFor(host, path) ?? 'stopped'
  const rendered = renderPage(page, request.headers.accept ?? '')
  const body = Buffer.from(rendered.body)
  answer.writeHead(rendered.status, { ...rendered.headers, 'content-length': body.length })
  answer.end(request.method === 'HEAD' ? undefined : body)
}

/** On its previous port, or on a free one if another process has taken that. */
export async function openPageServer(
  port: number,
  rules: PageRules,
): Promise<{ server: Server; port: number }> {
  const listen = (wanted: number): Promise<Server> =>
    new Promise((resolve, reject) => {
      const server = createServer({ requestTimeout: 10_000, headersTimeout: 5_000 })
      server.on('request', (request, answer) => answerPage(rules, request, answer))
      server.once('error', reject)
      server.listen(wanted, '127.0.0.1', () => resolve(server))
    })
  const server = await listen(port).catch((error: NodeJS.ErrnoException) => {
    if (port === 0 || error.code !== 'EADDRINUSE') throw error
    return listen(0)
  })
  return { server, port: (server.address() as { port: number }).port }
}
