// dockerode as the client of the engine, with what it lacks: each call has a deadline, an answer is bounded, and one that
// breaks off is an error. For that, the modem hands over every answer as a stream, refusals included, and this file
// reads it. Import it with `import()`: many processes of the agent never talk to an engine.
import { Agent, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { addAbortSignal, type Readable } from 'node:stream'
import { inspect } from 'node:util'
import Modem from 'docker-modem'
import Docker from 'dockerode'
import { ENGINE } from '../../limits/docker.ts'
import { EngineError, toEngineError, toReason, toRefusal } from './engine-error.ts'

export interface CallOptions {
  /** Until the answer begins; for an answer that is no stream, until it ends. */
  timeoutMs?: number
  /** Only until the answer begins, for every answer. */
  isLong?: boolean
  /** Ends the call, its stream, and a connection that was taken over. */
  signal?: AbortSignal | undefined
}

/** Every failure of the client's calls is an EngineError; errors of their streams are raw (see `toEngineError`). */
export function createClient(socketPath: string, call: CallOptions): Docker {
  const modem = openModem(socketPath)
  const dial: Modem['dial'] = (options, callback) => {
    perform(modem, options, call).then(
      (answer) => callback?.(null, answer),
      (error) => callback?.(error, null),
    )
  }
  const options: Docker.DockerOptions & { modem: Modem } = {
    modem: Object.assign(Object.create(modem), { dial }),
  }
  return new Docker(options)
}

/** No keep-alive: a connection from before a restart of the engine would fail the next call. */
class ShortAgent extends Agent {
  /** The modem describes each request for a log that is off; an agent with all its sockets takes a millisecond. */
  [inspect.custom](): string {
    return 'Agent'
  }
}
const agent = new ShortAgent({ keepAlive: false })

/** The part of a modem that its types hide. */
interface Requests {
  buildRequest(options: object, ...rest: unknown[]): void
}
const { buildRequest } = Modem.prototype as unknown as Requests

/** Made without its constructor, which prefers DOCKER_HOST of the environment, with certificates, to our socket. */
const openModem = (socketPath: string): Modem =>
  Object.assign(Object.create(Modem.prototype), {
    socketPath,
    protocol: 'http',
    agent,
    /** A modem would follow a redirect to any host, with a request whose failure ends the process. */
    buildRequest(this: Modem, options: object, ...rest: unknown[]) {
      buildRequest.call(this, { ...options, maxRedirects: 0 }, ...rest)
    },
  })

const ACCEPTED = new Set([200, 201, 204, 304])
const EVERY_STATUS = new Proxy({}, { get: () => true })

async function perform(
  modem: Modem,
  options: Modem.DialOptions,
  { timeoutMs = ENGINE.callMs, isLong = false, signal }: CallOptions,
): Promise<object> {
  const deadline = new AbortController()
  const timer = setTimeout(() => deadline.abort(), timeoutMs)
  const signals = [deadline.signal, ...(signal ? [signal] : [])]
  try {
    const answer = await begin(modem, options, AbortSignal.any(signals))
    if (!(answer instanceof IncomingMessage)) return takeOver(answer, signal)
    const { statusCode = 0 } = answer
    if (options.hijack || !ACCEPTED.has(statusCode))
      throw readRefusal(await readAll(answer), statusCode)
    if (options.isStream) return answer
    if (isLong) clearTimeout(timer)
    return parse(await readAll(answer))
  } catch (error) {
    if (deadline.signal.aborted && !signal?.aborted) throw noAnswer(options, timeoutMs)
    throw toEngineError(error, signal)
  } finally {
    clearTimeout(timer)
  }
}

const noAnswer = ({ method, path }: Modem.DialOptions, ms: number): EngineError =>
  new EngineError(
    'unavailable',
    `no answer to ${method} ${path.replace(/\?$/, '')} in ${ms / 1_000} s`,
  )

/** dockerode would repeat the body of these calls in the address, which has a bound and is no place for variables. */
const CREATES = /^\/(?:containers|networks|volumes)\/create\?$/
function splitOptions({ path, options }: Modem.DialOptions): Modem.DialOptions['options'] {
  if (!options || !CREATES.test(path)) return options
  const { name, ...body } = options
  return { _query: name === undefined ? {} : { name }, _body: body }
}

function begin(
  modem: Modem,
  options: Modem.DialOptions,
  abortSignal: AbortSignal,
): Promise<IncomingMessage | Socket> {
  abortSignal.throwIfAborted()
  const all = {
    ...options,
    options: splitOptions(options),
    isStream: true,
    statusCodes: EVERY_STATUS,
    abortSignal,
  }
  return new Promise((resolve, reject) => {
    modem.dial(all, (error, answer) => {
      if (!error) return resolve(answer as IncomingMessage | Socket)
      const isRedirect = error.message.startsWith('Max redirects')
      reject(isRedirect ? new EngineError('refused', 'its answer is a redirect') : error)
    })
  })
}

/** The signal of a request does not reach the connection after that. */
function takeOver(socket: Socket, signal: AbortSignal | undefined): Socket {
  socket.on('error', () => {}) // the reader sees the stream end
  return signal ? addAbortSignal(signal, socket) : socket
}

async function readAll(answer: Readable): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > ENGINE.answerBytes) throw new EngineError('refused', 'its answer is too large')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** The engine's own message, or the text of a program that is no engine. */
function readRefusal(text: string, status: number): EngineError {
  let message = text
  try {
    const said = JSON.parse(text) as { message?: unknown; error?: unknown }
    message = String(said.message ?? said.error ?? text)
  } catch {
    // not JSON
  }
  return toRefusal(message.trim() || `status ${status}`, status)
}

function parse(text: string): object {
  if (!/^\s*[[{]/.test(text)) return Buffer.from(text)
  try {
    return JSON.parse(text)
  } catch {
    throw new EngineError('refused', `its answer is not JSON: ${toReason(text.slice(0, 200))}`)
  }
}
