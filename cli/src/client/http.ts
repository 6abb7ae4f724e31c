// One request with its retries. Invariants: the token is sent only to addresses below the base URL, redirects included;
// a request is retried only when it is a read or carries an idempotency key; every wait has a limit. api.ts interprets
// the answers.
import { Readable } from 'node:stream'
import { VERSION } from '@berth/shared/version'
import { CLIENT } from '../limits/client.ts'
import { CliError, EXIT, interrupted } from '../terminal/exit.ts'
import type { Io } from '../terminal/io.ts'
import { ApiFailure, noAnswer, parseRetryAfter } from './problem.ts'
import { exchange, type Reply, type ReplyHeaders } from './transport.ts'

export type Query = Record<string, string | number | readonly string[] | undefined>

export interface RequestOptions {
  query?: Query | undefined
  body?: unknown
  /** Sent as application/x-www-form-urlencoded in place of a JSON body. */
  form?: Record<string, string>
  headers?: Record<string, string>
  /** Makes a POST or PATCH safe to retry. One per invocation, the same for every try. */
  idempotencyKey?: string
  /** Where to read what was made if its answer was lost: `/api/tasks`. */
  madeAt?: string
  retries?: number
  timeoutMs?: number
}

export interface Answer {
  status: number
  headers: ReplyHeaders
  text: string
}

export type ClientName = 'cli' | 'mcp'

export interface Connection {
  baseUrl: string
  /** null: for the few requests that need none. */
  token: string | null
  organizationId: number | null
  io: Io
  debug: boolean
  /** The client's name; the control plane shows it as the trigger of a task. */
  client?: ClientName
  /** Returns a new token in place of an expired one; undefined: there is none. */
  renew?: ((expired: string) => Promise<string | undefined>) | undefined
}

/** Statuses after which a retry may succeed. */
export const REPEATABLE_STATUS: readonly number[] = [429, 502, 503, 504]
const REDIRECTS = [301, 302, 303, 307, 308]

const isBelow = (url: URL, baseUrl: string): boolean =>
  `${url.origin}${url.pathname}`.startsWith(`${baseUrl}/`) && !url.username && !url.password

/** The absolute address below the base URL; refuses any other address. */
export function addressBelow(baseUrl: string, path: string, query: Query = {}): URL {
  const url = new URL(path.startsWith('/') ? baseUrl + path : path)
  if (!isBelow(url, baseUrl)) {
    const where = `${url.origin}${url.pathname}`
    throw new CliError(EXIT.error, `${where} is not below ${baseUrl}; the token is not sent there`)
  }
  for (const [key, value] of Object.entries(query)) {
    if (value === undefined) continue
    for (const one of Array.isArray(value) ? value : [value]) {
      url.searchParams.append(key, String(one))
    }
  }
  return url
}

function headersFor(connection: Connection, options: RequestOptions): Record<string, string> {
  const { token, organizationId } = connection
  return {
    accept: 'application/json',
    'berth-client': `${connection.client ?? 'cli'}/${VERSION}`,
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    ...(organizationId === null ? {} : { 'x-service-organization': String(organizationId) }),
    ...(options.body === undefined ? {} : { 'content-type': 'application/json' }),
    ...(options.form ? { 'content-type': 'application/x-www-form-urlencoded' } : {}),
    ...(options.idempotencyKey ? { 'idempotency-key': options.idempotencyKey } : {}),
    ...options.headers,
  }
}

function bodyOf({ body, form }: RequestOptions): string | undefined {
  if (form) return new URLSearchParams(form).toString()
  return body === undefined ? undefined : JSON.stringify(body)
}

async function followRedirects(
  connection: Connection,
  method: string,
  address: URL,
  options: RequestOptions,
  signal: AbortSignal,
): Promise<Reply> {
  const { baseUrl } = connection
  let at = address
  for (let hop = 0; ; hop++) {
    const headers = headersFor(connection, options)
    const response = await exchange(at, { method, headers, body: bodyOf(options), signal })
    const location = response.headers.get('location')
    if (!REDIRECTS.includes(response.status) || location === null) return response
    response.cancel()
    const target = new URL(location, at)
    if (method !== 'GET' || hop >= CLIENT.redirects || !isBelow(target, baseUrl)) {
      const where = `${target.origin}${target.pathname}`
      throw new ApiFailure(
        'refused',
        EXIT.error,
        `${baseUrl} redirects ${method} ${at.pathname} to ${where}; this is not followed`,
        { status: response.status, hint: 'log in with the final address: berth login --url …' },
      )
    }
    at = target
  }
}

