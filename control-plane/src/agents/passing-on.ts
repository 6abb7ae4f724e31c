// Passes on an upload that arrived here to the control plane that expects it, frame by frame: a slow reader there stops
// the agent. The peer checks that it expects exactly this transfer from exactly this agent.
import type { ContainerLogFrame, FileFrame } from '@berth/shared/wire'
import { DeliverRefusal } from '@berth/shared/wire/peers'
import type { Delivered, Delivery, Peers } from '../peers/peers.ts'
import type { Done, Frames, RefusedUpload, Sink, TransferKind, Upload } from './uploads.ts'

interface Target<K extends TransferKind> {
  replicaId: string
  agentId: string
  kind: K
}

const LOST: RefusedUpload = { reason: 'canceled', details: 'Its reader cannot be reached.' }

export class PassedUpload<K extends TransferKind> implements Sink<Frames[K]> {
  readonly #peers: Peers
  readonly #target: Target<K>
  #call: Upload<Frames[K]> | undefined
  #done: Done | undefined
  #delivery: Delivery | undefined
  /** What came before the peer was reached: little, because the upload is paused. */
  readonly #early: Frames[K][] = []
  #hasLast = false
  #isOver = false

  constructor(peers: Peers, target: Target<K>) {
    this.#peers = peers
    this.#target = target
  }

  get isComplete(): boolean {
    return this.#hasLast && !this.#isOver
  }

  begin(call: Upload<Frames[K]>, done: Done): void {
    this.#call = call
    this.#done = done
    call.pause()
    void this.#open(call)
  }

  take(frame: Frames[K]): void {
    if (this.#isOver) return
    this.#hasLast = frame.frame.case === 'end' || frame.frame.case === 'error'
    if (!this.#delivery) this.#early.push(frame)
    else if (!this.#write(this.#delivery, frame)) this.#call?.pause()
    if (this.#hasLast) this.#delivery?.end()
  }

  ended(): void {
    if (!this.#hasLast) this.fail()
  }

  fail(): void {
    this.#delivery?.cancel()
    this.#finish({ reason: 'canceled', details: 'It was cut.' })
  }

  async #open(call: Upload<Frames[K]>): Promise<void> {
    const delivery = await this.#peers.deliver(this.#target, (delivered) =>
      this.#finish(refusalOf(delivered)),
    )
    if (!delivery) {
      this.#finish(LOST)
      return
    }
    if (this.#isOver) {
      delivery.cancel()
      return
    }
    this.#delivery = delivery
    delivery.onDrain(() => call.resume())
    let isFree = true
    for (const frame of this.#early.splice(0)) isFree = this.#write(delivery, frame)
    if (this.#hasLast) delivery.end()
    if (isFree) call.resume()
  }

  #write(delivery: Delivery, frame: Frames[K]): boolean {
    return this.#target.kind === 'file'
      ? delivery.file(frame as FileFrame)
      : delivery.containerLogs(frame as ContainerLogFrame)
  }

  #finish(refused: RefusedUpload | null): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#early.length = 0
    this.#done?.(refused)
    this.#call?.resume() // further frames are read and dropped, so that the stream can end
  }
}

function refusalOf(delivered: Delivered): RefusedUpload | null {
  switch (delivered) {
    case DeliverRefusal.UNSPECIFIED:
      return null
    case DeliverRefusal.LATE:
      return { reason: 'late', details: 'Its reader did not get it in time.' }
    case DeliverRefusal.UNEXPECTED:
      return { reason: 'unexpected', details: 'No such transfer is expected.' }
    case 'lost':
      return LOST
    default:
      return { reason: 'canceled', details: 'It is no longer wanted.' }
  }
}
