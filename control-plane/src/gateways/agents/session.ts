// One control stream of one agent, from its hello to its end. Messages are processed one at a time, in order. Anything
// unexpected ends the whole session, and the next one resynchronises completely; there is no partial repair.
import { randomUUID } from 'node:crypto'
import { SESSION, VERSION } from '@berth/shared'
import {
  type AgentMessage,
  GoodbyeReason,
  GoodbyeSchema,
  type Heartbeat,
  type Hello,
  type ServerMessage,
  ServerMessageSchema,
  WaitingSchema,
  WelcomeSchema,
} from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import {
  durationFromMs,
  type Timestamp,
  timestampFromMs,
  timestampMs,
} from '@bufbuild/protobuf/wkt'
import { PendingRequests } from '../../agents/agent-rpc.ts'
import { agentTopic, trustTopic } from '../../app/core/transaction.ts'
import { dispatchTasks } from '../../app/deployments/dispatching.ts'
import { completeLog } from '../../app/deployments/logs.ts'
import { applyEvents } from '../../app/deployments/reports.ts'
import { applyObserved } from '../../app/environments/observations.ts'
import type { Beat } from '../../app/servers/heartbeats.ts'
import {
  type Certified,
  endStoredSessions,
  LateHello,
  markDraining,
  openSession,
} from '../../app/servers/sessions.ts'
import type { Context } from '../../context.ts'
import { ClockOffset } from '../../domain/deployments/agent-clock.ts'
import { isOutcomeUnknown } from '../../store/engine/faults.ts'
import { type Agent, findAgent } from '../../store/servers/agents.ts'
import type { Admitted } from './admission.ts'
import { DesiredState } from './desired.ts'
import { EdgeState } from './edge.ts'
import { heartbeatMs, logPolicy } from './policy.ts'
import { ServerSettingsState } from './server-settings.ts'
import { TrustState } from './trust.ts'
import { UpdateState } from './updates.ts'

const INBOX = 64 // messages read ahead; the stream pauses beyond
const BACKLOG = 1_024 // unread messages after which the agent is cut off
const PROTOCOL = 1

class ProtocolError extends Error {}

/** The part of the stream that a session needs. */
interface ControlStream {
  write(message: ServerMessage): boolean
  /** Number of messages waiting to be sent. */
  backlog(): number
  pause(): void
  resume(): void
  end(): void
}

export type SessionIdentity = Certified

/** What a session reports to the gateway. */
export interface Gateway {
  agentCount(): number
  /** Over how long the agents spread their return when this control plane dies. */
  spreadMs(): number
  /** Resolves when it is this session's turn to open. */
  admit(session: AgentSession, patienceMs?: number): Promise<Admitted>
  /** Resolves when the heartbeat is stored; false if the session is over. */
  beat(beat: Beat): Promise<boolean>
  /** It has the rows now; a former session of the agent ends. */
  opened(session: AgentSession): void
  closed(session: AgentSession): void
  /** The session's rows could not be written; endRows must be called again. */
  unclosed(session: AgentSession): void
}

export class AgentSession {
  readonly identity: SessionIdentity
  epoch = 0
  readonly sessionId = randomUUID()
  #serverId = 0
  /** Its agent waits for Welcome since then, or for longer. */
  #awaitedSince = 0
  /** The newest Waiting that it was sent. */
  #waiting = { n: 0, at: 0 }
  readonly #ctx: Context
  readonly #stream: ControlStream
  readonly #gateway: Gateway
  #state: 'opening' | 'active' | 'closed' = 'opening'
  #heard = performance.now()
  /** Sessions that began together re-read at different times. */
  #reread = performance.now() + Math.random() * SESSION.rereadMs
  #timeoutMs: number = SESSION.helloMs
  readonly #inbox: AgentMessage[] = []
  #draining = false
  #paused = false
  #hasLogStream = false
  hasHello = false
  #beating: Promise<void> | undefined
  readonly #desired: DesiredState
  readonly #edge: EdgeState
  readonly #settings: ServerSettingsState
  readonly #trust: TrustState
  readonly #updates: UpdateState
  #isTrustDue = false
  readonly #clock = new ClockOffset()
  readonly #requests = new PendingRequests((message) => this.send(message))
  #refresh: 'idle' | 'busy' | 'again' = 'idle'
  #unsubscribe: () => void = () => {}
  readonly #whenClosed: (() => void)[] = []

