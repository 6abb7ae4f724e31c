// Test support: a small control plane that speaks the real protocol over real mutual TLS and keeps what it receives in
// memory: events applied once and in order, log records without holes. Tests set what it wants and when it misbehaves.

import {
  type AgentMessage,
  AgentService,
  type Assignment,
  AssignmentSchema,
  AttemptState,
  type Event,
  forEachRecord,
  type Heartbeat,
  type Hello,
  type LogDown,
  LogDownSchema,
  parseLogUp,
  RenewCertificateResponseSchema,
  type ServerMessage,
  ServerMessageSchema,
  type ServiceHandlers,
  serviceDefinition,
} from '@berth/shared/wire'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js'
import { CONTROL_PLANE_NAME } from './channel.ts'
import type { Authority } from './identity/authority.testing.ts'

type Down = NonNullable<MessageInitShape<typeof ServerMessageSchema>['msg']>
type ConnectCall = ServerDuplexStream<AgentMessage, ServerMessage>
type LogCall = ServerDuplexStream<Buffer, LogDown>

export interface PeerOptions {
  heartbeatMs?: number
  timeoutMs?: number
  /** Answers the first Hello with this instead of Welcome. */
  firstAnswer?: Down
  renewAt?: Date
  /** Called instead of acknowledging immediately. */
  holdAcks?: boolean
  holdLogAcks?: boolean
}

function bare({ attemptId, environmentId, fence, desired }: Assignment): Assignment {
  return create(AssignmentSchema, { attemptId, environmentId, fence, desired })
}

export class Peer {
  readonly hellos: Hello[] = []
  readonly events: Event[] = []
  readonly heard: AgentMessage[] = []
  readonly heartbeats: Heartbeat[] = []
  /** Attempt → records in order. */
  readonly logs = new Map<string, { seq: number; text: string }[]>()
  readonly logOpens: { attemptId: string; firstSeq: bigint; lastSeq: bigint }[][] = []
  readonly options: PeerOptions
  desired: Assignment[] = []
  epoch = 0n
  version = 100n
  ackedSeq = 0n
  /** The highest number of unacknowledged log bytes so far. */
  logBytesUnderWay = 0
  logBytesMost = 0
  connect: ConnectCall | undefined
  logStream: LogCall | undefined
  closed = 0
  readonly #authority: Authority
  #server: Server | undefined
  port = 0

  constructor(authority: Authority, options: PeerOptions = {}) {
    this.#authority = authority
    this.options = options
  }

