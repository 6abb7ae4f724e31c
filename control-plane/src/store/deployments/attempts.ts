// Attempts and their steps. One attempt per environment is live (index); its state only rises (conditional update).
import { Desired, type StepState } from '@berth/shared/wire'
import type { Insertable, Selectable, Updateable } from 'kysely'
import { runCompiled } from '../engine/compiled.ts'
import type { Db } from '../engine/db.ts'
import type { AttemptStepsTable, AttemptsTable } from '../schema.ts'

export type Attempt = Selectable<AttemptsTable>
export type AttemptStep = Selectable<AttemptStepsTable>

const TERMINAL = 100

export async function insertAttempt(db: Db, row: Insertable<AttemptsTable>): Promise<void> {
  await db.insertInto('attempts').values(row).execute()
}

export const findAttempt = (db: Db, id: string): Promise<Attempt | undefined> =>
  db.selectFrom('attempts').selectAll().where('id', '=', id).executeTakeFirst()

export async function listAttemptsById(db: Db, ids: string[]): Promise<Map<string, Attempt>> {
  if (ids.length === 0) return new Map()
  const rows = await db.selectFrom('attempts').selectAll().where('id', 'in', ids).execute()
  return new Map(rows.map((row) => [row.id, row]))
}

/** They are reported by another identity of the same server from now on. */
export async function adoptAttempts(db: Db, ids: string[], agentId: string): Promise<void> {
  if (ids.length === 0) return
  await db.updateTable('attempts').set({ agentId }).where('id', 'in', ids).execute()
}

export const listTaskAttempts = (db: Db, taskId: number): Promise<Attempt[]> =>
  db.selectFrom('attempts').selectAll().where('taskId', '=', taskId).orderBy('number').execute()

/** What people are shown of an attempt: a row has three times as many columns. */
const SHOWN = [
  'id',
  'taskId',
  'number',
  'waitingFor',
  'failedStepId',
  'variablesRevision',
  'ackedLogSeq',
  'logBytes',
  'logLines',
  'logCompleteAt',
  'logExpiredAt',
  'logTruncated',
  'unreachableSince',
] as const satisfies readonly (keyof Attempt)[]
export type ShownAttempt = Pick<Attempt, (typeof SHOWN)[number]>

/** The newest attempt of each task: the one whose log and steps people see. */
export async function listNewestAttempts(
  db: Db,
  taskIds: number[],
): Promise<Map<number, ShownAttempt>> {
  if (taskIds.length === 0) return new Map()
  const rows = await runCompiled(
    db,
    `attempts of ${taskIds.length} tasks`,
    taskIds,
    () =>
      db
        .selectFrom('attempts')
        .select(SHOWN)
        .where('taskId', 'in', taskIds)
        .orderBy('taskId')
        .orderBy('number'), // in the order of its key: nothing is sorted
  )
  return new Map(rows.map((row) => [row.taskId, row]))
}

/** Tasks that wait because their server does as much as it may, each server's in the order in which it takes them. */
export const listBusyLine = (
  db: Db,
  serverIds: number[],
): Promise<{ taskId: number; serverId: number }[]> =>
  db
    .selectFrom('tasks')
    .innerJoin('attempts', 'attempts.taskId', 'tasks.id')
    .select(['attempts.taskId', 'tasks.serverId'])
    .where('tasks.status', '=', 'queued')
    .where('tasks.serverId', 'in', serverIds)
    .where('attempts.state', '<', TERMINAL)
    .where('attempts.waitingFor', '=', 'dispatch')
    .orderBy('attempts.id')
    .execute()

export const findLiveAttempt = (db: Db, taskId: number): Promise<Attempt | undefined> =>
  db
    .selectFrom('attempts')
    .selectAll()
    .where('taskId', '=', taskId)
    .where('state', '<', TERMINAL)
    .executeTakeFirst()

/** Everything an agent may still hold: live ones, and finished ones it has not been told to forget. */
export const listHeldAttempts = (db: Db, agentId: string): Promise<Attempt[]> =>
  db
    .selectFrom('attempts')
    .selectAll()
    .where('agentId', '=', agentId)
    .where('releasedAt', 'is', null)
    .orderBy('createdAt')
    .orderBy('id')
    .execute()

export const listLiveAttempts = (db: Db): Promise<Attempt[]> =>
  db.selectFrom('attempts').selectAll().where('state', '<', TERMINAL).execute()

/**
 * Finished attempts whose log has not arrived whole. Not asked by state: SQLite would take that index and walk through
 * everything that ever ended, each second.
 */
export const listIncompleteLogs = (db: Db, finishedBefore: number): Promise<Attempt[]> =>
  db
    .selectFrom('attempts')
    .selectAll()
    .where('logCompleteAt', 'is', null)
    .where('releasedAt', 'is', null)
    .where('finishedAt', '<', finishedBefore)
    .execute()