  constructor(ctx: Context, identity: SessionIdentity, stream: ControlStream, gateway: Gateway) {
    this.#ctx = ctx
    this.identity = identity
    this.#stream = stream
    this.#gateway = gateway
    this.#desired = new DesiredState(ctx, identity.agentId, (value) =>
      this.send({ case: 'assignments', value }),
    )
    this.#edge = new EdgeState(ctx, (value) => this.send({ case: 'edge', value }))
    this.#settings = new ServerSettingsState(ctx, (value) => this.send({ case: 'settings', value }))
    this.#updates = new UpdateState(ctx, (value) => this.send({ case: 'update', value }))
    this.#trust = new TrustState(ctx, identity.agentId, (value) =>
      this.send({ case: 'trust', value }),
    )
  }

  get agentId(): string {
    return this.identity.agentId
  }

  /** How far the server's clock is behind ours; undefined until it reports its time. */
  get clockOffsetMs(): number | undefined {
    return this.#clock.ms
  }

  #noteTime(reported: Timestamp | undefined): void {
    if (reported) this.#clock.note(timestampMs(reported), this.#ctx.clock.now())
  }

  /** The log stream ends with its session. */
  whenClosed(end: () => void): void {
    this.#whenClosed.push(end)
  }

  /** Allows one log stream per session, because two would write to the same files. */
  takeLogStream(): boolean {
    const first = !this.#hasLogStream
    this.#hasLogStream = true
    return first
  }

  get isActive(): boolean {
    return this.#state === 'active'
  }

  receive(message: AgentMessage): void {
    if (this.#state === 'closed') return
    this.#heard = performance.now()
    if (message.msg.case === 'waiting') {
      const { n, at } = this.#waiting
      if (message.msg.value.n === n) this.#awaitedSince = at
      return
    }
    this.#inbox.push(message)
    if (this.#inbox.length >= INBOX && !this.#paused) {
      this.#paused = true
      this.#stream.pause()
    }
    void this.#drain()
  }

  async #drain(): Promise<void> {
    if (this.#draining) return
    this.#draining = true
    try {
      for (let m = this.#inbox.shift(); m && this.#state !== 'closed'; m = this.#inbox.shift()) {
        await this.#take(m)
        if (this.#paused && this.#inbox.length < INBOX / 2) {
          this.#paused = false
          this.#stream.resume()
        }
      }
    } catch (error) {
      this.#fail(error)
    } finally {
      this.#draining = false
    }
  }

  #fail(error: unknown): void {
    if (error instanceof ProtocolError) {
      this.goodbye(GoodbyeReason.PROTOCOL_ERROR, error.message)
      return
    }
    if (error instanceof LateHello) {
      this.goodbye(GoodbyeReason.OVERLOADED, 'This took too long; come back.')
      return
    }
    this.#ctx.log.error({ err: error, agentId: this.agentId }, 'agent session failed')
    this.goodbye(GoodbyeReason.OVERLOADED, 'Internal error; come back.')
  }

  async #take({ msg }: AgentMessage): Promise<void> {
    if (this.#state === 'opening') {
      if (msg.case !== 'hello') throw new ProtocolError('the first message must be Hello')
      return this.#open(msg.value)
    }
    switch (msg.case) {
      case 'hello':
        throw new ProtocolError('a second Hello')
      case 'heartbeat':
        this.#noteTime(msg.value.agentTime)
        await this.#beating // one at a time; other messages do not wait for it
        this.#beating = this.#beat(msg.value).catch((error: unknown) => this.#fail(error))
        return
      case 'events': {
        const applied = await applyEvents(this.#ctx, this, msg.value.events)
        if (applied.kind === 'superseded') return this.over()
        if (applied.kind === 'hole') {
          throw new ProtocolError(`event ${applied.expected} expected, got ${applied.got}`)
        }
        if (applied.kind === 'foreign') {
          throw new ProtocolError('an attempt of another agent was named')
        }
        this.send({
          case: 'eventAck',
          value: { $typeName: 'berth.agent.v1.EventAck', ackedSeq: BigInt(applied.ackedSeq) },
        })
        for (const attemptId of applied.finished) await completeLog(this.#ctx, attemptId)
        for (const attemptId of applied.unknown) this.#desired.forget(attemptId)
        return
      }
      case 'applied':
        return this.#desired.confirm(Number(msg.value.version))
      case 'observed':
        if (!(await applyObserved(this.#ctx, this, msg.value))) await this.over()
        return
      case 'trustApplied':
        return this.#trust.confirm(msg.value)
      case 'draining':
        await markDraining(this.#ctx, this.agentId, this.epoch)
        return
      case 'goodbye':
        this.close()
        return
      case 'response':
        return this.#requests.answer(msg.value)
      default:
        return // unknown members come from newer agents
    }
  }

  async #beat(heartbeat: Heartbeat): Promise<void> {
    const { agentId, epoch } = this
    const { dockerOk, proxyOk, usage } = heartbeat
    const diskFreeBytes = Number(heartbeat.diskFreeBytes)
    const facts = { serverId: this.#serverId, diskFreeBytes, dockerOk, proxyOk, usage }
    if (!(await this.#gateway.beat({ agentId, epoch, ...facts }))) return this.over()
    const agents = this.#gateway.agentCount()
    this.send({
      case: 'heartbeatAck',
      value: {
        $typeName: 'berth.agent.v1.HeartbeatAck',
        n: heartbeat.n,
        nextInterval: durationFromMs(heartbeatMs(agents)),
        serverTime: timestampFromMs(this.#ctx.clock.now()),
        reconnectSpread: durationFromMs(this.#gateway.spreadMs()),
      },
    })
  }

  async #open(hello: Hello): Promise<void> {
    if (hello.protocolMin > PROTOCOL || hello.protocolMax < PROTOCOL) {
      const message = `This control plane speaks protocol ${PROTOCOL}. Update the agent.`
      this.goodbye(GoodbyeReason.VERSION_UNSUPPORTED, message)
      return
    }
    this.#noteTime(hello.agentTime)
    this.hasHello = true
    this.#awaitedSince = performance.now()
    const turn = await this.#waitForTurn(hello)
    if (turn.kind === 'gone') return this.superseded()
    if (turn.kind === 'later') {
      const message = 'Too many agents at once; come back.'
      this.goodbye(GoodbyeReason.OVERLOADED, message, turn.againMs)
      return
    }
    try {
      if (!this.#isClosed()) await this.#openInTurn(hello)
    } finally {
      turn.end()
    }
  }

  /** An agent that can wait hears from time to time that it is in line, and answers that it is still here. */
  async #waitForTurn({ capabilities }: Hello): Promise<Admitted> {
    if (!capabilities.includes('waits')) return this.#gateway.admit(this)
    const timer = setInterval(() => {
      const n = this.#waiting.n + 1
      this.#waiting = { n, at: performance.now() }
      this.send({ case: 'waiting', value: create(WaitingSchema, { n }) })
    }, SESSION.waitingMs)
    try {
      return await this.#gateway.admit(this, Number.POSITIVE_INFINITY)
    } finally {
      clearInterval(timer)
    }
  }

  async #openInTurn(hello: Hello): Promise<void> {
    const { sessionId, identity } = this
    const isAwaited = (): boolean =>
      !this.#isClosed() && performance.now() - this.#awaitedSince < SESSION.welcomeMs
    const opening = { sessionId, identity, hello, isAwaited }
    const opened = await openSession(this.#ctx, opening).catch((error: unknown) => {
      if (isOutcomeUnknown(error)) this.endRows()
      throw error
    })
    if (opened.kind === 'turned_away') {
      this.goodbye(opened.reason, opened.message, opened.againAfterMs)
      return
    }
    this.epoch = opened.agent.sessionEpoch
    this.#serverId = opened.agent.serverId
    this.#gateway.opened(this)
    if (this.#isClosed()) {
      // the stream ended while the rows were written, so close them here
      this.#gateway.closed(this)
      this.endRows()
      return
    }
    this.#state = 'active'
    const interval = heartbeatMs(this.#gateway.agentCount())
    this.#timeoutMs = interval * SESSION.timeoutIntervals
    this.send({
      case: 'welcome',
      value: create(WelcomeSchema, {
        protocol: PROTOCOL,
        serverVersion: VERSION,
        sessionId,
        replicaId: this.#ctx.replicaId,
        heartbeatInterval: durationFromMs(interval),
        sessionTimeout: durationFromMs(this.#timeoutMs),
        serverTime: timestampFromMs(this.#ctx.clock.now()),
        ackedEventSeq: BigInt(opened.ackedEventSeq),
        logPolicy: logPolicy(),
        renewAt: timestampFromMs(opened.renewAt),
        reconnectSpread: durationFromMs(this.#gateway.spreadMs()),
      }),
    })
    this.#refresh = 'busy'
    this.#subscribe() // before the first read, so that no change is between them
    await this.#trust.sendFirst(Number(hello.trustGeneration))
    await this.#edge.sendComplete(opened.agent.serverId)
    await this.#settings.sendFirst(opened.agent.serverId)
    await this.#dispatch()
    this.#desired.meet(opened.unknownAttempts)
    await this.#desired.sendComplete()
    await this.#updates.sendFirst(opened.agent.serverId)
    if (this.#isClosed()) return // a session that has ended takes no requests
    this.#ctx.agentRpc.open(this.agentId, this.#requests)
    this.#endRefresh()
  }

  #dispatch(): Promise<boolean> {
    const { agentId, epoch } = this
    return dispatchTasks(this.#ctx, { agentId, epoch, serverId: this.#serverId })
  }

  #subscribe(): void {
    const { notifier } = this.#ctx
    const stop = notifier.on(agentTopic(this.agentId), () => this.notify())
    const stopTrust = notifier.on(trustTopic(this.agentId), () => this.notify(true))
    this.#unsubscribe = () => {
      stop()
      stopTrust()
    }
  }

  // TypeScript narrows #state after the checks above; awaits in between may have changed it.
  #isClosed(): boolean {
    return this.#state === 'closed'
  }

  /** Something about this agent may have changed: reads the state and sends what differs. Calls coalesce. */
  notify(isTrust = false): void {
    if (this.#state !== 'active') return
    this.#isTrustDue ||= isTrust
    if (this.#refresh !== 'idle') {
      this.#refresh = 'again'
      return
    }
    this.#refresh = 'busy'
    void this.#refreshOnce()
  }

  async #refreshOnce(): Promise<void> {
    try {
      await this.#sendChanges()
    } catch (error) {
      this.#fail(error)
    } finally {
      this.#endRefresh()
    }
  }

  #endRefresh(): void {
    const again = this.#refresh === 'again'
    this.#refresh = 'idle'
    if (again) this.notify()
  }

  async #sendChanges(): Promise<void> {
    const agent = await findAgent(this.#ctx.db, this.agentId)
    if (!agent || agent.sessionEpoch !== this.epoch || agent.sessionId === null) {
      this.#leave(agent)
      return
    }
    if (this.#isTrustDue) {
      this.#isTrustDue = false
      await this.#trust.sendChanges()
    }
    await this.#edge.sendChanges()
    await this.#settings.sendChanges()
    await this.#updates.sendChanges()
    await this.#dispatch()
    await this.#desired.sendChanges()
  }

  /** Runs once a second: checks silence, expired certificates and unconfirmed assignments. */
  tick(lagged: boolean): void {
    if (this.#state === 'closed' || lagged) return
    const now = performance.now()
    if (now - this.#heard > this.#timeoutMs) {
      this.#ctx.log.warn({ agentId: this.agentId }, 'agent fell silent')
      this.close()
      return
    }
    if (now >= this.#reread) {
      this.#reread = now + SESSION.rereadMs
      this.notify(true) // whatever was lost on the way, it costs at most this delay
    }
    if (this.identity.notAfter <= this.#ctx.clock.now()) {
      this.goodbye(GoodbyeReason.CERTIFICATE_EXPIRED, 'The certificate ran out.')
      return
    }
    const confirmation = this.#desired.confirmation(now)
    if (confirmation === 'given_up') {
      this.goodbye(GoodbyeReason.PROTOCOL_ERROR, 'assignments were not confirmed')
    } else if (confirmation === 'late') {
      this.#desired.sendComplete().catch((error: unknown) => this.#fail(error))
    }
  }

  send(msg: ServerMessage['msg']): void {
    if (this.#state === 'closed') return
    this.#stream.write(create(ServerMessageSchema, { sessionEpoch: BigInt(this.epoch), msg }))
    if (this.#stream.backlog() > BACKLOG) this.close()
  }

  /** Its rows belong to it no more: reads why, and says so. */
  async over(): Promise<void> {
    this.#leave(await findAgent(this.#ctx.db, this.agentId))
  }

  #leave(agent: Agent | undefined): void {
    if (!agent || agent.revokedAt !== null) {
      this.goodbye(GoodbyeReason.REVOKED, 'This agent was revoked.')
    } else if (agent.lockedAt !== null) {
      this.goodbye(GoodbyeReason.DUPLICATE_IDENTITY, agent.lockReason ?? '')
    } else if (agent.sessionEpoch !== this.epoch) {
      this.superseded()
    } else {
      // the other replicas ended it while this one was paused or cut off, so the agent may return at once
      this.goodbye(GoodbyeReason.SERVER_DRAINING, 'This session was ended.', 1)
    }
  }

  superseded(): void {
    this.goodbye(GoodbyeReason.SUPERSEDED, 'A newer session of this agent took over.')
  }

  goodbye(reason: GoodbyeReason, message: string, reconnectAfterMs = 0): void {
    this.send({
      case: 'goodbye',
      value: create(GoodbyeSchema, {
        reason,
        message,
        ...(reconnectAfterMs > 0 ? { reconnectAfter: durationFromMs(reconnectAfterMs) } : {}),
      }),
    })
    this.close()
  }

  /** Idempotent, because several paths detect the end. */
  close(): void {
    if (this.#state === 'closed') return
    const wasActive = this.#state === 'active'
    this.#state = 'closed'
    this.#unsubscribe()
    this.#ctx.agentRpc.close(this.agentId, this.#requests)
    for (const end of this.#whenClosed) end()
    this.#stream.end()
    this.#gateway.closed(this)
    if (wasActive) this.endRows()
  }

  /** Retried on failure: rows that still show a session would keep its tasks waiting forever. */
  endRows(): void {
    const rows = [{ id: this.agentId, sessionId: this.sessionId }]
    endStoredSessions(this.#ctx, rows).catch((error: unknown) => {
      this.#ctx.log.error({ err: error, agentId: this.agentId }, 'session could not be closed')
      this.#gateway.unclosed(this)
    })
  }
}
