// A simulated agent: the rules of the real one (session-rules.ts, backoff.ts) over real TLS and HTTP/2, with a journal in
// memory. Its deployments only wait and write lines; it reports their events and logs like the real one, and again after
// each reconnect until they are acknowledged.
import { createHash, randomUUID } from 'node:crypto'
import { VERSION } from '@berth/shared'
import {
  AgentMessageSchema,
  type Assignment,
  AttemptState,
  Desired,
  type EventSchema,
  encodeChunk,
  encodeLogOpen,
  encodeRecord,
  FailureCode,
  LogDownSchema,
  LogSource,
  RequestErrorCode,
  recordSize,
  ServerMessageSchema,
  StepState,
  sumData,
} from '@berth/shared/wire'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { durationFromMs, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { decideNext, type SessionEnd, waitBeforeTry } from '../../../agent/src/link/backoff.ts'
import {
  type Effect,
  nextTickAt,
  type Phase,
  type SessionEvent,
  type SessionState,
  startSession,
  stepSession,
} from '../../../agent/src/link/session-rules.ts'
import type { NewOp } from '../../histories/history.ts'
import { digestOf } from './flow.ts'
import { type Call, Connection, type Credentials } from './wire.ts'

type Body = NonNullable<MessageInitShape<typeof AgentMessageSchema>['msg']>
type Fact = MessageInitShape<typeof EventSchema>
type FactBody = NonNullable<Fact['body']>

export interface Identity {
  id: string
  certificate: string
}

export interface Fleet {
  endpoint: { host: string; port: number }
  credentials: Omit<Credentials, 'certificate'>
  lines: number
  runMs: number
  note: (op: NewOp) => void
  onEnd: (end: SessionEnd) => void
}

interface Held {
  id: string
  environment: number
  task: number
  fence: bigint
  state: AttemptState
  lines: string[]
  finalSeq: number
  timer: NodeJS.Timeout | undefined
}

const USAGE_EVERY = 60_000
const EVENTS_PER_BATCH = 50
const HOST = {
  hostname: 'simulated',
  os: 'linux',
  arch: 'x64',
  bootId: 'boot',
  dockerVersion: '',
  maxParallel: 4,
  cpus: 2,
  memoryBytes: 4_000_000_000n,
  diskBytes: 40_000_000_000n,
  diskFreeBytes: 20_000_000_000n,
  parts: [{ name: 'git', version: '2.39.5' }],
}

const mono = (): number => performance.now()

export class SimulatedAgent {
  readonly id: string
  phase: Phase | 'waiting' = 'waiting'
  readonly #fleet: Fleet
  readonly #credentials: Credentials
  readonly #instanceId = randomUUID()
  readonly #journalId = randomUUID()
  readonly #held = new Map<string, Held>()
  readonly #fences = new Map<number, bigint>()
  /** Not acknowledged yet, oldest first. */
  #events: (Fact & { seq: bigint })[] = []
  #lastSeq = 0n
  #sentSeq = 0n
  #version = 0n
  #previousSessionId = ''
  #session: RunningSession | undefined
  #window = 0
  #spreadMs = 0
  #usageAt = mono() - Math.random() * USAGE_EVERY
  #stopped = false

  constructor(identity: Identity, fleet: Fleet) {
    this.id = identity.id
    this.#fleet = fleet
    this.#credentials = { ...fleet.credentials, certificate: identity.certificate }
  }

  /** Dials after `waitMs`, then stays connected. */
  async run(waitMs: number): Promise<void> {
    await sleep(waitMs)
    let dial: 'at_once' | 'in_window' = 'at_once'
    while (!this.#stopped) {
      const began = mono()
      if (dial === 'in_window') {
        await sleep(waitBeforeTry(this.#window, Math.random(), this.#spreadMs))
      }
      const end = await this.#connect()
      this.#fleet.onEnd(end)
      this.#setPhase('waiting')
      this.#spreadMs = end.spreadMs ?? this.#spreadMs
      const next = decideNext(end, this.#window, mono() - began, Math.random(), this.#spreadMs)
      if (next.do === 'stop') return
      await sleep(next.waitMs)
      this.#window = next.n
      dial = next.dial
    }
  }

  stop(): void {
    this.#stopped = true
    this.#session?.cut()
  }

  get unacknowledged(): number {
    return this.#events.length
  }

  get live(): number {
    return [...this.#held.values()].filter(({ state }) => state < AttemptState.SUCCEEDED).length
  }

  #setPhase(phase: Phase | 'waiting'): void {
    this.phase = phase
  }

  #connect(): Promise<SessionEnd> {
    return new Promise((resolve) => {
      this.#session = new RunningSession(
        { endpoint: this.#fleet.endpoint, credentials: this.#credentials, version: this.#version },
        {
          perform: (effect) => this.#perform(effect),
          onPhase: (phase) => this.#setPhase(phase),
          onEnd: (end) => {
            this.#session = undefined
            resolve(end)
          },
          onLog: (bytes) => this.#takeLog(bytes),
        },
      )
    })
  }

  #perform(effect: Effect): void {
    const session = this.#session
    if (!session) return
    switch (effect.do) {
      case 'hello':
        session.send({ case: 'hello', value: this.#hello() })
        break
      case 'waiting':
        session.send({ case: 'waiting', value: { n: effect.n } })
        break
      case 'welcome':
        this.#previousSessionId = effect.welcome.sessionId
        session.sessionId = effect.welcome.sessionId
        this.#acknowledge(effect.welcome.ackedEventSeq, true)
        break
      case 'apply':
        this.#version = effect.version
        for (const assignment of effect.assignments) this.#apply(assignment)
        session.send({ case: 'applied', value: { version: effect.version } })
        break
      case 'activate':
        this.#activate(session)
        break
      case 'ack':
        this.#acknowledge(effect.seq, false)
        break
      case 'heartbeat':
        this.#beat(session, effect.n)
        break
      case 'trust': {
        const { generation } = effect.bundle
        session.send({ case: 'trustApplied', value: { generation, error: '' } })
        break
      }
      case 'answer': {
        const error = { code: RequestErrorCode.UNSUPPORTED, message: 'A simulated agent.' }
        const { requestId } = effect.request
        const body = { case: 'error' as const, value: error }
        session.send({ case: 'response', value: { requestId, body } })
        break
      }
    }
  }

  #hello() {
    return {
      protocolMin: 1,
      protocolMax: 1,
      agentVersion: VERSION,
      capabilities: ['manual', 'retell', 'waits'],
      instanceId: this.#instanceId,
      journalId: this.#journalId,
      lastEventSeq: this.#lastSeq,
      firstEventSeq: this.#events[0]?.seq ?? this.#lastSeq + 1n,
      previousSessionId: this.#previousSessionId,
      host: HOST,
      agentTime: timestampFromMs(Date.now()),
      attempts: [...this.#held.values()].map((held) => ({
        attemptId: held.id,
        fence: held.fence,
        state: held.state,
        lastLogSeq: BigInt(held.lines.length),
        secretsHeld: true,
        environmentId: held.environment,
      })),
      fences: [...this.#fences].map(([environmentId, fence]) => ({ environmentId, fence })),
    }
  }

  #beat(session: RunningSession, n: bigint): void {
    const isDue = mono() - this.#usageAt >= USAGE_EVERY
    if (isDue) this.#usageAt = mono()
    const usage = {
      at: timestampFromMs(Date.now()),
      cpuPermille: Math.floor(Math.random() * 1_000),
      memoryUsedBytes: 1_000_000_000n,
      memoryBytes: HOST.memoryBytes,
      diskUsedBytes: 20_000_000_000n,
      diskBytes: HOST.diskBytes,
      loadHundredths: 42,
      environments: [...this.#fences.keys()].map((environmentId) => ({
        environmentId,
        memoryBytes: 50_000_000n,
        diskBytes: 100_000_000n,
        cpuPermille: 3,
      })),
    }
    session.send({
      case: 'heartbeat',
      value: {
        n,
        agentTime: timestampFromMs(Date.now()),
        liveAttemptIds: [],
        diskFreeBytes: HOST.diskFreeBytes,
        dockerOk: true,
        proxyOk: true,
        ...(isDue ? { usage } : {}),
      },
    })
  }

  #activate(session: RunningSession): void {
    this.#sendEvents()
    const logs = [...this.#held.values()].filter(({ lines }) => lines.length > 0)
    session.openLogs(
      logs.map(({ id, lines }) => ({ attemptId: id, firstSeq: 1, lastSeq: lines.length })),
    )
    const observed = { complete: true, last: true, environments: [], host: HOST }
    session.send({ case: 'observed', value: observed })
  }

  // ---- attempts

  #apply(assignment: Assignment): void {
    const held = this.#held.get(assignment.attemptId)
    if (assignment.desired === Desired.FORGOTTEN) {
      clearTimeout(held?.timer)
      this.#held.delete(assignment.attemptId)
    } else if (assignment.desired === Desired.STOPPED) {
      if (held) this.#stop(held)
    } else if (!held) this.#accept(assignment)
  }

  #accept({ attemptId, environmentId, taskId, fence }: Assignment): void {
    const held: Held = {
      id: attemptId,
      environment: environmentId,
      task: taskId,
      fence,
      state: AttemptState.ASSIGNED,
      lines: [],
      finalSeq: 0,
      timer: undefined,
    }
    this.#held.set(attemptId, held)
    const highest = this.#fences.get(environmentId) ?? 0n
    if (fence <= highest) {
      const code = FailureCode.STALE_FENCE
      this.#change(held, AttemptState.REFUSED, { code, message: 'There was a newer one.' })
      return
    }
    this.#fences.set(environmentId, fence)
    this.#note('invoke', held)
    this.#change(held, AttemptState.ACCEPTED)
    this.#change(held, AttemptState.STARTING)
    this.#change(held, AttemptState.RUNNING)
    const phases = [{ name: 'run', title: 'Run', steps: [{ stepId: '1', title: 'Play' }] }]
    this.#emit(held, { case: 'plan', value: { phases } })
    this.#emit(held, { case: 'step', value: { stepId: '1', state: StepState.RUNNING } })
    this.#say(held, this.#fleet.lines / 2)
    const runMs = this.#fleet.runMs * (0.5 + Math.random())
    held.timer = setTimeout(() => this.#succeed(held), runMs)
    this.#sendEvents()
  }

  #succeed(held: Held): void {
    this.#say(held, this.#fleet.lines - held.lines.length)
    const commitSha = createHash('sha1').update(held.id).digest('hex')
    this.#emit(held, { case: 'commit', value: { commitSha, subject: 'A change' } })
    const range = { firstLogSeq: 1n, lastLogSeq: BigInt(held.lines.length) }
    const duration = durationFromMs(1_000)
    const step = { stepId: '1', state: StepState.SUCCEEDED, ...range, duration }
    this.#emit(held, { case: 'step', value: step })
    this.#emit(held, { case: 'services', value: { services: [] } })
    this.#note('ok', held)
    this.#change(held, AttemptState.SUCCEEDED, this.#endOfLog(held))
    this.#sendEvents()
  }

  #stop(held: Held): void {
    if (held.state >= AttemptState.SUCCEEDED) return
    clearTimeout(held.timer)
    this.#note('info', held)
    this.#change(held, AttemptState.CANCELING)
    this.#change(held, AttemptState.CANCELED, this.#endOfLog(held))
    this.#sendEvents()
  }

  #endOfLog(held: Held) {
    held.finalSeq = held.lines.length
    const text = held.lines.join('')
    return {
      finalLogSeq: BigInt(held.finalSeq),
      logSha256: createHash('sha256').update(text).digest(),
      logBytesTotal: BigInt(Buffer.byteLength(text)),
    }
  }

  #change(
    held: Held,
    state: AttemptState,
    more: Extract<FactBody, { case: 'attempt' }>['value'] = {},
  ): void {
    held.state = state
    this.#emit(held, { case: 'attempt', value: { ...more, state } })
  }

  /** The application's own record of what it did. */
  #note(type: 'invoke' | 'ok' | 'info', held: Held): void {
    const { id: attempt, environment, task, fence } = held
    this.#fleet.note({ f: 'run', type, environment, task, attempt, fence: Number(fence) })
    if (type !== 'ok') return
    this.#fleet.note({ f: 'written', type, task, digest: digestOf(held.lines.join('')) })
  }

  // ---- events and logs

  #emit(held: Held, body: FactBody): void {
    this.#lastSeq += 1n
    const { id: attemptId, fence } = held
    const at = timestampFromMs(Date.now())
    this.#events.push({ seq: this.#lastSeq, at, attemptId, fence, body })
  }

  #sendEvents(): void {
    if (this.phase !== 'active' && this.#session?.phase !== 'active') return
    const unsent = this.#events.filter(({ seq }) => seq > this.#sentSeq)
    for (let at = 0; at < unsent.length; at += EVENTS_PER_BATCH) {
      const events = unsent.slice(at, at + EVENTS_PER_BATCH)
      this.#session?.send({ case: 'events', value: { events } })
    }
    this.#sentSeq = this.#lastSeq
  }

  #acknowledge(seq: bigint, isFirst: boolean): void {
    this.#events = this.#events.filter((event) => event.seq > seq)
    if (isFirst) this.#sentSeq = seq
  }

  #say(held: Held, count: number): void {
    const from = held.lines.length
    for (let i = 0; i < count; i += 1) held.lines.push(`${held.id} line ${from + i + 1}\n`)
    this.#session?.sendLog(held.id, held.fence, from, held.lines)
  }

  #takeLog(bytes: Buffer): void {
    const { msg } = fromBinary(LogDownSchema, bytes)
    if (msg.case !== 'resume') return
    if (this.#session) this.#session.hasLogs = true
    const from = new Map(msg.value.from.map((ack) => [ack.attemptId, Number(ack.ackedSeq)]))
    const isFirst = !this.#session?.wasResumed
    if (this.#session) this.#session.wasResumed = true
    for (const held of this.#held.values()) {
      // after the first answer, only what it names
      const acked = from.get(held.id) ?? (isFirst ? 0 : undefined)
      if (acked === undefined || held.lines.length <= acked) continue
      this.#session?.sendLog(held.id, held.fence, acked, held.lines)
    }
  }
}

