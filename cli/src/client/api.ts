// The client's side of the REST contract. Every answer is checked against the shared schemas; success requires a
// matching status and body. Addresses inside answers are never followed directly: only their path is used, below the
// base URL that the token belongs to.

import { VERSION } from '@berth/shared/version'
import type { z } from 'zod'
import { CLIENT } from '../limits/client.ts'
import { EXIT } from '../terminal/exit.ts'
import {
  type Answer,
  ask,
  type Connection,
  type Query,
  type RequestOptions,
  readText,
  send,
} from './http.ts'
import { ApiFailure, refusal } from './problem.ts'
import type { Reply, ReplyHeaders } from './transport.ts'

export interface Read<T> {
  value: T
  /** The body as received, including fields that this client does not know. */
  raw: unknown
  headers: ReplyHeaders
}

interface Rows<T> {
  items: T[]
  raw: unknown[]
  headers: ReplyHeaders
}

export interface Api {
  readonly baseUrl: string
  ask(method: string, path: string, options?: RequestOptions): Promise<Answer>
  get<T>(path: string, schema: z.ZodType<T>, options?: RequestOptions): Promise<Read<T>>
  /** null: unchanged since `etag`. */
  getIfChanged<T>(
    path: string,
    schema: z.ZodType<T>,
    etag: string | null,
    options?: RequestOptions,
  ): Promise<Read<T> | null>
  post<T>(
    path: string,
    schema: z.ZodType<T>,
    options: RequestOptions & { expect: number },
  ): Promise<Read<T>>
  /** PATCH or DELETE; a PATCH carries an idempotency key, a DELETE is safe to retry. */
  change<T>(
    method: 'PATCH' | 'PUT' | 'DELETE',
    path: string,
    schema: z.ZodType<T>,
    options: RequestOptions & { expect: number },
  ): Promise<Read<T>>
  /** Follows `Link: rel="next"` until `limit` rows are read. */
  list<T>(path: string, schema: z.ZodType<T>, options?: ListOptions): Promise<Rows<T>>
  /** The body as it arrives; only the headers have a timeout. The caller retries. */
  stream(path: string, options?: RequestOptions): Promise<Reply>
  /** What an error status means. */
  explain(method: string, path: string, answer: Answer): ApiFailure
}

type ListOptions = RequestOptions & { limit?: number }

/** The target of rel="next", as a path of the API; null on the last page. */
export function nextPage(link: string | null): string | null {
  for (const part of (link ?? '').split(/,(?=\s*<)/)) {
    const match = /^\s*<([^>]*)>(.*)$/s.exec(part)
    if (match?.[1] === undefined || !/;\s*rel="?next"?/i.test(match[2] ?? '')) continue
    const path = /\/api\/.*$/s.exec(match[1])?.[0]
    if (path !== undefined) return path
  }
  return null
}

export function parseAnswer<T>(answer: Answer, what: string, schema: z.ZodType<T>): Read<T> {
  let raw: unknown
  try {
    raw = JSON.parse(answer.text)
  } catch {
    throw new ApiFailure('nonsense', EXIT.error, `the answer to ${what} is not JSON`, {
      hint: 'is this the address of a Berth server?',
    })
  }
  const parsed = schema.safeParse(raw)
  if (parsed.success) return { value: parsed.data, raw, headers: answer.headers }
  const [issue] = parsed.error.issues
  const where = issue && issue.path.length > 0 ? issue.path.join('.') : 'the whole'
  const server = answer.headers.get('berth-version') ?? '?'
  throw new ApiFailure('nonsense', EXIT.error, `the answer to ${what} is not what it should be`, {
    hint: `at ${where}: ${issue?.message}; client v${VERSION}, server v${server}`,
  })
}

/** "1.13.2" is older than "1.15.0"; anything unreadable is not. */
export function isOlder(server: string | null, client = VERSION): boolean {
  const [major = 0, minor = 0] = client.split('.').map(Number)
  const [serverMajor = major, serverMinor = minor] = (server ?? client).split('.').map(Number)
  return serverMajor < major || (serverMajor === major && serverMinor < minor)
}

