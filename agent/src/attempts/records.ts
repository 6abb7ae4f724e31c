// Writes changes of attempts: row, outbox event and report in one transaction, so that the journal and what the control
// plane receives cannot differ. Makes no decisions.

import { TASKS } from '@berth/shared'
import {
  type Assignment,
  AssignmentSchema,
  type AttemptChanged,
  AttemptChangedSchema,
  AttemptState,
  type Event,
} from '@berth/shared/wire'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import type { Clock } from '../clock.ts'
import type { AttemptRow, Tombstone } from '../journal/attempt-table.ts'
import type { Journal } from '../journal/journal.ts'

export interface Records {
  journal: Journal
  clock: Clock
}

type Change = MessageInitShape<typeof AttemptChangedSchema> & { state: AttemptState }

/**
 * The part of an assignment that may be stored: everything but the secrets and fields that this build does not know.
 */
export const encodeAssignment = (assignment: Assignment): Buffer => {
  const { secrets: _, ...rest } = assignment
  const bytes = toBinary(AssignmentSchema, create(AssignmentSchema, rest), {
    writeUnknownFields: false,
  })
  return Buffer.from(bytes)
}

const encodeChange = (change: AttemptChanged): Buffer =>
  Buffer.from(toBinary(AttemptChangedSchema, change))

export const readReport = (of: { report: Buffer }): AttemptChanged =>
  fromBinary(AttemptChangedSchema, of.report)

/** Includes the time, so that a repeated report still says when it happened. */
const makeReport = (r: Records, change: Change): AttemptChanged =>
  create(AttemptChangedSchema, { ...change, since: timestampFromMs(r.clock.now()) })

function queueEvent(r: Records, of: { id: string; fence: bigint }, value: AttemptChanged): void {
  const body = { case: 'attempt' as const, value }
  r.journal.outbox.append({ attemptId: of.id, fence: of.fence, atMs: r.clock.now(), body })
}

export function insertAttempt(
  r: Records,
  row: Omit<AttemptRow, 'report' | 'state'>,
  change: Change,
): void {
  const value = makeReport(r, change)
  r.journal.attempts.insert({ ...row, state: change.state, report: encodeChange(value) })
  queueEvent(r, row, value)
}

/** Sets a state that the daemon decides; `over` are other fields of the row that change with it. */
export function changeAttempt(
  r: Records,
  row: AttemptRow,
  change: Change,
  over: Partial<AttemptRow> = {},
): AttemptRow {
  const value = makeReport(r, change)
  const next = { ...row, ...over, state: change.state, report: encodeChange(value) }
  r.journal.transact(() => {
    r.journal.attempts.update(next)
    queueEvent(r, row, value)
  })
  return next
}

/** Reports the current state once more, exactly as the first time. */
export function repeatReport(r: Records, of: AttemptRow | Tombstone): void {
  const id = 'id' in of ? of.id : of.attemptId
  queueEvent(r, { id, fence: of.fence }, readReport(of))
}

/** Never seen here; the tombstone keeps a late RUNNING from starting it. */
export function buryUnseen(r: Records, assignment: Assignment, change: Change): void {
  const { attemptId, environmentId, fence } = assignment
  const value = makeReport(r, change)
  const report = encodeChange(value)
  const expiresAt = r.clock.now() + TASKS.tombstoneMs
  const { state } = change
  r.journal.attempts.bury({ attemptId, environmentId, fence, state, report, expiresAt })
  queueEvent(r, { id: attemptId, fence }, value)
}

export function forgetAttempt(r: Records, row: AttemptRow): void {
  const { id: attemptId, environmentId, fence, state, report } = row
  const expiresAt = r.clock.now() + TASKS.tombstoneMs
  r.journal.attempts.bury({ attemptId, environmentId, fence, state, report, expiresAt })
  r.journal.attempts.remove(attemptId)
}

export interface RunnerEvent {
  ordinal: number
  event: Event
}

/** States that a runner may report; the others are the daemon's or the control plane's. */
const OF_RUNNER: readonly AttemptState[] = [
  AttemptState.RUNNING,
  AttemptState.CANCELING,
  AttemptState.SUCCEEDED,
  AttemptState.FAILED,
  AttemptState.CANCELED,
  AttemptState.TIMED_OUT,
]

/**
 * Imports events of a runner's file into the outbox, each once. Attempt and fence come from the row, so a file cannot
 * speak for another attempt. Returns the updated row.
 */
export function importEvents(r: Records, id: string, events: readonly RunnerEvent[]): AttemptRow {
  return r.journal.transact(() => {
    let row = r.journal.attempts.find(id)
    if (!row) throw new Error(`attempt ${id} is not in the journal`)
    for (const { ordinal, event } of events) {
      if (ordinal <= row.importedOrdinal) continue
      const before: AttemptRow = { ...row, importedOrdinal: ordinal }
      const next: AttemptRow | undefined = event.body.case ? advanceRow(before, event) : undefined
      row = next ?? before
      if (next) {
        const atMs = event.at ? timestampMs(event.at) : r.clock.now()
        r.journal.outbox.append({
          attemptId: id,
          fence: row.fence,
          atMs,
          ordinal,
          body: event.body,
        })
      }
      r.journal.attempts.update(row)
    }
    return row
  })
}

/** The row after the event; undefined when the event is impossible. */
function advanceRow(row: AttemptRow, event: Event): AttemptRow | undefined {
  if (row.state >= AttemptState.SUCCEEDED) return undefined
  if (event.body.case !== 'attempt') return row
  const { value } = event.body
  if (isWait(value) && value.state === row.state) return withWait(row, value)
  if (!OF_RUNNER.includes(value.state) || value.state <= row.state) return undefined
  const since = event.at ? { since: event.at } : {}
  const report = encodeChange({ ...value, ...since })
  return { ...row, state: value.state, waitingFor: value.waitingFor, report }
}

/** Not a new state: a running attempt waits for a build slot, or no longer does. */
const isWait = ({ state }: AttemptChanged): boolean => state === AttemptState.RUNNING

/** The report still says when the attempt began to run. */
function withWait(row: AttemptRow, value: AttemptChanged): AttemptRow {
  const { since } = readReport(row)
  const report = encodeChange({ ...value, ...(since ? { since } : {}) })
  return { ...row, waitingFor: value.waitingFor, report }
}
