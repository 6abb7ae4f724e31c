// Schedules reconcile rounds: every few minutes, soon after a delivery, a start or a server's return, and on request.
// The times are rows and this loop only reads them, so a restart forgets nothing. The same timer sends reports to
// forges and looks at connections once a day. Each runs at most once at a time.
import { AppError } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { RECONCILE } from '../../limits/forges.ts'
import {
  askForRound,
  claimRound,
  hastenRound,
  listDueRounds,
  spreadRounds,
} from '../../store/forges/repositories.ts'
import { loadProject } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import { COMMIT_STATUSES_TOPIC } from '../core/commit-statuses.ts'
import { change } from '../core/transaction.ts'
import { sendCommitStatuses } from './commit-status-sending.ts'
import { runForgeRounds } from './connections/rounds.ts'
import { reconcileProject } from './reconcile.ts'

export const ROUNDS_TOPIC = 'reconcile'
const FORGES_TOPIC = 'forges'

/** POST …/reconcile. The round runs after the answer. */
export async function askForReconcile(
  ctx: Context,
  caller: Caller,
  projectId: number,
): Promise<number> {
  const project = await loadProject(ctx.db, caller, projectId, 'deploy')
  if (project.status === 'deleting') {
    throw new AppError('project_deleting', `${project.name} is being deleted.`)
  }
  return change(ctx, async (c) => {
    if (!(await askForRound(c.db, projectId, c.now, c.now - RECONCILE.askedMs))) {
      const since = c.now - (project.reconcileAskedAt ?? c.now)
      const seconds = Math.max(1, Math.ceil((RECONCILE.askedMs - since) / 1_000))
      const message = `${project.name} was looked at a moment ago. Try again in ${seconds} s.`
      throw new AppError('rate_limited', message, { retry_after: seconds })
    }
    await hastenRound(c.db, projectId, c.now)
    const subject: [string, number] = ['project', projectId]
    await auditCaller(c, caller, project.organizationId, 'project.reconcile', subject)
    c.notify(ROUNDS_TOPIC)
    return c.now
  })
}

const nextRound = (now: number): number => {
  const { everyMs, jitter } = RECONCILE
  return Math.round(now + everyMs * (1 + jitter * (2 * Math.random() - 1)))
}

/** Runs every due project; resolves when all rounds ended. */
async function runDueRounds(ctx: Context): Promise<void> {
  const now = ctx.clock.now()
  const due = await listDueRounds(ctx.db, now, RECONCILE.dueAtOnce)
  await Promise.all(
    due.map(async (project) => {
      const isNew = project.reconcileAt === null
      const first = now + RECONCILE.afterStartMs * (1 + Math.random())
      const next = isNew ? Math.round(first) : nextRound(now)
      if (!(await claimRound(ctx.db, project, next)) || isNew) return
      await reconcileProject(ctx, project.id).catch((error: unknown) =>
        ctx.log.error({ err: error, projectId: project.id }, 'reconcile failed'),
      )
    }),
  )
}

/**
 * Runs `work` at each tick and wake-up, never concurrently; a wake-up during a run causes one more run. Of several
 * replicas, one does.
 */
function startBeat(ctx: Context, topic: string, what: string, work: () => Promise<void>) {
  let running: Promise<void> | undefined
  let again = false
  let stopped = false
  const run = (): void => {
    if (running) {
      again = true
      return
    }
    if (stopped || !ctx.replicas.holds('rounds')) return
    again = false
    running = work()
      .catch((error: unknown) => ctx.log.error({ err: error }, what))
      .finally(() => {
        running = undefined
        if (again) run()
      })
  }
  const timer = setInterval(run, RECONCILE.tickMs)
  const unlisten = ctx.notifier.on(topic, run)
  return async () => {
    stopped = true
    clearInterval(timer)
    unlisten()
    await running
  }
}

export async function startRounds(ctx: Context): Promise<() => Promise<void>> {
  const { afterStartMs } = RECONCILE
  const others = (await ctx.replicas.listLive()).filter(({ id }) => id !== ctx.replicaId)
  if (others.length === 0) {
    await spreadRounds(ctx.db, ctx.clock.now() + afterStartMs, afterStartMs)
  }
  const stops = [
    startBeat(ctx, ROUNDS_TOPIC, 'due rounds could not be read', () => runDueRounds(ctx)),
    startBeat(ctx, COMMIT_STATUSES_TOPIC, 'reports could not be read', () =>
      sendCommitStatuses(ctx),
    ),
    startBeat(ctx, FORGES_TOPIC, 'due checks of forges could not be read', () =>
      runForgeRounds(ctx),
    ),
  ]
  return async () => {
    await Promise.all(stops.map((stop) => stop()))
  }
}