function explain(connection: Connection, method: string, path: string, answer: Answer): ApiFailure {
  const { baseUrl, io } = connection
  const failure = refusal({ baseUrl, method, path, now: io.now(), ...answer })
  const server = answer.headers.get('berth-version')
  if (failure.status !== 404 || failure.hint || !isOlder(server)) return failure
  return new ApiFailure(failure.kind, failure.exitCode, failure.message, {
    status: 404,
    details: { ...failure.details },
    hint: `this server is v${server}, this client v${VERSION}: it may not know this command yet`,
  })
}

async function read<T>(
  connection: Connection,
  method: string,
  path: string,
  schema: z.ZodType<T>,
  options: RequestOptions & { expect: number },
): Promise<Read<T>> {
  const answer = await ask(connection, method, path, options)
  const made = await readMade(connection, answer, options)
  if (made) return parseAnswer(made, `${method} ${path}`, schema)
  if (answer.status >= 400) throw explain(connection, method, path, answer)
  if (answer.status !== options.expect) {
    const { status } = answer
    const message = `${method} ${path} was answered with ${status} instead of ${options.expect}`
    throw new ApiFailure('nonsense', EXIT.error, message, { status })
  }
  return parseAnswer(answer, `${method} ${path}`, schema)
}

/** An earlier try had its effect, and its answer was lost: reads what it made. */
async function readMade(
  connection: Connection,
  { status, text }: Answer,
  { madeAt }: RequestOptions,
): Promise<Answer | undefined> {
  if (madeAt === undefined || status !== 409) return undefined
  if (!text.includes('"idempotency_not_replayable"')) return undefined
  const { id } = JSON.parse(text) as { id?: unknown }
  if (typeof id !== 'number') return undefined
  const answer = await ask(connection, 'GET', `${madeAt}/${id}`, {})
  return answer.status === 200 ? answer : undefined
}

async function list<T>(
  connection: Connection,
  path: string,
  schema: z.ZodType<T>,
  { limit = Number.POSITIVE_INFINITY, ...options }: ListOptions,
): Promise<Rows<T>> {
  const rows = schema.array()
  const first = await read(connection, 'GET', path, rows, { ...options, expect: 200 })
  const items = first.value
  const raw = first.raw as unknown[]
  let next = nextPage(first.headers.get('link'))
  for (let page = 1; next !== null && items.length < limit; page++) {
    if (page >= CLIENT.pages) {
      throw new ApiFailure('nonsense', EXIT.error, `${path} has more than ${page} pages`)
    }
    const more = await read(connection, 'GET', next, rows, { expect: 200 })
    items.push(...more.value)
    raw.push(...(more.raw as unknown[]))
    next = nextPage(more.headers.get('link'))
  }
  return { items: items.slice(0, limit), raw: raw.slice(0, limit), headers: first.headers }
}

/** Deletes a resource and expects an empty answer. A retry is safe, but answers 404 if the first try removed it. */
export async function removeAt(api: Api, path: string, query: Query = {}): Promise<void> {
  const answer = await api.ask('DELETE', path, { query })
  if (answer.status >= 400) throw api.explain('DELETE', path, answer)
  if (answer.status === 204) return
  const message = `DELETE ${path} was answered with ${answer.status} instead of 204`
  throw new ApiFailure('nonsense', EXIT.error, message, { status: answer.status })
}

export function createApi(connection: Connection): Api {
  return {
    baseUrl: connection.baseUrl,
    ask: (method, path, options = {}) => ask(connection, method, path, options),
    get: (path, schema, options = {}) =>
      read(connection, 'GET', path, schema, { ...options, expect: 200 }),
    async getIfChanged(path, schema, etag, options = {}) {
      const headers = { ...options.headers, ...(etag ? { 'if-none-match': etag } : {}) }
      const answer = await ask(connection, 'GET', path, { ...options, headers })
      if (answer.status === 304 && etag) return null
      if (answer.status >= 400) throw explain(connection, 'GET', path, answer)
      return parseAnswer(answer, `GET ${path}`, schema)
    },
    post: (path, schema, options) => read(connection, 'POST', path, schema, options),
    change: (method, path, schema, options) => read(connection, method, path, schema, options),
    list: (path, schema, options = {}) => list(connection, path, schema, options),
    stream: (path, options = {}) =>
      send(connection, 'GET', path, options, async (response) => {
        if (response.status < 400) return response
        const { status, headers } = response
        const text = await readText(response)
        throw explain(connection, 'GET', path, { status, headers, text })
      }),
    explain: (method, path, answer) => explain(connection, method, path, answer),
  }
}