  async listen(port = 0, name = CONTROL_PLANE_NAME): Promise<void> {
    const { key, cert } = await this.#authority.issueListener(name)
    const pair = { private_key: Buffer.from(key), cert_chain: Buffer.from(cert) }
    const tls = ServerCredentials.createSsl(Buffer.from(this.#authority.pem), [pair], true)
    const server = new Server({ 'grpc.max_receive_message_length': 1_048_576 })
    const handlers: Partial<ServiceHandlers<typeof AgentService>> = {
      connect: (call) => this.#onConnect(call),
      streamLogs: (call) => this.#onLogs(call as unknown as LogCall),
      renewCertificate: (call, done) => {
        const csr = `-----BEGIN CERTIFICATE REQUEST-----\n${Buffer.from(call.request.csrDer)
          .toString('base64')
          .replace(/.{64}/g, '$&\n')
          .trimEnd()}\n-----END CERTIFICATE REQUEST-----\n`
        this.#authority.issueAgent(csr).then((certificate) =>
          done(
            null,
            create(RenewCertificateResponseSchema, {
              certificatePem: Buffer.from(certificate),
              caPem: [Buffer.from(this.#authority.pem)],
              generation: call.request.generation + 1n,
            }),
          ),
        )
      },
    }
    const definition = serviceDefinition(AgentService, 'streamLogs')
    server.addService(
      definition,
      handlers as ServiceHandlers<typeof AgentService> & Record<string, never>,
    )
    this.port = await new Promise((resolve, reject) => {
      server.bindAsync(`127.0.0.1:${port}`, tls, (error, bound) =>
        error ? reject(error) : resolve(bound),
      )
    })
    this.#server = server
  }

  /** As if the control plane were killed. */
  stop(): void {
    this.#server?.forceShutdown()
    this.#server = undefined
  }

  send(msg: Down, epoch = this.epoch): void {
    this.connect?.write(create(ServerMessageSchema, { sessionEpoch: epoch, msg }))
  }

  sendLog(msg: NonNullable<MessageInitShape<typeof LogDownSchema>['msg']>): void {
    this.logStream?.write(create(LogDownSchema, { msg }))
  }

  /** Changes the desired set, as a live control plane does. */
  assign(assignment: Assignment): void {
    this.desired = [...this.desired.filter((a) => a.attemptId !== assignment.attemptId), assignment]
    const baseVersion = this.version++
    this.send({
      case: 'assignments',
      value: { baseVersion, version: this.version, assignments: [assignment] },
    })
  }

  ackEvents(): void {
    this.ackedSeq = this.events.at(-1)?.seq ?? this.ackedSeq
    this.send({ case: 'eventAck', value: { ackedSeq: this.ackedSeq } })
  }

  #onConnect(call: ConnectCall): void {
    this.connect = call
    const mine = ++this.epoch
    const gone = (): void => {
      this.closed++
      if (this.connect === call) this.connect = undefined
    }
    call.on('error', () => {})
    call.on('cancelled', gone)
    call.on('end', () => {
      gone()
      call.end()
    })
    call.on('data', (m: AgentMessage) => {
      this.heard.push(m)
      this.#onMessage(m, mine)
    })
  }

  #onMessage({ msg }: AgentMessage, epoch: bigint): void {
    switch (msg.case) {
      case 'hello':
        this.#onHello(msg.value, epoch)
        break
      case 'events':
        for (const event of msg.value.events) {
          const last = this.events.at(-1)?.seq ?? 0n
          if (event.seq <= last) continue
          if (event.seq !== last + 1n) throw new Error(`a hole before event ${event.seq}`)
          this.events.push(event)
        }
        if (!this.options.holdAcks) this.ackEvents()
        break
      case 'heartbeat':
        this.heartbeats.push(msg.value)
        this.send({ case: 'heartbeatAck', value: { n: msg.value.n } })
        break
    }
  }

  #onHello(hello: Hello, epoch: bigint): void {
    this.hellos.push(hello)
    const { firstAnswer, heartbeatMs = 10_000, timeoutMs = 30_000, renewAt } = this.options
    if (firstAnswer && this.hellos.length === 1) {
      this.send(firstAnswer, epoch)
      return
    }
    this.send({
      case: 'welcome',
      value: {
        protocol: 1,
        sessionId: `session-${epoch}`,
        heartbeatInterval: durationFromMs(heartbeatMs),
        sessionTimeout: durationFromMs(timeoutMs),
        ackedEventSeq: this.ackedSeq,
        ...(renewAt ? { renewAt: { seconds: BigInt(Math.floor(renewAt.getTime() / 1_000)) } } : {}),
      },
    })
    this.version++
    for (const assignment of this.desired) {
      const assignments = [this.#hasStarted(assignment) ? bare(assignment) : assignment]
      const value = { complete: true, version: this.version, assignments }
      this.send({ case: 'assignments', value })
    }
    this.send({ case: 'assignments', value: { complete: true, last: true, version: this.version } })
  }

  /** An attempt that is known to have started is never described again. */
  #hasStarted({ attemptId }: Assignment): boolean {
    return this.events.some(
      ({ attemptId: of, body }) =>
        of === attemptId && body.case === 'attempt' && body.value.state >= AttemptState.STARTING,
    )
  }

  #onLogs(call: LogCall): void {
    this.logStream = call
    this.logBytesUnderWay = 0
    call.on('error', () => {})
    call.on('end', () => call.end())
    call.on('data', (bytes: Buffer) => {
      const message = parseLogUp(bytes)
      if (message.kind === 'open') {
        this.logOpens.push(message.open.cursors)
        const from = message.open.cursors.map(({ attemptId }) => ({
          attemptId,
          ackedSeq: BigInt(this.logs.get(attemptId)?.length ?? 0),
        }))
        this.sendLog({ case: 'resume', value: { from } })
        return
      }
      const { attemptId, firstSeq, records } = message
      const stored = this.logs.get(attemptId) ?? []
      this.logs.set(attemptId, stored)
      let seq = firstSeq
      forEachRecord(records, (_time, _source, _step, start, end) => {
        if (seq === stored.length + 1) {
          stored.push({ seq, text: records.toString('utf8', start, end) })
        } else if (seq > stored.length + 1) throw new Error(`a hole before record ${seq}`)
        seq++
      })
      this.logBytesUnderWay += bytes.length
      this.logBytesMost = Math.max(this.logBytesMost, this.logBytesUnderWay)
      if (!this.options.holdLogAcks) this.ackLogs()
    })
  }

  ackLogs(): void {
    this.logBytesUnderWay = 0
    for (const [attemptId, stored] of this.logs) {
      this.sendLog({ case: 'ack', value: { attemptId, ackedSeq: BigInt(stored.length) } })
    }
  }
}
