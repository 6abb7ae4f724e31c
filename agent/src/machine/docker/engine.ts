// Access to the Docker engine: one object per socket, each call with a deadline. Each failure is an EngineError whose
// message is only the reason; the caller makes the sentence. Answers are always read as streams, so a connection that
// breaks in the middle of an answer is an error.
import { Agent, type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import type { Duplex, Readable } from 'node:stream'
import { ENGINE } from '@berth/shared'
import type { AgentSettings } from '../../settings.ts'

/**
 * unavailable: no engine, no permission to use it, or a timeout. conflict: in use, or exists already. refused: every
 * other unwanted answer of the engine.
 */
export type EngineErrorKind =
  | 'unavailable'
  | 'not_found'
  | 'conflict'
  | 'disk_full'
  | 'canceled'
  | 'refused'

export class EngineError extends Error {
  override readonly name = 'EngineError'
  readonly kind: EngineErrorKind
  /** Of the engine's answer; undefined when there was none. */
  readonly status: number | undefined

  constructor(kind: EngineErrorKind, message: string, status?: number) {
    super(message)
    this.kind = kind
    this.status = status
  }
}

/** A socket and the connections to it. */
export interface Line {
  socketPath: string
  agent: Agent
}

export interface EngineRequest {
  method: 'GET' | 'POST' | 'DELETE' | 'HEAD'
  path: string
  query?: Record<string, string | number | boolean>
  body?: object
  /** Until the answer begins; for `ask`, until it ends. */
  timeoutMs?: number
  signal?: AbortSignal | undefined
}

export interface Engine {
  readonly socket: string
  /** The whole answer, parsed if it is JSON. */
  ask<T>(request: EngineRequest): Promise<T>
  /** The same without a deadline for the end; the signal aborts it. */
  askLong<T>(request: EngineRequest): Promise<T>
  /** A streamed answer; the signal ends it. Its errors are raw (see `toEngineError`). */
  open(request: EngineRequest): Promise<Readable>
  /** Connections for one build, which `close` cuts in any state. */
  lease(): Lease
}

export interface Lease {
  line: Line
  open: Engine['open']
  close: () => void
}

export const isNotFound = (error: unknown): boolean =>
  error instanceof EngineError && error.kind === 'not_found'

const DISK_FULL = /no space left on device|ENOSPC|disk quota exceeded/i
export const saysDiskFull = (text: string): boolean => DISK_FULL.test(text)

interface RawError extends Error {
  code?: string
  statusCode?: number
}

const cut = (text: string): string => {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  return line.length > ENGINE.reasonLength ? `${line.slice(0, ENGINE.reasonLength)}…` : line
}

/** Turns an error of Node or of an engine's stream into an EngineError; `signal` may have aborted the call. */
export function toEngineError(error: unknown, signal?: AbortSignal): EngineError {
  if (error instanceof EngineError) return error
  const raw = error as RawError
  if (signal?.aborted) return new EngineError('canceled', 'the call was canceled')
  const status = raw.statusCode
  const reason = cut(raw.message)
  if (saysDiskFull(reason)) return new EngineError('disk_full', reason, status)
  if (status === undefined) return new EngineError('unavailable', reason)
  if (status === 404) return new EngineError('not_found', reason, status)
  if (status === 409) return new EngineError('conflict', reason, status)
  return new EngineError('refused', reason, status)
}

const ACCEPTED = new Set([200, 201, 204, 304])

export function openEngine(settings: Pick<AgentSettings, 'dockerSocket'>): Engine {
  const socketPath = settings.dockerSocket
  // no keep-alive: a connection from before a restart of the engine would fail the next call
  const agent = new Agent({ keepAlive: false })
  const engine: Engine = {
    socket: socketPath,
    open: (request) => dial({ socketPath, agent }, request, AbortSignal.any(signalsOf(request))),
    async ask<T>(request: EngineRequest) {
      const timeoutMs = request.timeoutMs ?? ENGINE.callMs
      const deadline = AbortSignal.timeout(timeoutMs)
      const signal = AbortSignal.any([deadline, ...signalsOf(request)])
      try {
        const answer = await dial({ socketPath, agent }, { ...request, timeoutMs }, signal)
        return parse(await readAll(answer)) as T
      } catch (error) {
        if (deadline.aborted && !request.signal?.aborted) throw noAnswer(request, timeoutMs)
        throw toEngineError(error, request.signal)
      }
    },
    async askLong<T>(request: EngineRequest) {
      try {
        return parse(await readAll(await engine.open(request))) as T
      } catch (error) {
        throw toEngineError(error, request.signal)
      }
    },
    lease: () => lease(socketPath),
  }
  return engine
}

const signalsOf = ({ signal }: EngineRequest): AbortSignal[] => (signal ? [signal] : [])

const noAnswer = ({ method, path }: EngineRequest, ms: number): EngineError =>
  new EngineError('unavailable', `no answer to ${method} ${path} in ${ms / 1_000} s`)

/** Resolves when the answer begins. `signal` then destroys its stream. */
function dial(line: Line, request: EngineRequest, signal: AbortSignal): Promise<Readable> {
  const timeoutMs = request.timeoutMs ?? ENGINE.callMs
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => settle(noAnswer(request, timeoutMs)), timeoutMs)
    const onAbort = () => settle(new Error('aborted'))
    let isSettled = false
    let asked: ClientRequest | undefined
    const settle = (error: unknown, answer?: Readable) => {
      if (isSettled) return void answer?.on('error', () => {}).destroy()
      isSettled = true
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      if (answer) return resolve(endWith(answer, signal))
      asked?.destroy()
      reject(toEngineError(error, request.signal))
    }
    if (signal.aborted) return onAbort()
    signal.addEventListener('abort', onAbort)
    asked = ask(line, request)
    asked.on('error', settle)
    asked.on('response', (answer) => {
      if (ACCEPTED.has(answer.statusCode ?? 0)) settle(undefined, answer)
      else readRefusal(answer).then(settle, settle)
    })
  })
}