interface Hooks {
  perform: (effect: Effect) => void
  onPhase: (phase: Phase) => void
  onEnd: (end: SessionEnd) => void
  onLog: (bytes: Buffer) => void
}

/** One connection from dialing to its end. */
class RunningSession {
  sessionId = ''
  hasLogs = false
  wasResumed = false
  readonly #hooks: Hooks
  readonly #connection: Connection
  #control: Call | undefined
  #logs: Call | undefined
  #state: SessionState
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(
    {
      endpoint,
      credentials,
      version,
    }: { endpoint: Fleet['endpoint']; credentials: Credentials; version: bigint },
    hooks: Hooks,
  ) {
    this.#hooks = hooks
    this.#state = startSession(version, mono())
    const failed = (why: string): void => this.#feed({ type: 'failed', message: why })
    this.#connection = new Connection(endpoint, credentials, {
      ready: () => {
        if (this.#isClosed) return
        this.#control = this.#connection.open('Connect', {
          message: (bytes) => {
            const message = fromBinary(ServerMessageSchema, bytes)
            this.#feed({ type: 'message', message })
          },
          end: failed,
        })
        this.#feed({ type: 'connected' })
      },
      failed,
    })
    // a session that has not begun is not known to its agent yet
    queueMicrotask(() => hooks.onPhase('dialing'))
    this.#plan()
  }

  get phase(): Phase {
    return this.#state.phase
  }

  send(msg: Body): void {
    this.#control?.send(toBinary(AgentMessageSchema, create(AgentMessageSchema, { msg })))
  }

  openLogs(cursors: Parameters<typeof encodeLogOpen>[1]): void {
    this.#logs = this.#connection.open('StreamLogs', {
      message: (bytes) => this.#hooks.onLog(bytes),
      end: (why) => this.#feed({ type: 'failed', message: `log stream: ${why}` }),
    })
    this.#logs.send(encodeLogOpen(this.sessionId, cursors))
  }

  /** Lines after the first `acked` ones; before the control plane named its position they wait. */
  sendLog(attemptId: string, fence: bigint, acked: number, lines: string[]): void {
    if (!this.hasLogs || !this.#logs || lines.length <= acked) return
    const records = Buffer.concat(
      lines.slice(acked).map((line) => {
        const data = Buffer.from(line)
        const head = [Date.now() * 1_000, LogSource.STDOUT, 0] as const
        const target = Buffer.alloc(recordSize(...head, data.length, false, 0, 0))
        encodeRecord(target, 0, ...head, data, 0, data.length)
        return target
      }),
    )
    const { crc32c } = sumData(records)
    this.#logs.send(encodeChunk(attemptId, fence, acked + 1, records, crc32c))
  }

  cut(): void {
    this.#feed({ type: 'failed', message: 'stopped' })
  }

  #feed(event: SessionEvent): void {
    if (this.#isClosed) return
    const before = this.#state.phase
    const { state, effects } = stepSession(this.#state, event, mono())
    this.#state = state
    for (const effect of effects) {
      if (effect.do === 'end') this.#finish(effect.end)
      else this.#hooks.perform(effect)
    }
    if (!this.#isClosed && state.phase !== before) this.#hooks.onPhase(state.phase)
    this.#plan()
  }

  #plan(): void {
    clearTimeout(this.#timer)
    if (this.#isClosed) return
    const wait = Math.max(1, Math.ceil(nextTickAt(this.#state) - mono()))
    this.#timer = setTimeout(() => this.#feed({ type: 'tick' }), wait)
  }

  #finish(end: SessionEnd): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#connection.cut()
    this.#hooks.onEnd(end)
  }
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
