// Sends requests to live agents, also to those that another control plane holds. They are limited in number and time,
// and each ends exactly once: with its answer, the session, the caller or the deadline. The caller interprets the
// answer. A request waits a moment for an agent that is between two control planes; no agent is asked twice.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { AppError, DAEMON, never } from '@berth/shared'
import {
  type Request,
  RequestErrorCode,
  RequestSchema,
  type Response,
  type ServerMessage,
} from '@berth/shared/wire'
import { AskRefusal } from '@berth/shared/wire/peers'
import { create } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { PEERS } from '../limits/peers.ts'
import type { Asked, Peers } from '../peers/peers.ts'
import type { Db } from '../store/engine/db.ts'
import { type Agent, findServerAgent } from '../store/servers/agents.ts'

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
  clock: { now(): number }
  replicaId: string
  agentRpc: LiveAgents
  /** Undefined if this control plane is alone. */
  peers: Peers | undefined
}

/** Finds the connected agent of a server; throws `server_offline` if there is none and none is to be expected. */
export async function findLiveAgent(ctx: Agents, serverId: number): Promise<string> {
  const agent = await findServerAgent(ctx.db, serverId)
  if (!agent || !(ctx.peers ? isExpected(ctx, agent) : ctx.agentRpc.find(agent.id))) throw offline()
  return agent.id
}

/** It has a session somewhere, or had one a moment ago. */
const isExpected = (ctx: Agents, { sessionId, disconnectedAt }: Agent): boolean =>
  sessionId !== null || ctx.clock.now() - (disconnectedAt ?? 0) < PEERS.agentReturnsMs

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
  const { peers } = ctx
  const answer = await (peers
    ? askAnywhere(ctx, peers, serverId, body, o)
    : askHere(ctx, serverId, body, o))
  if (answer.case !== 'error') return answer
  if (answer.value.code === RequestErrorCode.TOO_MANY) throw busy()
  if (answer.value.code === RequestErrorCode.DEADLINE) throw tooLate()
  return answer
}

async function askHere(
  ctx: Agents,
  serverId: number,
  body: Request['body'],
  o: AskOptions,
): Promise<Response['body']> {
  const requests = ctx.agentRpc.find(await findLiveAgent(ctx, serverId))
  if (!requests) throw offline()
  return requests.ask(body, o)
}

/** Asks as soon as the agent is found, here or at a peer. */
async function askAnywhere(
  ctx: Agents,
  peers: Peers,
  serverId: number,
  body: Request['body'],
  o: AskOptions,
): Promise<Response['body']> {
  const until = performance.now() + PEERS.agentReturnsMs
  for (;;) {
    o.signal.throwIfAborted()
    const agent = await findServerAgent(ctx.db, serverId)
    if (!agent || !isExpected(ctx, agent)) throw offline()
    const { id: agentId, replicaId, sessionId } = agent
    if (sessionId !== null && replicaId === ctx.replicaId) {
      const requests = ctx.agentRpc.find(agentId)
      if (requests) return requests.ask(body, o)
    } else if (sessionId !== null && replicaId !== null) {
      const asked = await peers.ask({ replicaId, agentId, body, ...o })
      const answer = readAnswer(asked)
      if (answer) return answer
    }
    if (performance.now() >= until) throw offline()
    await sleep(PEERS.agentLookMs, undefined, { signal: o.signal }).catch(() => undefined)
  }
}

/** Undefined if the agent was not asked, because it is not there. */
function readAnswer(asked: Asked): Response['body'] | undefined {
  switch (asked.kind) {
    case 'answered':
      return asked.body
    case 'unreachable':
      return undefined
    case 'late':
      throw tooLate()
    case 'lost':
      throw offline()
    case 'refused':
      if (asked.refusal === AskRefusal.NOT_HERE) return undefined
      if (asked.refusal === AskRefusal.BUSY) throw busy()
      if (asked.refusal === AskRefusal.TIMEOUT) throw tooLate()
      throw offline()
    default:
      return never(asked)
  }
}

/** For a peer that holds no such agent, or asked it in vain: what to tell. Rethrows what is no refusal. */
export function toAskRefusal(error: unknown): AskRefusal {
  const code = error instanceof AppError ? error.code : undefined
  if (code === 'server_offline') return AskRefusal.ENDED
  if (code === 'server_timeout') return AskRefusal.TIMEOUT
  if (code === 'transfers_busy') return AskRefusal.BUSY
  throw error
}
