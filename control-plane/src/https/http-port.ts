// Port 80 beside HTTPS: answers the authority's check, and sends everyone else on to HTTPS. It reads no body, and a
// request that could carry a token gets an explanation, because by then the token has travelled readable.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { HTTPS } from '../limits/installation.ts'

const CHALLENGE = /^\/\.well-known\/acme-challenge\/([A-Za-z0-9_-]{1,256})$/

export class HttpPort {
  /** By token. */
  readonly challenges = new Map<string, string>()
  readonly #target: string
  #server: Server | undefined

  /** `target` is the address of the control plane, such as https://deploy.example.com. */
  constructor(target: string) {
    this.#target = target
  }

  get isOpen(): boolean {
    return this.#server !== undefined
  }

  /** Throws if the port is taken or not allowed. */
  async open(host: string, port: number): Promise<void> {
    if (this.#server) return
    const { connections, headerBytes, requestMs } = HTTPS.redirect
    const server = createServer(
      { maxHeaderSize: headerBytes, requestTimeout: requestMs, headersTimeout: requestMs },
      (request, response) => this.#answer(request, response),
    )
    server.maxConnections = connections
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen({ host, port }, () => {
        server.off('error', reject)
        server.on('error', () => {}) // of one connection, such as too many open files
        resolve()
      })
    })
    this.#server = server
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { method = '', url = '/' } = request
    response.setHeader('connection', 'close')
    const reads = method === 'GET' || method === 'HEAD'
    const challenge = this.challenges.get(CHALLENGE.exec(url)?.[1] ?? '')
    if (reads && challenge !== undefined) {
      response.writeHead(200, { 'content-type': 'text/plain' }).end(challenge)
    } else if (reads && url.startsWith('/') && url.length <= HTTPS.redirect.pathBytes) {
      response.writeHead(308, { location: this.#target + url }).end()
    } else {
      const text = `Use ${this.#target}. What you sent here travelled readable; replace it if it was secret.\n`
      response.writeHead(400, { 'content-type': 'text/plain' }).end(text)
    }
  }

  async close(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    if (!server) return
    const closed = new Promise((resolve) => server.close(resolve))
    server.closeAllConnections()
    await closed
  }
}
