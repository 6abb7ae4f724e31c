// Sends the outbox up the control stream while a session is ACTIVE: in order, within the window, a batch at most every
// 50 ms. Deletes acknowledged events lazily: a lost deletion costs nothing, since the next Welcome repeats what the
// control plane has.

import { DAEMON } from '@berth/shared'
import { type AgentMessage, AgentMessageSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import type { Clock } from '../clock.ts'
import type { Journal } from '../journal/journal.ts'
import { decodeEvent } from '../journal/outbox.ts'
import {
  acknowledge,
  nextSendAt,
  noticeAppended,
  type OutboxWindow,
  openWindow,
  takeBatch,
} from './outbox-window.ts'

/** Rows read for one batch; even the smallest events fill a message with fewer. */
const ROWS = 2_000

interface OutboxSenderOptions {
  journal: Journal
  clock: Clock
  /** False: the stream is full, call again after `resume`. */
  send: (message: AgentMessage) => boolean
  fail: (message: string) => void
}

export class OutboxSender {
  readonly #options: OutboxSenderOptions
  readonly #unlisten: () => void
  #window: OutboxWindow
  #timer: NodeJS.Timeout | undefined
  #sweep: NodeJS.Timeout | undefined
  #blocked = false
  #idle: (() => void)[] = []

  constructor(options: OutboxSenderOptions, ackedSeq: bigint) {
    this.#options = options
    this.#window = openWindow(ackedSeq)
    this.#unlisten = options.journal.onAppended(() => {
      this.#window = noticeAppended(this.#window)
      this.#plan()
    })
    this.#scheduleSweep()
    this.#plan()
  }

  acknowledged(seq: bigint): void {
    const next = acknowledge(this.#window, seq)
    if (!next) {
      this.#options.fail(`event ${seq} was acknowledged and never sent`)
      return
    }
    this.#window = next
    this.#scheduleSweep()
    this.#plan()
    this.#reportIdle()
  }

  /** The stream takes messages again. */
  resume(): void {
    this.#blocked = false
    this.#plan()
  }

  /** Resolves when everything in the outbox is acknowledged. */
  drained(): Promise<void> {
    return new Promise((resolve) => {
      this.#idle.push(resolve)
      this.#reportIdle()
    })
  }

  close(): void {
    this.#unlisten()
    clearTimeout(this.#timer)
    if (this.#sweep) {
      clearTimeout(this.#sweep)
      this.#dropAcknowledged()
    }
  }

  /** As if the process had died: writes nothing more. */
  kill(): void {
    this.#unlisten()
    clearTimeout(this.#timer)
    clearTimeout(this.#sweep)
  }

  #plan(): void {
    clearTimeout(this.#timer)
    if (this.#blocked) return
    const at = nextSendAt(this.#window)
    if (at === Number.POSITIVE_INFINITY) return
    const wait = at - this.#options.clock.mono()
    if (wait <= 0) this.#sendBatch()
    else this.#timer = setTimeout(() => this.#sendBatch(), Math.ceil(wait))
  }

  #sendBatch(): void {
    const { journal, clock, send } = this.#options
    const rows = journal.outbox.read(this.#window.sent, ROWS)
    const sized = rows.map((row) => ({ seq: row.seq, bytes: row.body.length }))
    const { window, count } = takeBatch(this.#window, sized, clock.mono())
    this.#window = window
    if (count > 0) {
      const events = rows.slice(0, count).map(decodeEvent)
      const msg = { case: 'events' as const, value: { events } }
      if (!send(create(AgentMessageSchema, { msg }))) this.#blocked = true
    }
    this.#plan()
  }

  #reportIdle(): void {
    if (this.#window.acked < this.#options.journal.outbox.range().last) return
    for (const resolve of this.#idle.splice(0)) resolve()
  }

  #scheduleSweep(): void {
    this.#sweep ??= setTimeout(() => {
      this.#sweep = undefined
      if (!this.#dropAcknowledged()) this.#scheduleSweep()
    }, DAEMON.sweepMs)
  }

  /** False on a full disk; an exception from a timer would end the daemon, and the end of a session would hang. */
  #dropAcknowledged(): boolean {
    const { journal } = this.#options
    try {
      if (journal.outbox.range().first > this.#window.acked) return true
      journal.transact(() => journal.outbox.drop(this.#window.acked))
      return true
    } catch {
      return false // a broken journal reports itself
    }
  }
}
