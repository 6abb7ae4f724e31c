// A local git server: git's own http-backend behind a loopback listener. The tests clone from it, and so does the forge
// of `npm start`, so they need no outside repository. Read-only unless the caller accepts pushes.
import { spawn } from 'node:child_process'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface GitServer {
  /** Without a trailing slash; add the repository's folder name. */
  url: string
  close(): Promise<void>
}

/** What a request may do beyond reading. */
interface GitAccess {
  /** Allows a push. */
  write?: boolean
  /** Settings of git for this request. */
  config?: Record<string, string>
  /** For the hooks of a push. */
  env?: Record<string, string>
}

/** Serves every repository below `root`. */
export async function startGitServer(root: string, port = 0): Promise<GitServer> {
  const server = createServer((request, response) => answerGit(root, request, response))
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** Hands one request to git's http-backend. */
export function answerGit(
  root: string,
  request: IncomingMessage,
  response: ServerResponse,
  { write = false, config = {}, env = {} }: GitAccess = {},
): void {
  const url = new URL(request.url ?? '/', 'http://127.0.0.1')
  const settings = Object.entries({
    'safe.directory': '*', // the repositories belong to the current user, or to a test's user
    ...(write ? { 'http.receivepack': 'true' } : {}), // otherwise the repository decides
    ...config,
  })
  const child = spawn('git', ['http-backend'], {
    env: {
      ...env,
      PATH: process.env.PATH ?? '',
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      GIT_CONFIG_COUNT: String(settings.length),
      ...Object.fromEntries(
        settings.flatMap(([key, value], i) => [
          [`GIT_CONFIG_KEY_${i}`, key],
          [`GIT_CONFIG_VALUE_${i}`, value],
        ]),
      ),
      PATH_INFO: decodeURIComponent(url.pathname),
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method ?? 'GET',
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
      GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      REMOTE_ADDR: '127.0.0.1',
    },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  request.pipe(child.stdin)
  child.stdin.on('error', () => {})
  response.on('close', () => child.kill())
  child.on('error', () => response.writeHead(500).end())
  readHead(child.stdout, response)
}

const HEAD_BYTES = 16_384

/** The backend speaks CGI: header lines, an empty line, the body. */
function readHead(from: NodeJS.ReadableStream, response: ServerResponse): void {
  let head = Buffer.alloc(0)
  const onData = (chunk: Buffer): void => {
    head = Buffer.concat([head, chunk])
    const end = head.indexOf('\r\n\r\n')
    if (end < 0) {
      if (head.length > HEAD_BYTES) response.destroy()
      return
    }
    from.off('data', onData)
    let status = 200
    for (const line of head.subarray(0, end).toString('latin1').split('\r\n')) {
      const [name = '', value = ''] = line.split(/:\s*/, 2)
      if (name.toLowerCase() === 'status') status = Number.parseInt(value, 10)
      else response.setHeader(name, value)
    }
    response.writeHead(status)
    response.write(head.subarray(end + 4))
    from.pipe(response)
  }
  from.on('data', onData)
  from.on('end', () => {
    if (!response.headersSent) response.writeHead(502).end()
  })
}
