// Sends one outbound HTTP request, only to addresses that the guard has checked. Each request opens its own connection,
// so no name is resolved again. No redirects; bounded time and answer. Errors carry no header and no body, so they
// cannot leak a token.
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { LookupFunction } from 'node:net'
import { FORGE_API, VERSION } from '@berth/shared'
import type { Address, Guard } from './addresses.ts'

export interface OutgoingRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  url: URL
  headers?: Record<string, string>
  /** Sent as JSON; a Buffer is JSON already. */
  body?: unknown
  signal?: AbortSignal
  /** Default: as for the API of a forge. */
  timeoutMs?: number
  /** The status is what counts: reads so much of the answer and waits for no more of it. */
  firstBytes?: number
}

export interface Received {
  status: number
  headers: IncomingMessage['headers']
  text: string
}

type RequestTrouble = 'timeout' | 'unreachable' | 'redirected' | 'too_large' | 'not_allowed'

/** There was no usable answer. */
export class RequestError extends Error {
  override readonly name = 'RequestError'
  readonly trouble: RequestTrouble
  constructor(trouble: RequestTrouble, message: string) {
    super(message)
    this.trouble = trouble
  }
}

/** Answers every lookup with the checked addresses. */
const pinnedLookup =
  (addresses: Address[]): LookupFunction =>
  (_host, options, done) => {
    const [first] = addresses
    if (options.all) done(null, addresses)
    else done(null, first?.address ?? '', first?.family ?? 4)
  }

export async function sendRequest(guard: Guard, asked: OutgoingRequest): Promise<Received> {
  const { url } = asked
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new RequestError('not_allowed', `${url.protocol} is not spoken here.`)
  }
  const addresses = await guard.check(url.hostname)
  const isLoopback = addresses.every((a) => a.address === '127.0.0.1' || a.address === '::1')
  if (url.protocol === 'http:' && !isLoopback) {
    throw new RequestError('not_allowed', `${url.hostname} is asked over https only.`)
  }
  return perform(asked, addresses)
}

function perform(asked: OutgoingRequest, addresses: Address[]): Promise<Received> {
  const { url, method } = asked
  const { promise, resolve, reject } = Promise.withResolvers<Received>()
  const fail = (trouble: RequestTrouble, why: string): void => {
    reject(new RequestError(trouble, `${url.host} ${why}`))
    request.destroy()
  }
  const { timeoutMs = FORGE_API.timeoutMs, firstBytes } = asked
  const json = asked.body instanceof Buffer ? asked.body : JSON.stringify(asked.body)
  const body = json === undefined ? undefined : Buffer.from(json)
  const send = url.protocol === 'https:' ? requestHttps : requestHttp
  const request = send(url, {
    method,
    agent: false,
    lookup: pinnedLookup(addresses),
    headers: {
      'user-agent': `berth/${VERSION}`,
      accept: 'application/json',
      ...(body ? { 'content-type': 'application/json', 'content-length': body.length } : {}),
      ...asked.headers,
    },
  })
  /** Set when the status is known and is all that the caller needs. */
  let finishEarly: (() => void) | undefined
  const breakOff = (trouble: RequestTrouble, why: string): void => {
    finishEarly?.()
    fail(trouble, why)
  }
  const timer = setTimeout(
    () => breakOff('timeout', `did not answer in ${timeoutMs / 1_000} s.`),
    timeoutMs,
  )
  const onAbort = (): void => fail('unreachable', 'was not asked: the control plane stops.')
  asked.signal?.addEventListener('abort', onAbort, { once: true })
  if (asked.signal?.aborted) onAbort()
  request.on('error', (error: NodeJS.ErrnoException) =>
    breakOff('unreachable', `cannot be reached (${error.code ?? 'connection failed'}).`),
  )
  request.on('response', (response) => {
    const status = response.statusCode ?? 0
    if (status >= 300 && status < 400 && status !== 304) {
      fail('redirected', 'redirects to another address, which is not followed.')
      return
    }
    const chunks: Buffer[] = []
    let bytes = 0
    const finish = (): void =>
      resolve({ status, headers: response.headers, text: Buffer.concat(chunks).toString('utf8') })
    if (firstBytes !== undefined) finishEarly = finish
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (firstBytes !== undefined && bytes >= firstBytes) {
        chunks.push(chunk.subarray(0, chunk.length - (bytes - firstBytes)))
        finish()
        request.destroy()
      } else if (bytes > FORGE_API.answerBytes)
        fail('too_large', 'sent an answer that is too large.')
      else chunks.push(chunk)
    })
    response.on('error', () => breakOff('unreachable', 'broke off its answer.'))
    response.on('aborted', () => breakOff('unreachable', 'broke off its answer.'))
    response.on('end', finish)
  })
  request.end(body)
  return promise.finally(() => {
    clearTimeout(timer)
    asked.signal?.removeEventListener('abort', onAbort)
  })
}
