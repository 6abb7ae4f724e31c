// Calls to other control planes: questions to agents that they hold, and uploads that they expect. Every call ends: with
// its answer, its caller, its deadline, or the peer.
import type { TLSSocket } from 'node:tls'
import {
  type ContainerLogFrame,
  encodeBytes,
  encodeMessage,
  type FileFrame,
  openRawUpload,
  type Request,
  type Response,
} from '@berth/shared/wire'
import {
  type AskRefusal,
  AskRequestSchema,
  DeliverOpenSchema,
  type DeliverRefusal,
  DeliverRequestSchema,
  GrpcStatus,
  PeerService,
  TransferKind,
} from '@berth/shared/wire/peers'
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { PEERS } from '../limits/peers.ts'
import { type Directory, PeerConnections } from './connections.ts'
import type { OwnCertificate } from './own-certificate.ts'

interface Ask {
  replicaId: string
  agentId: string
  body: Request['body']
  /** How long the agent has to answer. */
  deadlineMs: number
  /** Aborted when the caller disconnects. */
  signal: AbortSignal
}

export type Asked =
  | { kind: 'answered'; body: Response['body'] }
  | { kind: 'refused'; refusal: AskRefusal }
  /** The agent was not asked. */
  | { kind: 'unreachable' }
  /** The peer was lost before it answered; the agent may have been asked. */
  | { kind: 'lost' }
  | { kind: 'late' }

export interface DeliveryTarget {
  replicaId: string
  agentId: string
  kind: 'file' | 'container_logs'
}

/** What became of an upload that was passed on: the answer of its peer, or `lost` with the peer. */
export type Delivered = DeliverRefusal | 'lost'

export class Peers {
  readonly #connections: PeerConnections
  #deliveries = 0

  constructor(own: OwnCertificate, directory: Directory) {
    this.#connections = new PeerConnections(own, directory)
  }

  close(): void {
    this.#connections.close()
  }

  /** Asks the agent that a peer holds. Rejects only with the reason of the signal, or if the database fails. */
  async ask({ replicaId, agentId, body, deadlineMs, signal }: Ask): Promise<Asked> {
    signal.throwIfAborted()
    const connection = await this.#connections.reach(replicaId)
    signal.throwIfAborted()
    if (!connection) return { kind: 'unreachable' }
    const request = create(AskRequestSchema, {
      agentId,
      request: { deadline: durationFromMs(deadlineMs), body },
    })
    const { promise, resolve } = Promise.withResolvers<Asked>()
    const deadline = Date.now() + deadlineMs + PEERS.askExtraMs
    const call = connection.client.ask(request, { deadline }, (error, answer) => {
      if (error?.code === GrpcStatus.DEADLINE_EXCEEDED) return resolve({ kind: 'late' })
      const result = answer?.result
      if (result?.case === 'response') resolve({ kind: 'answered', body: result.value.body })
      else if (result?.case === 'refusal') resolve({ kind: 'refused', refusal: result.value })
      else resolve({ kind: 'lost' })
    })
    const cancel = (): void => call.cancel()
    const done = connection.use(cancel)
    signal.addEventListener('abort', cancel, { once: true })
    const asked = await promise
    done()
    signal.removeEventListener('abort', cancel)
    signal.throwIfAborted()
    return asked
  }

  /** Begins to pass on an upload. Undefined if the peer cannot be reached, or too many are under way. */
  async deliver(
    target: DeliveryTarget,
    over: (delivered: Delivered) => void,
  ): Promise<Delivery | undefined> {
    if (this.#deliveries >= PEERS.deliveries) return undefined
    this.#deliveries += 1
    const connection = await this.#connections.reach(target.replicaId).catch(() => undefined)
    if (!connection) {
      this.#deliveries -= 1
      return undefined
    }
    const { method } = PeerService
    const call = openRawUpload(connection.client, PeerService, method.deliver, (error, answer) => {
      this.#deliveries -= 1
      done()
      over(error || !answer ? 'lost' : answer.refusal)
    })
    const delivery = new Delivery(call, target)
    const done = connection.use(() => delivery.cancel())
    return delivery
  }

  /** Joins an agent's bulk transfer with a connection to the peer that expects it; each ends with the other. */
  async passLine(
    { replicaId, agentId }: Pick<DeliveryTarget, 'replicaId' | 'agentId'>,
    socket: TLSSocket,
  ): Promise<void> {
    if (this.#deliveries >= PEERS.deliveries) {
      socket.destroy()
      return
    }
    this.#deliveries += 1
    socket.once('close', () => {
      this.#deliveries -= 1
    })
    const connection = await this.#connections.reach(replicaId).catch(() => undefined)
    const onward = await connection?.openLine()
    if (!onward || socket.destroyed) {
      onward?.destroy()
      socket.destroy()
      return
    }
    socket.once('close', () => onward.destroy())
    onward.once('close', () => socket.destroySoon()) // after the answer was sent
    const open = create(DeliverOpenSchema, { agentId, kind: TransferKind.FILE })
    onward.write(encodeMessage(toBinary(DeliverOpenSchema, open)))
    socket.pipe(onward).pipe(socket)
  }
}

type Call = ReturnType<typeof openRawUpload>
type Part = NonNullable<MessageInitShape<typeof DeliverRequestSchema>['part']>

const encode = (part: Part): Buffer =>
  Buffer.from(toBinary(DeliverRequestSchema, create(DeliverRequestSchema, { part })))

const FILE_DATA = DeliverRequestSchema.field.fileData.number
const KINDS = { file: TransferKind.FILE, container_logs: TransferKind.CONTAINER_LOGS } as const

/** An upload on its way to a peer. */
export class Delivery {
  readonly #call: Call
  #isOpen = false
  #isCanceled = false

  constructor(call: Call, { agentId, kind }: DeliveryTarget) {
    this.#call = call
    call.on('error', () => undefined) // the callback reports it
    // a call that is canceled before its first message left would stay open at the other end
    call.write(encode({ case: 'open', value: { agentId, kind: KINDS[kind] } }), () => {
      this.#isOpen = true
      if (this.#isCanceled) call.cancel()
    })
  }

  /** False: wait for `onDrain` before the next one. */
  file({ frame }: FileFrame): boolean {
    if (frame.case === 'data') return this.#call.write(encodeBytes(FILE_DATA, frame.value))
    const value = { $typeName: 'berth.agent.v1.FileFrame', frame } as const
    return this.#call.write(encode({ case: 'file', value }))
  }

  containerLogs(value: ContainerLogFrame): boolean {
    return this.#call.write(encode({ case: 'containerLogs', value }))
  }

  onDrain(listener: () => void): void {
    this.#call.on('drain', listener)
  }

  /** Everything was written; the answer comes when it was read. */
  end(): void {
    this.#call.end()
  }

  cancel(): void {
    this.#isCanceled = true
    if (this.#isOpen) this.#call.cancel()
  }
}
