// One exchange with node:http or node:https. Avoids `fetch`, because loading it takes longer than the first answer.
// Node's own agent keeps connections for later requests, and exit never waits for them. Invariants: follows no
// redirects; throws on a truncated answer, with the failure as the cause. The caller must read or cancel every answer.
import type { IncomingMessage, RequestOptions } from 'node:http'
import { CLIENT } from '../limits/client.ts'

/** Like `Headers`, without the cost of loading it. */
export interface ReplyHeaders extends Iterable<[string, string]> {
  get(name: string): string | null
}

export interface Reply {
  status: number
  headers: ReplyHeaders
  /** Can be read once. */
  body: AsyncIterable<Uint8Array>
  cancel(): void
}

interface Exchange {
  method: string
  headers: Record<string, string>
  body?: string | undefined
  /** Valid until the answer is read. */
  signal: AbortSignal
}

function headersOf(message: IncomingMessage): ReplyHeaders {
  const { headersDistinct } = message
  const joined = Object.entries(headersDistinct).map(([name, values = []]): [string, string] => [
    name,
    values.join(', '),
  ])
  const found = new Map(joined.toSorted(([a], [b]) => (a < b ? -1 : 1)))
  return {
    get: (name) => found.get(name.toLowerCase()) ?? null,
    [Symbol.iterator]: () => found[Symbol.iterator](),
  }
}

const failed = (cause: unknown): Error => new Error('the request failed', { cause })

/** Gives it a distinct code, because Node also calls an end without an answer a reset. */
function nameEnd(error: NodeJS.ErrnoException): NodeJS.ErrnoException {
  if (error.code === 'ECONNRESET' && error.syscall === undefined) error.code = 'CLOSED'
  return error
}

/** These have headers but no body, even if the headers announce a compressed one. */
const hasBody = ({ statusCode = 0 }: IncomingMessage, method: string): boolean =>
  method !== 'HEAD' && statusCode !== 204 && statusCode !== 304

/** Decompresses what a proxy in front compressed. */
async function unpack(
  message: IncomingMessage,
  method: string,
): Promise<AsyncIterable<Uint8Array>> {
  const isPacked = message.headers['content-encoding']?.toLowerCase() === 'gzip'
  if (!isPacked || !hasBody(message, method)) return message
  const { createGunzip } = await import('node:zlib')
  const { pipeline } = await import('node:stream')
  return pipeline(message, createGunzip(), () => {})
}

async function* bodyOf(message: IncomingMessage, method: string): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of await unpack(message, method)) yield chunk
  } catch (error) {
    throw failed(nameEnd(error as NodeJS.ErrnoException))
  }
}

function replyOf(message: IncomingMessage, method: string): Reply {
  message.on('error', () => {}) // reported to the reader
  message.setTimeout(CLIENT.silenceMs, () => message.destroy(silence('ETIMEDOUT')))
  return {
    status: message.statusCode ?? 0,
    headers: headersOf(message),
    body: bodyOf(message, method),
    cancel: () => void message.destroy(),
  }
}

const silence = (code: string): Error => Object.assign(new Error('no answer in time'), { code })

export async function exchange(at: URL, { body, headers, ...o }: Exchange): Promise<Reply> {
  const isSecure = at.protocol === 'https:'
  const { request } = isSecure ? await import('node:https') : await import('node:http')
  const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
  const options: RequestOptions = {
    ...o,
    headers: { 'accept-encoding': 'gzip', 'user-agent': 'node', ...headers, ...length },
  }
  return new Promise((resolve, reject) => {
    const asked = request(at, options, (message) => resolve(replyOf(message, o.method)))
    asked.on('error', (error) => reject(failed(nameEnd(error))))
    asked.on('socket', (socket) => {
      if (!socket.connecting) return
      const late = setTimeout(() => asked.destroy(silence('NOT_CONNECTED')), CLIENT.connectMs)
      const done = (): void => clearTimeout(late)
      socket.once(isSecure ? 'secureConnect' : 'connect', done).once('close', done)
    })
    asked.end(body)
  })
}
