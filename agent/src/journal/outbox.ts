// Events that wait for the control plane: numbered without holes per journal, kept until acknowledged, never evicted.
// The transaction that writes an event also assigns its number.

import { EVENTS } from '@berth/shared'
import { AttemptChangedSchema, type Event, EventSchema } from '@berth/shared/wire'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { Database, Statement } from 'better-sqlite3'

interface NewEvent {
  /** Empty for events of the agent itself. */
  attemptId: string
  fence: bigint
  atMs: number
  body: Event['body']
  /** Position in the runner's events.log; absent for events of the daemon. */
  ordinal?: number
}

interface OutboxRow {
  seq: bigint
  /** Encoded Event, its seq included. */
  body: Buffer
}

/** An event over the limit is shortened or replaced, so that it cannot block those after it. */
function bound(event: Event): Uint8Array {
  const bytes = toBinary(EventSchema, event)
  if (bytes.length <= EVENTS.eventBytes) return bytes
  if (event.body.case === 'attempt') {
    const { value } = event.body
    const message = value.message.slice(0, EVENTS.messageBytes)
    const failedStepId = value.failedStepId.slice(0, EVENTS.messageBytes)
    const signal = value.signal.slice(0, 32)
    const short = create(AttemptChangedSchema, { ...value, message, failedStepId, signal })
    return toBinary(EventSchema, { ...event, body: { case: 'attempt', value: short } })
  }
  const message = `A report of ${bytes.length} bytes (${event.body.case}) is over the limit and was left out.`
  const warning = { code: 'event_too_large', message }
  const body = { case: 'warning' as const, value: warning }
  const { $typeName, ...rest } = event
  return toBinary(EventSchema, create(EventSchema, { ...rest, body }))
}

export class Outbox {
  readonly #take: Statement
  readonly #insert: Statement
  readonly #range: Statement
  readonly #read: Statement
  readonly #drop: Statement
  readonly #any: Statement
  #appended = false

  constructor(db: Database) {
    this.#take = db.prepare(
      'update meta set next_event_seq = next_event_seq + 1 returning next_event_seq - 1 as seq',
    )
    this.#insert = db.prepare(
      'insert into outbox (seq, attempt_id, ordinal, body) values (?, ?, ?, ?)',
    )
    this.#range = db.prepare(
      'select (select min(seq) from outbox) as first, next_event_seq as next from meta',
    )
    this.#read = db.prepare('select seq, body from outbox where seq > ? order by seq limit ?')
    this.#drop = db.prepare('delete from outbox where seq <= ?')
    this.#any = db.prepare('select 1 from outbox where attempt_id = ? limit 1')
  }

  /** Call inside a transaction of the journal. */
  append(event: NewEvent): bigint {
    const { seq } = this.#take.get() as { seq: bigint }
    const message = create(EventSchema, {
      seq,
      at: timestampFromMs(event.atMs),
      attemptId: event.attemptId,
      fence: event.fence,
      body: event.body,
    })
    this.#insert.run(seq, event.attemptId, event.ordinal ?? null, Buffer.from(bound(message)))
    this.#appended = true
    return seq
  }

  /** Oldest first, at most `count`. */
  read(afterSeq: bigint, count: number): OutboxRow[] {
    return this.#read.all(afterSeq, count) as OutboxRow[]
  }

  /** `first` is last + 1 when the outbox is empty. */
  range(): { first: bigint; last: bigint } {
    const { first, next } = this.#range.get() as { first: bigint | null; next: bigint }
    return { first: first ?? next, last: next - 1n }
  }

  /** Whether events of this attempt still wait. */
  holds(attemptId: string): boolean {
    return this.#any.get(attemptId) !== undefined
  }

  drop(throughSeq: bigint): void {
    this.#drop.run(throughSeq)
  }

  /** Whether an event was appended since the last call; the journal asks after each commit. */
  takeAppended(): boolean {
    const appended = this.#appended
    this.#appended = false
    return appended
  }
}

export const decodeEvent = (row: OutboxRow): Event => fromBinary(EventSchema, row.body)
