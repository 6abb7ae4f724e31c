// Passes bytes from an agent to the reader that requested them. A transfer is registered before the request, accepted
// only from the expected agent, and limited in number, time and memory: a slow reader pauses the stream. It ends with
// the session, the reader or a timeout. Frames pass through unchanged; the reader interprets them. Its id names this
// control plane, so that any other one that receives the upload can pass it on.
import { randomUUID } from 'node:crypto'
import { AppError, TRANSFERS } from '@berth/shared'
import type { ContainerLogFrame, FileFrame } from '@berth/shared/wire'
import type { Peers } from '../peers/peers.ts'
import type { Db } from '../store/engine/db.ts'
import { type LiveAgents, offline } from './agent-rpc.ts'
import { PassedUpload } from './passing-on.ts'
import { SessionChecks } from './session-checks.ts'
import {
  BrokenTransfer,
  broken,
  type Done,
  type Frames,
  receive,
  type Sink,
  type TransferKind,
  type Upload,
} from './uploads.ts'

interface TransferOptions {
  /** From the registration to the header. */
  firstFrameMs: number
  /** Without a frame while the reader waits, or without a read while frames are queued. */
  idleMs: number
  /** Aborted when the reader disconnects. */
  signal: AbortSignal
}

interface ExpectedTransfer<F> {
  transferId: string
  /**
   * For one reader. Ends after the agent's last frame and throws if the stream broke before. The header is its first
   * frame.
   */
  frames: AsyncIterable<F>
  /** Ends an unwanted transfer; also needed if the agent refused to send it. */
  cancel(): void
}

const MOST = { file: TRANSFERS.files, container_logs: TRANSFERS.logStreams } as const

export class Transfers {
  readonly #open = new Map<string, Transfer<TransferKind>>()
  readonly #replicaId: string
  /** For those whose agent has its session elsewhere. */
  readonly checks: SessionChecks

  constructor(replicaId: string, db: Db) {
    this.#replicaId = replicaId
    this.checks = new SessionChecks(db)
  }

  newId(): string {
    return `${this.#replicaId}.${randomUUID()}`
  }

  /** The other control plane that expects this upload, if its id names one. */
  otherOwner(id: string): string | undefined {
    const owner = id.slice(0, Math.max(0, id.lastIndexOf('.')))
    return owner === '' || owner === this.#replicaId ? undefined : owner
  }

  add<K extends TransferKind>(transfer: Transfer<K>): void {
    const same = [...this.#open.values()].filter(
      (t) => t.agentId === transfer.agentId && t.kind === transfer.kind,
    )
    if (same.length >= MOST[transfer.kind]) {
      const message = `${same.length} transfers from this server are under way. Try again in a moment.`
      throw new AppError('transfers_busy', message)
    }
    this.#open.set(transfer.id, transfer)
  }

  remove(id: string): void {
    this.#open.delete(id)
  }

  /** Finds a registered transfer of exactly this agent that has not started yet. */
  find<K extends TransferKind>(agentId: string, kind: K, id: string): Transfer<K> | undefined {
    const found = this.#open.get(id)
    if (found?.agentId !== agentId || found.kind !== kind || found.isTaken) return undefined
    return found as unknown as Transfer<K>
  }
}

/** Registers an expected upload; pass the returned id in the request to the agent. */
export function expectTransfer<K extends TransferKind>(
  ctx: { agentRpc: LiveAgents; transfers: Transfers; peers: Peers | undefined },
  agentId: string,
  kind: K,
  o: TransferOptions,
): ExpectedTransfer<Frames[K]> {
  o.signal.throwIfAborted()
  const requests = ctx.agentRpc.find(agentId)
  if (!requests && !ctx.peers) throw offline()
  const transfer = new Transfer(ctx.transfers.newId(), agentId, kind, o)
  ctx.transfers.add(transfer)
  const end = (): void => transfer.fail(offline())
  const unwatch = requests ? requests.whenClosed(end) : ctx.transfers.checks.add(transfer, end)
  const left = (): void => transfer.fail(o.signal.reason)
  o.signal.addEventListener('abort', left, { once: true })
  transfer.whenOver(() => {
    ctx.transfers.remove(transfer.id)
    unwatch()
    o.signal.removeEventListener('abort', left)
  })
  return {
    transferId: transfer.id,
    frames: transfer.read(),
    cancel: () => transfer.fail(new BrokenTransfer('It was canceled.')),
  }
}

