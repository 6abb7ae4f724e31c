// Sends requests to live agents. They are limited in number and time, and each ends exactly once: with its answer, the
// session, the caller or the deadline. The caller interprets the answer.
import { randomUUID } from 'node:crypto'
import { AppError, DAEMON } from '@berth/shared'
import {
  type Request,
  RequestErrorCode,
  RequestSchema,
  type Response,
  type ServerMessage,
} from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import type { Db } from '../store/engine/db.ts'
import { findServerAgent } from '../store/servers/agents.ts'

interface AskOptions {
  /** How long the agent has to answer. */
  deadlineMs: number
  /** Aborted when the caller disconnects. */
  signal: AbortSignal
}

type Send = (message: ServerMessage['msg']) => void

interface Question {
  resolve(body: Response['body']): void
  reject(error: unknown): void
}

export const offline = (): AppError =>
  new AppError('server_offline', 'The server is offline. Try again when it is back.')

const tooLate = (): AppError =>
  new AppError('server_timeout', 'The server did not answer in time. Try again.')

const busy = (): AppError =>
  new AppError(
    'transfers_busy',
    'The server is answering too many requests. Try again in a moment.',
  )

/** The pending requests of one session. */
export class PendingRequests {
  readonly #send: Send
  readonly #open = new Map<string, Question>()
  readonly #whenClosed = new Set<() => void>()
  #closed = false

  constructor(send: Send) {
    this.#send = send
  }

  /** Registers work that ends with the session; returns a function that unregisters it. */
  whenClosed(end: () => void): () => void {
    this.#whenClosed.add(end)
    return () => void this.#whenClosed.delete(end)
  }

  async ask(body: Request['body'], o: AskOptions): Promise<Response['body']> {
    o.signal.throwIfAborted()
    if (this.#closed) throw offline()
    if (this.#open.size >= DAEMON.requestsInFlight) throw busy()
    const requestId = randomUUID()
    const { promise, resolve, reject } = Promise.withResolvers<Response['body']>()
    this.#open.set(requestId, { resolve, reject })
    const giveUp = (error: unknown): void => {
      this.#cancel(requestId)
      reject(error)
    }
    const timer = setTimeout(() => giveUp(tooLate()), o.deadlineMs)
    const left = (): void => giveUp(o.signal.reason)
    o.signal.addEventListener('abort', left, { once: true })
    try {
      const deadline = durationFromMs(o.deadlineMs)
      this.#send({ case: 'request', value: create(RequestSchema, { requestId, deadline, body }) })
      return await promise
    } finally {
      clearTimeout(timer)
      o.signal.removeEventListener('abort', left)
      this.#open.delete(requestId)
    }
  }

  /** Ignores an answer that is late or repeated. */
  answer({ requestId, body }: Response): void {
    this.#open.get(requestId)?.resolve(body)
  }

  close(): void {
    this.#closed = true
    for (const question of this.#open.values()) question.reject(offline())
    for (const end of [...this.#whenClosed]) end()
  }

  #cancel(requestId: string): void {
    if (this.#closed) return
    const value = { $typeName: 'berth.agent.v1.CancelRequest' as const, requestId }
    this.#send({ case: 'cancelRequest', value })
  }
}

/** The pending requests of all live sessions by agent; an agent's newest session replaces the older one. */
export class LiveAgents {
  readonly #requests = new Map<string, PendingRequests>()

  open(agentId: string, requests: PendingRequests): void {
    this.#requests.set(agentId, requests)
  }

  close(agentId: string, requests: PendingRequests): void {
    requests.close()
    if (this.#requests.get(agentId) === requests) this.#requests.delete(agentId)
  }

  find(agentId: string): PendingRequests | undefined {
    return this.#requests.get(agentId)
  }
}

/** Where callers find the agents of servers. */
interface Agents {
  db: Db
  agentRpc: LiveAgents
}

/** Finds the connected agent of a server; throws `server_offline` if there is none. */
export async function findLiveAgent(ctx: Agents, serverId: number): Promise<string> {
  const agent = await findServerAgent(ctx.db, serverId)
  if (!agent || !ctx.agentRpc.find(agent.id)) throw offline()
  return agent.id
}

/**
 * Calls the agent of a server. Too busy, too late and offline are thrown as refusals; any other error of the agent is
 * an answer (`case: 'error'`) that only the caller can interpret.
 */
export async function callAgent(
  ctx: Agents,
  serverId: number,
  body: Request['body'],
  o: AskOptions,
): Promise<Response['body']> {
  const requests = ctx.agentRpc.find(await findLiveAgent(ctx, serverId))
  if (!requests) throw offline()
  const answer = await requests.ask(body, o)
  if (answer.case !== 'error') return answer
  if (answer.value.code === RequestErrorCode.TOO_MANY) throw busy()
  if (answer.value.code === RequestErrorCode.DEADLINE) throw tooLate()
  return answer
}
