// The turn of a request with an Idempotency-Key, known to every change that the request makes. The first commit notes
// on the key's row that there is an effect, in its own transaction: from then on the key is not free again, even if the
// reply is lost. A turn that a repetition took over commits nothing any more.
import { AsyncLocalStorage } from 'node:async_hooks'
import { AppError } from '@berth/shared'
import { noteRequestEffect } from '../../store/core/idempotency.ts'
import type { Change } from './change.ts'

/** The right to run this request; the caller returns it with the reply. */
export interface Turn {
  id: number
  startedAt: number
  /** What its route creates, such as `task`; undefined if it creates nothing. */
  creates: string | undefined
}

const turns = new AsyncLocalStorage<Turn>()

/** `work` and all that it starts belong to the turn. */
export const runInTurn = <T>(turn: Turn, work: () => T): T => turns.run(turn, work)

/** For what does not belong to the request that happens to start it, such as listeners of wake-ups. */
export const runOutsideTurns = <T>(work: () => T): T => turns.exit(work)

/** `change` calls this before its commit. */
export async function noteEffect(c: Change): Promise<void> {
  const turn = turns.getStore()
  if (!turn) return
  const madeId = turn.creates === undefined ? null : findMade(c, turn.creates)
  const effect = { ...turn, effectAt: c.now, madeId }
  if (!(await noteRequestEffect(c.db, effect))) throw inFlight()
}

function findMade(c: Change, kind: string): number | null {
  const task = kind === 'task' && c.events.find((event) => event.kind === 'task.queued')
  if (task) return task.taskId ?? null
  const made = c.audits.find((entry) => entry.subjectType === kind)?.subjectId
  const id = Number(made)
  return Number.isSafeInteger(id) && id > 0 ? id : null
}

export const inFlight = (): AppError =>
  new AppError(
    'idempotency_in_flight',
    'The first request with this Idempotency-Key is still running. Repeat it in a moment.',
  )