/** Numbers never decrease: an older state changes nothing. */
export async function raiseAttempt(
  db: Db,
  id: string,
  state: number,
  change: Updateable<AttemptsTable>,
): Promise<boolean> {
  const result = await db
    .updateTable('attempts')
    .set({ ...change, state })
    .where('id', '=', id)
    .where('state', '<', Math.min(state, TERMINAL))
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

export async function updateAttempt(
  db: Db,
  id: string,
  change: Omit<Updateable<AttemptsTable>, 'state'>,
): Promise<void> {
  await db.updateTable('attempts').set(change).where('id', '=', id).execute()
}

/** Only a live one: what has ended is kept or forgotten, never stopped. */
export async function stopAttempt(db: Db, id: string): Promise<void> {
  await db
    .updateTable('attempts')
    .set({ desired: Desired.STOPPED })
    .where('id', '=', id)
    .where('state', '<', TERMINAL)
    .execute()
}

/** Live attempts of an agent that came or went. */
export async function updateReachability(
  db: Db,
  agentId: string,
  unreachableSince: number | null,
): Promise<void> {
  await db
    .updateTable('attempts')
    .set({ unreachableSince })
    .where('agentId', '=', agentId)
    .where('state', '<', TERMINAL)
    .where('unreachableSince', unreachableSince === null ? 'is not' : 'is', null)
    .execute()
}

/** What the log's files hold for certain; written after they were synced. */
export async function updateLogPosition(
  db: Db,
  id: string,
  position: { ackedLogSeq: number; logBytes: number; logLines: number; logGap: 0 | 1 },
): Promise<void> {
  await db
    .updateTable('attempts')
    .set(position)
    .where('id', '=', id)
    .where('ackedLogSeq', '<', position.ackedLogSeq)
    .execute()
}

/** The plan is published twice; known steps keep their row. */
export async function insertSteps(
  db: Db,
  rows: Pick<
    AttemptStep,
    'attemptId' | 'stepIndex' | 'phase' | 'phaseTitle' | 'stepId' | 'title'
  >[],
): Promise<void> {
  if (rows.length === 0) return
  await db
    .insertInto('attemptSteps')
    .values(rows)
    .onConflict((c) => c.columns(['attemptId', 'stepIndex']).doNothing())
    .execute()
}

export const listSteps = (db: Db, attemptIds: string[]): Promise<AttemptStep[]> =>
  attemptIds.length === 0
    ? Promise.resolve([])
    : db
        .selectFrom('attemptSteps')
        .selectAll()
        .where('attemptId', 'in', attemptIds)
        .orderBy('attemptId')
        .orderBy('stepIndex')
        .execute()

const RUNNING = 2

/** What each of these tasks is doing now; of steps side by side, the last. */
export async function listRunningSteps(
  db: Db,
  taskIds: number[],
): Promise<Map<number, Pick<AttemptStep, 'phase' | 'phaseTitle' | 'stepId' | 'title'>>> {
  if (taskIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('attemptSteps')
    .innerJoin('attempts', 'attempts.id', 'attemptSteps.attemptId')
    .select(['attempts.taskId', 'phase', 'phaseTitle', 'stepId', 'title'])
    .where('attempts.taskId', 'in', taskIds)
    .where('attemptSteps.state', '=', RUNNING)
    .orderBy('attempts.number')
    .orderBy('stepIndex')
    .execute()
  return new Map(rows.map((row) => [row.taskId, row]))
}

/** A finished step stays finished. */
export async function updateStep(
  db: Db,
  attemptId: string,
  stepId: string,
  change: Updateable<AttemptStepsTable> & { state: number },
): Promise<void> {
  await db
    .updateTable('attemptSteps')
    .set(change)
    .where('attemptId', '=', attemptId)
    .where('stepId', '=', stepId)
    .where('state', 'in', [1, 2])
    .execute()
}

/** The attempt is over: steps whose own end was never told. */
export async function closeSteps(
  db: Db,
  attemptId: string,
  from: readonly StepState[],
  to: StepState,
): Promise<void> {
  await db
    .updateTable('attemptSteps')
    .set({ state: to })
    .where('attemptId', '=', attemptId)
    .where('state', 'in', from)
    .execute()
}

/** Attempts whose files may hold more than their rows say: everything whose log is not complete. */
export const listUncertainLogs = (db: Db): Promise<Attempt[]> =>
  db
    .selectFrom('attempts')
    .selectAll()
    .where('releasedAt', 'is', null)
    .where('logCompleteAt', 'is', null)
    .execute()

const EXPIRE_BATCH = 500

export const listWithLogsBefore = (db: Db, before: number): Promise<Attempt[]> =>
  db
    .selectFrom('attempts')
    .selectAll()
    .where('finishedAt', '<', before)
    .where('logExpiredAt', 'is', null)
    .limit(EXPIRE_BATCH)
    .execute()
