// Performs one session with the control plane: the pure rules decide, this file opens the streams and acts. Any error
// of Connect or StreamLogs ends the whole session; there is no partial repair. Everything a session created (streams,
// timers, senders, requests) is closed when `run` resolves.
import { setTimeout as delay } from 'node:timers/promises'
import { DAEMON, SESSION } from '@berth/shared'
import {
  type AgentMessage,
  AgentMessageSchema,
  AgentService,
  ClaimHostsRequestSchema,
  type ClaimHostsResponse,
  type EdgeSettings,
  GoodbyeReason,
  type LogDown,
  openRawStream,
  type ServerMessage,
  SignSshHostKeyRequestSchema,
  type SignSshHostKeyResponse,
  type TrustBundle,
  type UpdateAgent,
  type Welcome,
} from '@berth/shared/wire'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { durationFromMs, timestampDate, timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import type { ClientDuplexStream } from '@grpc/grpc-js'
import type { AttemptManager } from '../attempts/attempt-manager.ts'
import type { Spools } from '../attempts/spools.ts'
import type { Clock } from '../clock.ts'
import type { Journal } from '../journal/journal.ts'
import { describeError, type Log } from '../log.ts'
import { saveServerSettings } from '../machine/server-settings.ts'
import type { Host } from '../maintenance/host.ts'
import type { Observations } from '../maintenance/observations.ts'
import type { AgentSettings } from '../settings.ts'
import type { Offerer } from '../update/updater.ts'
import type { SessionEnd } from './backoff.ts'
import { BulkLine } from './bulk.ts'
import { explainFailure, onReady, openChannel } from './channel.ts'
import { createHello } from './hello.ts'
import { type Identity, installTrust } from './identity/identity.ts'
import type { AgentClient } from './identity/renewal.ts'
import { readPolicy } from './logs/policy.ts'
import { LogSender } from './logs/sender.ts'
import { ObservedSender } from './observed-sender.ts'
import { OutboxSender } from './outbox-sender.ts'
import { fetchRelease } from './release-download.ts'
import { type Answerers, PendingRequests } from './requests.ts'
import {
  type Effect,
  nextTickAt,
  type Phase,
  type SessionEvent,
  type SessionState,
  startSession,
  stepSession,
} from './session-rules.ts'

export interface SessionOptions {
  settings: AgentSettings
  identity: Identity
  endpoint: string
  journal: Journal
  manager: AttemptManager
  spools: Spools
  host: Host
  observations: Observations
  clock: Clock
  log: Log
  answerers: Answerers
  /** Passwords of environments, desired state by revision. */
  onEdge?: (settings: EdgeSettings) => void
  /** The trust bundle is on disk; resolves when it is in force. */
  onTrust?: () => Promise<void>
  /** A newer agent is offered. */
  onUpdate?: (offer: UpdateAgent, offerer: Offerer) => void
  /** Random per process start. */
  instanceId: string
  previousSessionId: string
  /** Shared by the sessions of a process: no renewal is tried before this moment (monotonic clock). */
  renewal: { notBefore: number }
  onPhase: (phase: Phase) => void
}

type Body = NonNullable<MessageInitShape<typeof AgentMessageSchema>['msg']>
const message = (msg: Body): AgentMessage => create(AgentMessageSchema, { msg })

export class Session {
  readonly #o: SessionOptions
  readonly #client: AgentClient
  readonly #connect: ClientDuplexStream<AgentMessage, ServerMessage>
  readonly #bulk: BulkLine
  readonly #requests: PendingRequests
  readonly #done = Promise.withResolvers<SessionEnd>()
  readonly #unlisten: () => void
  #state: SessionState
  #timer: NodeJS.Timeout | undefined
  #outbox: OutboxSender | undefined
  #logStream: ClientDuplexStream<Buffer, LogDown> | undefined
  #logs: LogSender | undefined
  #observed: ObservedSender | undefined
  #welcome: Welcome | undefined
  #renewing = false
  /** The heartbeat that brought counts of requests, and their end. */
  #reported: { n: bigint; until: number } | undefined
  #stopLooking: () => void
  #closed = false

  constructor(options: SessionOptions) {
    this.#o = options
    this.#state = startSession(options.journal.assignmentsVersion(), options.clock.mono())
    this.#client = openChannel(options.identity, options.endpoint)
    this.#connect = this.#client.connect()
    const { answerers, log } = options
    this.#bulk = BulkLine.to(options.identity, options.endpoint)
    this.#requests = new PendingRequests(answerers, log, this.#bulk, (response) =>
      this.#send(message({ case: 'response', value: response })),
    )
    this.#unlisten = options.manager.onChange(() => this.#logs?.attemptChanged())
    this.#listen()
    this.#stopLooking = onReady(this.#client, () => this.#feed({ type: 'connected' }))
    this.#plan()
  }

  get phase(): Phase {
    return this.#state.phase
  }

  get sessionId(): string {
    return this.#welcome?.sessionId ?? ''
  }

  run(): Promise<SessionEnd> {
    return this.#done.promise
  }

  /** Claims hostnames on this session's connection. */
  claimHosts(attemptId: string, fence: bigint, hosts: string[]): Promise<ClaimHostsResponse> {
    const request = create(ClaimHostsRequestSchema, { attemptId, fence, hosts })
    return this.#ask((options, done) => this.#client.claimHosts(request, options, done))
  }

  /** Asks for a certificate over this server's host key. */
  async signSshHostKey(publicKey: string): Promise<string> {
    const request = create(SignSshHostKeyRequestSchema, { publicKey })
    const { certificate } = await this.#ask<SignSshHostKeyResponse>((options, done) =>
      this.#client.signSshHostKey(request, options, done),
    )
    return certificate
  }

  #ask<T>(
    call: (options: { deadline: number }, done: (error: unknown, answer?: T) => void) => void,
  ): Promise<T> {
    if (this.#state.phase !== 'active') return Promise.reject(new Error('there is no session'))
    return new Promise((resolve, reject) => {
      call({ deadline: Date.now() + SESSION.unaryMs }, (error, answer) =>
        answer ? resolve(answer) : reject(error ?? new Error('the control plane gave no answer')),
      )
    })
  }

  /** SIGTERM: accepts no new attempts, flushes within 5 s, says goodbye. Runners continue. */
  async drain(): Promise<void> {
    if (this.#state.phase === 'active' && this.#outbox && this.#logs) {
      const deadline = durationFromMs(SESSION.drainMs)
      this.#send(message({ case: 'draining', value: { deadline } }))
      const flushed = Promise.all([this.#outbox.drained(), this.#logs.drained()])
      await Promise.race([
        flushed,
        this.#done.promise,
        delay(SESSION.drainMs, undefined, { ref: false }),
      ])
      this.#say(GoodbyeReason.AGENT_SHUTDOWN, 'The agent is being stopped.')
    }
    this.#feed({ type: 'failed', message: 'the agent is being stopped' })
    await this.#done.promise
  }

  /** As if the process had died: no goodbye, nothing written. */
  kill(): void {
    this.#outbox?.kill()
    this.#outbox = undefined
    this.#logs?.close(false)
    this.#logs = undefined
    this.#cut()
    this.#done.resolve({ message: 'killed', activeMs: 0 })
  }

  #listen(): void {
    const failed = (error: Error): void => {
      this.#feed({ type: 'failed', message: explainFailure(error.message, this.#o.endpoint) })
    }
    this.#connect.on('error', failed)
    this.#connect.on('data', (m: ServerMessage) => this.#feed({ type: 'message', message: m }))
    this.#connect.on('end', () => failed(new Error('the control plane ended the stream')))
    this.#connect.on('drain', () => this.#outbox?.resume())
  }

  #feed(event: SessionEvent): void {
    if (this.#closed) return
    const before = this.#state.phase
    const step = stepSession(this.#state, event, this.#o.clock.mono())
    this.#state = step.state
    try {
      for (const effect of step.effects) this.#perform(effect)
    } catch (error) {
      this.#o.log.error(describeError(error), 'the session cannot go on')
      this.#feed({ type: 'failed', message: (error as Error).message })
    }
    if (this.#state.phase !== before) this.#o.onPhase(this.#state.phase)
    this.#plan()
  }

  #plan(): void {
    clearTimeout(this.#timer)
    if (this.#closed) return
    const wait = Math.max(1, Math.ceil(nextTickAt(this.#state) - this.#o.clock.mono()))
    this.#timer = setTimeout(() => this.#feed({ type: 'tick' }), wait)
  }

  #perform(effect: Effect): void {
    switch (effect.do) {
      case 'hello':
        this.#send(message({ case: 'hello', value: createHello(this.#o) }))
        break
      case 'waiting':
        this.#send(message({ case: 'waiting', value: { n: effect.n } }))
        break
      case 'welcome':
        this.#learn(effect.welcome)
        break
      case 'apply':
        this.#o.manager.apply(effect)
        this.#send(message({ case: 'applied', value: { version: effect.version } }))
        // runners start in the next turn of the event loop, so the acknowledgement does not wait for them
        setImmediate(() => this.#o.journal.isOpen && this.#o.manager.advance())
        break
      case 'activate':
        this.#activate()
        break
      case 'ack':
        this.#outbox?.acknowledged(effect.seq)
        break
      case 'heartbeat':
        this.#beat(effect.n)
        break
      case 'beaten':
        this.#noteBeaten(effect.n)
        break
      case 'trust':
        this.#installTrust(effect.bundle)
        break
      case 'answer':
        void this.#requests.answer(effect.request)
        break
      case 'cancel':
        this.#requests.cancel(effect.request.requestId)
        break
      case 'edge':
        this.#o.onEdge?.(effect.settings)
        break
      case 'settings':
        saveServerSettings(this.#o.settings, effect.settings)
        this.#o.manager.advance() // there may be more slots
        break
      case 'update':
        this.#o.onUpdate?.(effect.offer, {
          controlPlane: this.#welcome?.serverVersion ?? '',
          fetch: (request) => fetchRelease(this.#bulk, request),
        })
        break
      case 'goodbye':
        this.#say(effect.reason, effect.message)
        break
      case 'end':
        this.#finish(effect.end)
        break
    }
  }

  #learn(welcome: Welcome): void {
    const { last } = this.#o.journal.outbox.range()
    if (welcome.ackedEventSeq > last) {
      const text = `event ${welcome.ackedEventSeq} is called known, the journal ends with ${last}`
      this.#say(GoodbyeReason.PROTOCOL_ERROR, text)
      throw new Error(`${text}: the state directory may be an old copy`)
    }
    this.#welcome = welcome
  }

  #activate(): void {
    const { journal, clock, log, spools, host } = this.#o
    const fail = (text: string): void => this.#feed({ type: 'failed', message: text })
    const send = (m: AgentMessage): boolean => this.#send(m)
    const acked = this.#welcome?.ackedEventSeq ?? 0n
    this.#outbox = new OutboxSender({ journal, clock, send, fail }, acked)
    const stream = openRawStream(this.#client, AgentService, AgentService.method.streamLogs)
    this.#logStream = stream
    stream.on('error', (error: Error) => fail(`log stream: ${error.message}`))
    stream.on('end', () => fail('the control plane ended the log stream'))
    const write = (bytes: Buffer): boolean => stream.write(bytes)
    const policy = readPolicy(this.#welcome)
    const { sessionId } = this
    const logs = new LogSender({ journal, spools, clock, log, policy, sessionId, write, fail })
    this.#logs = logs
    stream.on('data', (m: LogDown) => logs.receive(m))
    stream.on('drain', () => logs.resume())
    this.#observed = new ObservedSender({
      observations: this.#o.observations,
      host,
      send: (value) => void this.#send(message({ case: 'observed', value })),
    })
    log.info({ sessionId, endpoint: this.#o.endpoint }, 'session is active')
  }

  #beat(n: bigint): void {
    const { journal, manager, host, clock } = this.#o
    journal.ping()
    const usage = host.takeUsage()
    if (usage?.requestsUntil) this.#reported = { n, until: timestampMs(usage.requestsUntil) }
    const value = {
      n,
      agentTime: timestampFromMs(clock.now()),
      liveAttemptIds: manager.liveIds(),
      ...host.pulse(),
      ...optional('usage', usage),
    }
    this.#send(message({ case: 'heartbeat', value }))
    if (host.takeChanged()) {
      this.#send(message({ case: 'observed', value: { last: true, host: host.info() } }))
    }
    this.#renewIfDue()
  }

  #noteBeaten(n: bigint): void {
    if (this.#reported?.n !== n) return
    this.#o.host.requests.stored(this.#reported.until)
    this.#reported = undefined
  }

  #renewIfDue(): void {
    const { clock, settings, identity, log } = this.#o
    const at = this.#welcome?.renewAt
    if (!at || this.#renewing || clock.now() < timestampDate(at).getTime()) return
    if (clock.mono() < this.#o.renewal.notBefore || this.#state.phase !== 'active') return
    this.#renewing = true
    this.#o.renewal.notBefore = clock.mono() + DAEMON.renewRetryMs
    // needed once in weeks, so it is not kept in memory
    import('./identity/renewal.ts')
      .then(({ renewByCall }) => renewByCall(settings, identity, this.#client))
      .then(({ generation }) => {
        log.info({ generation }, 'certificate renewed')
        this.#finish({ message: 'certificate renewed', activeMs: 0, renewed: true })
      })
      .catch((error: unknown) => log.warn(describeError(error), 'certificate was not renewed'))
      .finally(() => {
        this.#renewing = false
      })
  }

  #installTrust(bundle: TrustBundle): void {
    const { generation } = bundle
    const answer = (error: string): void => {
      this.#send(message({ case: 'trustApplied', value: { generation, error } }))
    }
    const error = installTrust(this.#o.settings, {
      generation: Number(generation),
      tlsCaPem: bundle.tlsCaPem.map((pem) => Buffer.from(pem).toString('utf8')),
      sshUserCaKeys: bundle.sshUserCaKeys,
      revokedSshSerials: bundle.revokedSshSerials.map(String),
      sshHostCaKey: bundle.sshHostCaKey,
    })
    const applied = error === undefined ? this.#o.onTrust?.() : Promise.reject(new Error(error))
    Promise.resolve(applied).then(
      () => answer(''),
      (failed: Error) => answer(failed.message.slice(0, 500)),
    )
  }

  #send(m: AgentMessage): boolean {
    if (this.#closed || this.#connect.destroyed) return false
    return this.#connect.write(m)
  }

  #say(reason: GoodbyeReason, text: string): void {
    this.#send(message({ case: 'goodbye', value: { reason, message: text } }))
    this.#connect.end()
  }

  #finish(end: SessionEnd): void {
    if (this.#closed) return
    this.#state = { ...this.#state, phase: 'ended' }
    this.#outbox?.close()
    this.#logs?.close()
    const leave = (): void => {
      this.#cut()
      this.#done.resolve(end)
    }
    this.#closed = true
    clearTimeout(this.#timer)
    this.#unlisten()
    // our own goodbye gets a moment to leave; otherwise there is nothing to wait for
    if (!this.#connect.writableEnded) leave()
    else {
      const late = setTimeout(leave, DAEMON.goodbyeMs)
      this.#connect.on('close', () => {
        clearTimeout(late)
        leave()
      })
    }
  }

  #cut(): void {
    this.#closed = true
    clearTimeout(this.#timer)
    this.#unlisten()
    this.#stopLooking()
    this.#observed?.close()
    this.#requests.close()
    this.#bulk.close()
    this.#logStream?.cancel()
    this.#connect.cancel()
    this.#client.close()
  }
}

const optional = <K extends string, V>(key: K, value: V | undefined): { [key in K]?: V } =>
  value === undefined ? {} : ({ [key]: value } as { [key in K]: V })