function ask(line: Line, { method, path, query, body }: EngineRequest): ClientRequest {
  const words = new URLSearchParams()
  for (const [name, value] of Object.entries(query ?? {})) words.set(name, String(value))
  const text = body === undefined ? undefined : JSON.stringify(body)
  const length = { 'content-length': String(Buffer.byteLength(text ?? '')) }
  const asked = httpRequest({
    ...line,
    method,
    path: words.size > 0 ? `${path}?${words}` : path,
    headers: {
      host: 'docker',
      ...(method === 'POST' ? length : {}),
      ...(text === undefined ? {} : { 'content-type': 'application/json' }),
    },
  })
  asked.end(text)
  return asked
}

/** The engine's own error message. */
export async function readRefusal(answer: IncomingMessage): Promise<RawError> {
  const text = await readAll(answer)
  let message = text
  try {
    const said = JSON.parse(text) as { message?: unknown; error?: unknown }
    message = String(said.message ?? said.error ?? text)
  } catch {
    // not the answer of an engine
  }
  const error: RawError = new Error(message.trim() || `status ${answer.statusCode}`)
  return Object.assign(error, { statusCode: answer.statusCode ?? 0 })
}

/** Needed because aborting a request does not end an answer that has begun. */
function endWith(answer: Readable, signal: AbortSignal): Readable {
  const onAbort = () => void answer.destroy(new Error('aborted'))
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort)
  answer.once('close', () => signal.removeEventListener('abort', onAbort))
  return answer
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

function parse(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return text
  try {
    return JSON.parse(text)
  } catch {
    throw new EngineError('refused', `its answer is not JSON: ${cut(text.slice(0, 200))}`)
  }
}

/** A build has a second connection, its session; the caller closes both, however the build ended. */
function lease(socketPath: string): Lease {
  const sockets = new Set<Duplex>()
  const agent = new Agent({ keepAlive: false })
  const connect = agent.createConnection.bind(agent)
  agent.createConnection = (options, callback) => {
    const socket = connect(options, callback)
    if (socket) sockets.add(socket.once('close', () => sockets.delete(socket)))
    return socket
  }
  const close = () => {
    for (const socket of sockets) socket.on('error', () => {}).destroy()
  }
  const line = { socketPath, agent }
  const open: Engine['open'] = (request) => dial(line, request, AbortSignal.any(signalsOf(request)))
  return { line, open, close }
}

export interface EngineFacts {
  version: string
  api: string
  /** 1 or 2. */
  cgroup: string
  storage: string
  dataRoot: string
}

const askVersion = (engine: Engine, timeoutMs: number = ENGINE.callMs) =>
  engine.ask<{ Version: string; ApiVersion: string }>({
    method: 'GET',
    path: '/version',
    timeoutMs,
  })

/** Returns `known` if the engine is still the same, which is much cheaper to check. */
export async function engineFactsAgain(engine: Engine, known: EngineFacts): Promise<EngineFacts> {
  const { Version, ApiVersion } = await askVersion(engine)
  const isSame = Version === known.version && ApiVersion === known.api
  return isSame ? known : engineFacts(engine)
}

export async function engineFacts(
  engine: Engine,
  timeoutMs: number = ENGINE.callMs,
): Promise<EngineFacts> {
  const [version, info] = await Promise.all([
    askVersion(engine, timeoutMs),
    engine.ask<{ CgroupVersion?: string; Driver?: string; DockerRootDir?: string }>({
      method: 'GET',
      path: '/info',
      timeoutMs,
    }),
  ])
  return {
    version: version.Version,
    api: version.ApiVersion,
    cgroup: info.CgroupVersion ?? '1',
    storage: info.Driver ?? '',
    dataRoot: info.DockerRootDir ?? '/var/lib/docker',
  }
}

/** Whether the engine answers. */
export const isEngineUp = (engine: Engine, timeoutMs: number): Promise<boolean> =>
  engine.ask({ method: 'GET', path: '/_ping', timeoutMs }).then(
    () => true,
    () => false,
  )