async function writeDebug(connection: Connection, line: string): Promise<void> {
  if (connection.debug) await connection.io.stderr.write(`api: ${line.trimEnd()}\n`)
}

/**
 * One try, and a second one with a new token if the first was refused because its token expired. The refused one
 * changed nothing, so this is safe for every method.
 */
export async function send<T>(
  connection: Connection,
  method: string,
  path: string,
  options: RequestOptions,
  use: (response: Reply) => Promise<T>,
): Promise<T> {
  const { token, renew } = connection
  if (token === null || !renew) return sendOnce(connection, method, path, options, use)
  const expired = Symbol('expired')
  const first = await sendOnce(connection, method, path, options, async (response) => {
    if (response.status !== 401) return use(response)
    const text = await readText(response)
    if (text.includes('"token_expired"')) return expired
    return use({ ...response, body: Readable.from([Buffer.from(text)]) })
  })
  if (first !== expired) return first as T
  const fresh = await renew(token)
  if (fresh !== undefined) connection.token = fresh
  return sendOnce(connection, method, path, options, use)
}

/** `use` reads the body within the timeout, or takes it over. */
async function sendOnce<T>(
  connection: Connection,
  method: string,
  path: string,
  options: RequestOptions,
  use: (response: Reply) => Promise<T>,
): Promise<T> {
  const { io, baseUrl } = connection
  const address = addressBelow(baseUrl, path, options.query)
  if (io.interrupted.aborted) throw interrupted()
  const stop = new AbortController()
  const abort = () => stop.abort()
  let timedOut = false
  const timer = setTimeout(() => {
    timedOut = true
    stop.abort()
  }, options.timeoutMs ?? CLIENT.requestMs)
  io.interrupted.addEventListener('abort', abort, { once: true })
  const startedAt = io.now()
  const line = `${method} ${address.pathname}`
  try {
    const response = await followRedirects(connection, method, address, options, stop.signal)
    const result = await use(response)
    const id = response.headers.get('x-request-id') ?? ''
    await writeDebug(connection, `${line} ${response.status} ${io.now() - startedAt} ms ${id}`)
    return result
  } catch (error) {
    if (io.interrupted.aborted) throw interrupted()
    const failure = error instanceof CliError ? error : noAnswer(error, baseUrl, timedOut)
    await writeDebug(connection, `${line} failed: ${failure.message}`)
    throw failure
  } finally {
    clearTimeout(timer)
    io.interrupted.removeEventListener('abort', abort)
  }
}

export async function readText(response: Reply): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of response.body) {
    bytes += chunk.length
    if (bytes > CLIENT.answerBytes) {
      throw new ApiFailure('nonsense', EXIT.error, 'the answer of the server is too large')
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

const readAnswer = async (response: Reply): Promise<Answer> => ({
  status: response.status,
  headers: response.headers,
  text: await readText(response),
})

/** An earlier request with the same key that still runs is waited for like a busy server. */
const isBusy = (answer: Answer): boolean =>
  REPEATABLE_STATUS.includes(answer.status) ||
  (answer.status === 409 && answer.text.includes('"idempotency_in_flight"'))

/** Returns any status; the caller handles error statuses. Retries what may be retried. */
export async function ask(
  connection: Connection,
  method: string,
  path: string,
  options: RequestOptions,
): Promise<Answer> {
  const { io } = connection
  const isSafe = method === 'GET' || method === 'HEAD' || options.idempotencyKey !== undefined
  const tries = 1 + (isSafe ? (options.retries ?? CLIENT.retries) : 0)
  for (let attempt = 1; ; attempt++) {
    let delayMs = CLIENT.retryMs * 2 ** (attempt - 1) * (0.5 + Math.random())
    try {
      const answer = await send(connection, method, path, options, readAnswer)
      if (attempt >= tries || !isBusy(answer)) return answer
      delayMs = Math.max(delayMs, parseRetryAfter(answer.headers.get('retry-after'), io.now()) ?? 0)
      if (delayMs > CLIENT.retryAfterMs) return answer
    } catch (error) {
      const mayRepeat = error instanceof ApiFailure && error.kind === 'no_answer'
      if (!mayRepeat || attempt >= tries) throw error
    }
    await io.sleep(delayMs)
  }
}
