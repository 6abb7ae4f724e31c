// A repository host on loopback for tests: git over http, and the API of one of the five kinds in the shapes its maker
// documents. Strict: a path, header or body that the real one would refuse is refused, and kept in `refused`. What it
// holds is the truth that reconcile has to reach.
import {
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { type GitServer, startGitServer } from '../scripts/git-server.ts'
import { SHAPES, type Shape } from './fake-host-shapes.ts'

export type FakeKind = keyof typeof SHAPES

export interface FakePull {
  number: number
  title: string
  state: 'open' | 'merged' | 'closed'
  draft: boolean
  headBranch: string
  headSha: string
  baseBranch: string
  fromFork: boolean
  updatedAt: number
}

export interface FakeStatus {
  sha: string
  state: string
  context: string
  description: string
  url: string
}

export interface FakeComment {
  id: number
  number: number
  text: string
  version: number
}

export interface Called {
  method: string
  path: string
  query: URLSearchParams
  headers: IncomingMessage['headers']
  body: Record<string, unknown>
}

export interface Reply {
  status: number
  json: unknown
  headers?: Record<string, string>
}

const BODY_BYTES = 1_000_000

export class FakeHost {
  readonly kind: FakeKind
  readonly token = 'host-token-canary-8d1f'
  readonly pulls = new Map<number, FakePull>()
  readonly statuses: FakeStatus[] = []
  readonly comments: FakeComment[] = []
  readonly calls: Called[] = []
  readonly refused: string[] = []
  /** Set: every call of the API is answered with it. */
  trouble: Reply | undefined
  /** Runs while a call of the API is under way: what happens between a look and what follows from it. */
  onCall: (called: Called) => void | Promise<void> = () => {}
  /** Set: what `git ls-remote` sees instead of the repository's own refs. */
  refs: Map<string, string> | undefined
  url = ''
  #server: Server | undefined
  #git: GitServer | undefined
  readonly #shape: Shape

  private constructor(kind: FakeKind) {
    this.kind = kind
    this.#shape = SHAPES[kind]
  }

  /** `root`: folder of repositories; acme/shop.git is the one that the API knows. */
  static async start(kind: FakeKind, root: string): Promise<FakeHost> {
    const host = new FakeHost(kind)
    host.#git = await startGitServer(root)
    const server = createServer((q, r) => {
      if (/\.git(?:\/|\?)/.test(q.url ?? '')) {
        if (host.refs) return advertise(host.refs, r)
        return host.#passOn(q, r)
      }
      void host.#answer(q).then(({ status, json, headers }) => {
        r.writeHead(status, { 'content-type': 'application/json', ...headers })
        r.end(JSON.stringify(json))
      })
    })
    host.#server = server
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    host.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    return host
  }

  get repoUrl(): string {
    return `${this.url}${this.#shape.repoPath}`
  }

  pull(over: Partial<FakePull> & { number: number }): FakePull {
    const made: FakePull = {
      title: `Change ${over.number}`,
      state: 'open',
      draft: false,
      headBranch: `feature-${over.number}`,
      headSha: String(over.number % 10).repeat(40),
      baseBranch: 'main',
      fromFork: false,
      updatedAt: Date.now(),
      ...over,
    }
    this.pulls.set(made.number, made)
    return made
  }

  async close(): Promise<void> {
    this.#server?.closeAllConnections()
    await new Promise((resolve) => this.#server?.close(resolve))
    await this.#git?.close()
  }

  #passOn(q: IncomingMessage, r: ServerResponse): void {
    const url = new URL((this.#git as GitServer).url + (q.url ?? '').replace(/^\/scm/, ''))
    const inner = request(url, { method: q.method, headers: q.headers }, (answer) => {
      r.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(r)
    })
    inner.on('error', () => r.destroy())
    q.pipe(inner)
  }

  async #answer(q: IncomingMessage): Promise<Reply> {
    const url = new URL(q.url ?? '/', this.url)
    const chunks: Buffer[] = []
    let bytes = 0
    for await (const chunk of q) {
      bytes += (chunk as Buffer).length
      if (bytes > BODY_BYTES) return { status: 413, json: {} }
      chunks.push(chunk as Buffer)
    }
    const text = Buffer.concat(chunks).toString('utf8')
    const called: Called = {
      method: q.method ?? '',
      path: url.pathname,
      query: url.searchParams,
      headers: q.headers,
      body: text === '' ? {} : (JSON.parse(text) as Record<string, unknown>),
    }
    this.calls.push(called)
    await this.onCall(called)
    if (this.trouble) return this.trouble
    if (!this.#shape.authorized(called.headers, this.token)) return { status: 401, json: {} }
    const reply = this.#shape.answer(this, called)
    if (reply) return reply
    this.refused.push(`${called.method} ${called.path}`)
    return { status: 404, json: { message: 'Not Found' } }
  }
}

/** The list of refs as git's smart protocol (version 0) writes it; enough for a look, nothing can be fetched. */
export function advertise(refs: Map<string, string>, r: ServerResponse): void {
  const line = (text: string): string => (text.length + 4).toString(16).padStart(4, '0') + text
  const main = refs.get('refs/heads/main')
  const all = [...(main ? [['HEAD', main] as const] : []), ...refs]
  const lines = all.map(([name, sha], i) =>
    line(`${sha} ${name}${i === 0 ? '\0symref=HEAD:refs/heads/main agent=fake' : ''}\n`),
  )
  r.setHeader('content-type', 'application/x-git-upload-pack-advertisement')
  r.end(`${line('# service=git-upload-pack\n')}0000${lines.join('')}0000`)
}

/** One page of a list, counted from 1. */
export const pageOf = <T>(items: T[], page: number, size: number): T[] =>
  items.slice((page - 1) * size, page * size)
