// The network peer in tests: a small HTTP server that sends scripted answers. It knows the contract's mechanics (ETag
// and 304, request ids, version header, problem bodies) and no rules.
import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ERRORS, type ErrorCode } from '@berth/shared'

interface Reply {
  status?: number
  json?: unknown
  text?: string
  headers?: Record<string, string>
  /** Runs before the reply is written; for tests that act in between. */
  before?: () => void | Promise<void>
}
/** `drop`: closes the connection without an answer. A function writes the answer itself. */
export type Scripted = Reply | 'drop' | ((req: IncomingMessage, res: ServerResponse) => void)

interface Recorded {
  method: string
  path: string
  query: URLSearchParams
  headers: IncomingMessage['headers']
  body: string
  status: number | null
}

export interface Peer {
  url: string
  requests: Recorded[]
  /** Answers in order; the last one repeats. `route` is "GET /api/me". */
  script(route: string, ...replies: Scripted[]): void
  asked(route: string): Recorded[]
  /** Closes the port and every connection; `start` opens the same port again. */
  stop(): Promise<void>
  start(): Promise<void>
}

export const problem = (code: ErrorCode, detail: string, more: object = {}): Reply => ({
  status: ERRORS[code][0],
  headers: { 'content-type': 'application/problem+json' },
  json: {
    type: `https://deploy.example.com/docs/errors/${code}`,
    title: ERRORS[code][1],
    status: ERRORS[code][0],
    detail,
    instance: '/api',
    code,
    request_id: 'req_TEST01',
    ...more,
  },
})

async function readBody(req: IncomingMessage): Promise<string> {
  let body = ''
  for await (const chunk of req) body += chunk
  return body
}

function write(req: IncomingMessage, res: ServerResponse, reply: Reply): void {
  const text = reply.json === undefined ? (reply.text ?? '') : JSON.stringify(reply.json)
  const etag = `W/"${createHash('sha1').update(text).digest('hex').slice(0, 12)}"`
  const isKnown = req.headers['if-none-match'] === etag && (reply.status ?? 200) === 200
  res.writeHead(isKnown ? 304 : (reply.status ?? 200), {
    'content-type': 'application/json',
    'berth-version': '1.15.0',
    'x-request-id': 'req_TEST01',
    ...(req.method === 'GET' ? { etag } : {}),
    ...reply.headers,
  })
  res.end(isKnown ? undefined : text)
}

export async function startPeer(): Promise<Peer> {
  const scripts = new Map<string, Scripted[]>()
  const requests: Recorded[] = []
  const server = createServer(async (req, res) => {
    const url = new URL(req.url ?? '/', 'http://peer')
    const route = `${req.method} ${url.pathname}`
    const { method = '', headers } = req
    const body = await readBody(req)
    const record: Recorded = {
      method,
      path: url.pathname,
      query: url.searchParams,
      headers,
      body,
      status: null,
    }
    requests.push(record)
    res.on('finish', () => {
      record.status = res.statusCode
    })
    const replies = scripts.get(route) ?? [problem('not_found', `Nothing at ${route}.`)]
    const reply = replies.length > 1 ? replies.shift() : replies[0]
    if (reply === undefined || reply === 'drop') return void req.socket.destroy()
    if (typeof reply === 'function') return reply(req, res)
    await reply.before?.()
    if (!res.destroyed) write(req, res, reply)
  })
  const listen = (port: number) =>
    new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, '127.0.0.1', () => resolve())
    })
  await listen(0)
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    script: (route, ...replies) => void scripts.set(route, replies),
    asked: (route) => requests.filter((one) => `${one.method} ${one.path}` === route),
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
    start: () => listen(port),
  }
}