/** An upload of an agent, for a reader here or at another control plane. */
export function receiveUpload<K extends TransferKind>(
  ctx: { transfers: Transfers; peers: Peers | undefined },
  agentId: string,
  kind: K,
  call: Upload<Frames[K]>,
  done: Done,
): void {
  receive(call, done, (id) => {
    const replicaId = ctx.peers && ctx.transfers.otherOwner(id)
    if (!ctx.peers || replicaId === undefined) return ctx.transfers.find(agentId, kind, id)
    return new PassedUpload(ctx.peers, { replicaId, agentId, kind })
  })
}

/** An upload that another control plane passed on, for a reader here. */
export function receivePassedUpload<K extends TransferKind>(
  ctx: { transfers: Transfers },
  agentId: string,
  kind: K,
  call: Upload<Frames[K]>,
  done: Done,
): void {
  receive(call, done, (id) => ctx.transfers.find(agentId, kind, id))
}

const bytesOf = (frame: FileFrame | ContainerLogFrame): number => {
  if (frame.frame.case === 'data') return frame.frame.value.length
  if (frame.frame.case !== 'batch') return 64
  return frame.frame.value.lines.reduce((sum, line) => sum + line.data.length + 64, 64)
}

class Transfer<K extends TransferKind> implements Sink<Frames[K]> {
  readonly id: string
  readonly agentId: string
  readonly kind: K
  readonly #idleMs: number
  readonly #queue: Frames[K][] = []
  #queued = 0
  #call: Upload<Frames[K]> | undefined
  #paused = false
  #hasLast = false
  #done: Done | undefined
  #outcome: { error?: unknown } | undefined
  #isOver = false
  #notify: (() => void) | undefined
  #over: () => void = () => undefined
  #timer: NodeJS.Timeout

  constructor(id: string, agentId: string, kind: K, o: TransferOptions) {
    this.id = id
    this.agentId = agentId
    this.kind = kind
    this.#idleMs = o.idleMs
    this.#timer = this.#limit(o.firstFrameMs)
  }

  get isTaken(): boolean {
    return this.#call !== undefined
  }

  get isComplete(): boolean {
    return this.#hasLast && !this.#isOver
  }

  whenOver(over: () => void): void {
    this.#over = over
  }

  begin(call: Upload<Frames[K]>, done: Done): void {
    this.#call = call
    this.#done = done
    clearTimeout(this.#timer)
    this.#timer = this.#limit(this.#idleMs)
  }

  take(frame: Frames[K]): void {
    if (this.#outcome) return
    this.#timer.refresh()
    this.#hasLast = frame.frame.case === 'end' || frame.frame.case === 'error'
    this.#queue.push(frame)
    this.#queued += bytesOf(frame)
    if (this.#queued >= TRANSFERS.queueBytes && !this.#paused) {
      this.#paused = true
      this.#call?.pause()
    }
    this.#notify?.()
  }

  /** Queued frames are still read. */
  ended(): void {
    // grpc-js also reports a cut stream as ended, so only the last frame proves completeness
    if (!this.#hasLast) this.fail(broken())
    this.#outcome ??= {}
    this.#notify?.()
  }

  /** Applies even after the agent's end while frames are queued, because the reader then lacks a part. */
  fail(error: unknown): void {
    if (this.#isOver) return
    this.#queue.length = 0
    this.#outcome = { error }
    this.#notify?.()
    this.#finish({ reason: 'canceled', details: 'It is no longer wanted.' })
  }

  async *read(): AsyncGenerator<Frames[K], void, undefined> {
    try {
      for (;;) {
        const frame = this.#queue.shift()
        if (frame) {
          this.#queued -= bytesOf(frame)
          this.#resume()
          yield frame
          if (!this.#isOver) this.#timer.refresh()
          continue
        }
        if (this.#outcome) {
          if ('error' in this.#outcome) throw this.#outcome.error
          this.#finish(null)
          return
        }
        await new Promise<void>((resolve) => {
          this.#notify = resolve
        })
        this.#notify = undefined
      }
    } finally {
      this.fail(new BrokenTransfer('Nobody reads it any more.'))
    }
  }

  #resume(): void {
    if (!this.#paused || this.#queued > TRANSFERS.queueBytes / 2) return
    this.#paused = false
    this.#call?.resume()
  }

  #limit(ms: number): NodeJS.Timeout {
    const message = 'The server did not send in time. Try again.'
    return setTimeout(() => this.fail(new AppError('server_timeout', message)), ms)
  }

  #finish(error: Parameters<Done>[0]): void {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#done?.(error)
    this.#call?.resume() // further frames are read and dropped, so that the stream can end
    this.#over()
  }
}
