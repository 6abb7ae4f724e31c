// Stores attempts and their steps. An index allows one live attempt per environment; conditional updates only raise its
// state.
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

/** From now on, another identity of the same server reports these attempts. */
export async function adoptAttempts(db: Db, ids: string[], agentId: string): Promise<void> {
  if (ids.length === 0) return
  await db.updateTable('attempts').set({ agentId }).where('id', 'in', ids).execute()
}

export const listTaskAttempts = (db: Db, taskId: number): Promise<Attempt[]> =>
  db.selectFrom('attempts').selectAll().where('taskId', '=', taskId).orderBy('number').execute()

/** The columns that users see, a third of a row. */
const SHOWN = [
  'id',
  'taskId',
  'number',
  'waitingFor',
  'waitingPlace',
  'waitingSince',
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

/** Lists the newest attempt of each task, which is the one whose log and steps users see. */
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
        .orderBy('number'), // in key order, so nothing is sorted
  )
  return new Map(rows.map((row) => [row.taskId, row]))
}

/** Lists tasks that wait because their server is at capacity, for each server in the order in which it takes them. */
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

/** Lists what an agent may still hold: live attempts, and finished ones that it was not yet asked to forget. */
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
 * Lists finished attempts whose log is incomplete. The query does not filter by state, because SQLite would then use
 * that index and scan every ended attempt each second.
 */
export const listIncompleteLogs = (db: Db, finishedBefore: number): Promise<Attempt[]> =>
  db
    .selectFrom('attempts')
    .selectAll()
    .where('logCompleteAt', 'is', null)
    .where('releasedAt', 'is', null)
    .where('finishedAt', '<', finishedBefore)
    .execute()

/** State numbers never decrease, so an older state changes nothing. */
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

/** Stops a live attempt only. One that has ended is kept or forgotten, never stopped. */
export async function stopAttempt(db: Db, id: string): Promise<void> {
  await db
    .updateTable('attempts')
    .set({ desired: Desired.STOPPED })
    .where('id', '=', id)
    .where('state', '<', TERMINAL)
    .execute()
}

/** Marks the live attempts of agents that connected or disconnected. */
export async function updateReachability(
  db: Db,
  agentIds: readonly string[],
  unreachableSince: number | null,
): Promise<void> {
  if (agentIds.length === 0) return
  await db
    .updateTable('attempts')
    .set({ unreachableSince })
    .where('agentId', 'in', agentIds)
    .where('state', '<', TERMINAL)
    .where('unreachableSince', unreachableSince === null ? 'is not' : 'is', null)
    .execute()
}

/** Holds the row until the end of the transaction. Only with PostgreSQL; SQLite has one writer. */
export const lockAttempt = (db: Db, id: string): Promise<Attempt | undefined> =>
  db.selectFrom('attempts').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()

/** From now on only this session's stream feeds the log. Undefined if the session has ended, or no more is wanted. */
export const takeLog = (
  db: Db,
  { attemptId, agentId, sessionId }: { attemptId: string; agentId: string; sessionId: string },
): Promise<Attempt | undefined> =>
  db
    .updateTable('attempts')
    .set({ logSessionId: sessionId })
    .where('id', '=', attemptId)
    .where('agentId', '=', agentId)
    .where('releasedAt', 'is', null)
    .where('logExpiredAt', 'is', null)
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('agents')
          .select('id')
          .where('agents.id', '=', agentId)
          .where('agents.sessionId', '=', sessionId),
      ),
    )
    .returningAll()
    .executeTakeFirst()

/** Records how much of the log is durable; called after its files were synced. */
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

/** Returns what each task is doing now; of parallel steps, the last one. */
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

/** Closes the steps of an ended attempt whose own end was never reported. */
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

/** Lists attempts whose files may hold more than their rows say: all with an incomplete log. */
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
