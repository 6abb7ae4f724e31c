// An agent that is only its messages: joined the real way, connected over real mutual TLS, but saying exactly what a test
// tells it to say. It stands for old, broken and hostile agents; the real daemon is tested in platform and real tests.
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join as joinPath } from 'node:path'
import {
  type AgentMessage,
  AgentMessageSchema,
  AgentService,
  type Assignment,
  type EventSchema,
  encodeChunk,
  encodeLogOpen,
  encodeRecord,
  type HelloSchema,
  type LogDown,
  LogSource,
  openRawStream,
  recordSize,
  type ServerMessage,
  sumData,
} from '@berth/shared/wire'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import type { ClientDuplexStream } from '@grpc/grpc-js'
import { openChannel } from '../agent/src/link/channel.ts'
import { type Identity, readIdentity } from '../agent/src/link/identity.ts'
import { join } from '../agent/src/link/join.ts'
import { readSettings } from '../agent/src/settings.ts'
import type { TestControlPlane } from './control-plane.ts'
import { until } from './lab.ts'

/** The message of a oneof's member. */
type ValueOf<M, C> = M extends { case: C; value: infer V } ? V : never
const ANSWER_MS = 10_000
type Hello = MessageInitShape<typeof HelloSchema>
type Event = MessageInitShape<typeof EventSchema>

export class WireAgent {
  readonly identity: Identity
  readonly #dir: string
  readonly #client: ReturnType<typeof openChannel>
  #journalId = randomUUID()
  instanceId = randomUUID()
  #seq = 0n

  private constructor(dir: string, identity: Identity) {
    this.#dir = dir
    this.identity = identity
    this.#client = openChannel(identity, identity.endpoints[0] ?? '')
  }

  static async join(cp: TestControlPlane, serverId: number, rejoin = false): Promise<WireAgent> {
    const dir = mkdtempSync(joinPath(tmpdir(), 'berth-wire-'))
    const settings = readSettings({ BERTH_STATE_DIR: dir, BERTH_DEV: '1' })
    const token = await cp.joinToken(serverId, rejoin)
    await join(settings, { url: cp.url, token, force: false })
    return new WireAgent(dir, readIdentity(settings))
  }

  /** The same disk with another certificate. */
  as(identity: Identity): WireAgent {
    const other = new WireAgent(this.#dir, identity)
    other.#journalId = this.#journalId
    return other
  }

  close(): void {
    this.#client.close()
    rmSync(this.#dir, { recursive: true, force: true })
  }

  /** Opens a stream and says hello; `over` changes what it says. */
  connect(over: Hello = {}): WireSession {
    const session = new WireSession(this.#client.connect(), this)
    session.send({
      case: 'hello',
      value: {
        protocolMin: 1,
        protocolMax: 1,
        agentVersion: '1.15.0',
        capabilities: ['manual'],
        instanceId: this.instanceId,
        journalId: this.journalId,
        lastEventSeq: this.#seq,
        firstEventSeq: this.#seq + 1n,
        ...over,
      },
    })
    return session
  }

  /** Connected, welcomed and in possession of its complete assignments. */
  async active(over: Hello = {}): Promise<WireSession> {
    const session = this.connect(over)
    await session.assignments()
    return session
  }

  get journalId(): string {
    return this.#journalId
  }

  nextSeq(): bigint {
    this.#seq += 1n
    return this.#seq
  }

  logs(sessionId: string, attemptIds: string[]): WireLogs {
    return new WireLogs(
      openRawStream(this.#client, AgentService, AgentService.method.streamLogs),
      sessionId,
      attemptIds,
    )
  }

  get client(): ReturnType<typeof openChannel> {
    return this.#client
  }
}

type Stream = ClientDuplexStream<AgentMessage, ServerMessage>
type Up = NonNullable<MessageInitShape<typeof AgentMessageSchema>['msg']>
type Down = ServerMessage['msg']['case']

export class WireSession {
  readonly #stream: Stream
  readonly #agent: WireAgent
  readonly received: ServerMessage[] = []
  ended = false
  error: Error | undefined

  constructor(stream: Stream, agent: WireAgent) {
    this.#stream = stream
    this.#agent = agent
    stream.on('error', (error) => {
      this.error = error
      this.ended = true
    })
    stream.on('data', (message: ServerMessage) => this.received.push(message))
    stream.on('end', () => {
      this.ended = true
    })
  }

  send(msg: Up): void {
    this.#stream.write(create(AgentMessageSchema, { msg }))
  }

  /** A fact with the next number; `seq` overrides it. */
  event(event: Event): bigint {
    const seq = event.seq ?? this.#agent.nextSeq()
    this.send({ case: 'events', value: { events: [{ ...event, seq }] } })
    return seq
  }

  async next<C extends NonNullable<Down>>(kind: C): Promise<ValueOf<ServerMessage['msg'], C>> {
    const message = await until(
      `a ${kind}`,
      () => {
        const at = this.received.findIndex((m) => m.msg.case === kind)
        return at < 0 ? undefined : this.received.splice(at, 1)[0]
      },
      ANSWER_MS,
    )
    return message.msg.value as unknown as ValueOf<ServerMessage['msg'], C>
  }

  /** Waits for a set, confirms it and gives what was assigned. */
  async assignments(): Promise<Assignment[]> {
    const all: Assignment[] = []
    for (;;) {
      const part = await this.next('assignments')
      all.push(...part.assignments)
      if (!part.last) continue
      this.send({ case: 'applied', value: { version: part.version } })
      return all
    }
  }

  cut(): void {
    this.#stream.cancel()
  }
}

export class WireLogs {
  readonly #stream: ClientDuplexStream<Buffer, LogDown>
  readonly received: LogDown[] = []
  ended = false

  constructor(stream: ClientDuplexStream<Buffer, LogDown>, sessionId: string, ids: string[]) {
    this.#stream = stream
    stream.on('error', () => {
      this.ended = true
    })
    stream.on('end', () => {
      this.ended = true
    })
    stream.on('data', (message: LogDown) => this.received.push(message))
    const cursors = ids.map((attemptId) => ({ attemptId, firstSeq: 1, lastSeq: 0 }))
    stream.write(encodeLogOpen(sessionId, cursors))
  }

  send(attemptId: string, fence: bigint, firstSeq: number, lines: string[], crc?: number): void {
    const records = Buffer.concat(
      lines.map((line) => {
        const data = Buffer.from(line)
        const head = [Date.now() * 1_000, LogSource.STDOUT, 0] as const
        const target = Buffer.alloc(recordSize(...head, data.length, false, 0, 0))
        encodeRecord(target, 0, ...head, data, 0, data.length)
        return target
      }),
    )
    const sum = sumData(records).crc32c
    this.#stream.write(encodeChunk(attemptId, fence, firstSeq, records, crc ?? sum))
  }

  async next<C extends NonNullable<LogDown['msg']['case']>>(
    kind: C,
  ): Promise<ValueOf<LogDown['msg'], C>> {
    const message = await until(
      `a log ${kind}`,
      () => {
        const at = this.received.findIndex((m) => m.msg.case === kind)
        return at < 0 ? undefined : this.received.splice(at, 1)[0]
      },
      ANSWER_MS,
    )
    return message.msg.value as unknown as ValueOf<LogDown['msg'], C>
  }
}
