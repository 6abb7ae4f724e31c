// Empties the outbox to forges: reports of one project in order, several projects concurrently, with back-off. A slow
// forge delays only its reports: no deployment waits for them. An undeliverable report is given up with a reason; a
// token that stopped working is shown at the project.

import type { Context } from '../../context.ts'
import { commentMarker, describeComment } from '../../domain/forges/commit-status.ts'
import { type ForgeClient, ForgeError } from '../../forges/clients/forge.ts'
import { COMMIT_STATUSES } from '../../limits/forges.ts'
import {
  claimReport,
  type DueReport,
  findExternalId,
  listDueReports,
  updateReport,
} from '../../store/forges/commit-statuses.ts'
import { updateRepositoryFacts } from '../../store/forges/repositories.ts'
import { findProject } from '../../store/projects/projects.ts'
import type { CommentBody, StatusBody } from '../core/commit-statuses.ts'
import { openProjectForge } from './forge-tokens.ts'

/** Reads the outbox once; resolves when every due report was tried. */
export async function sendCommitStatuses(ctx: Context): Promise<void> {
  const due = await listDueReports(ctx.db, ctx.clock.now(), COMMIT_STATUSES.dueAtOnce)
  const byProject = Map.groupBy(due, (report) => report.projectId)
  await Promise.all([...byProject].map(([id, reports]) => sendOfProject(ctx, id, reports)))
}

async function sendOfProject(ctx: Context, id: number, reports: DueReport[]): Promise<void> {
  const project = await findProject(ctx.db, id)
  const client = project && (await openProjectForge(ctx, project))
  for (const report of reports) {
    const until = ctx.clock.now() + COMMIT_STATUSES.claimMs
    if (!(await claimReport(ctx.db, report, until))) continue // replaced, or another replica has it
    if (!client) {
      await giveUp(ctx, report, 'There is no token for this host any more.')
      continue
    }
    try {
      const externalId = await deliver(ctx, client, report)
      const now = ctx.clock.now()
      await updateReport(ctx.db, report.id, { externalId, doneAt: now, nextAt: null, error: null })
      if (project.hostTokenError !== null) {
        await updateRepositoryFacts(ctx.db, id, { hostTokenError: null, hostTokenCheckedAt: now })
      }
    } catch (error) {
      if (!(error instanceof ForgeError)) throw error
      await putOff(ctx, report, error)
      if (error.trouble === 'refused' || error.trouble === 'not_found') continue
      return // the forge is in trouble, not the report, so the others wait too
    }
  }
}

async function deliver(
  ctx: Context,
  client: ForgeClient,
  report: DueReport,
): Promise<string | null> {
  if (report.kind === 'status') {
    const { state, description, context, url, taskId } = JSON.parse(report.body) as StatusBody
    const page = taskId === null ? `projects/${report.projectId}` : `tasks/${taskId}`
    const target = url ?? `${ctx.baseUrl}/${page}`
    await client.setStatus({ sha: report.subject, state, description, context, url: target })
    return null
  }
  const body = JSON.parse(report.body) as CommentBody
  const text = describeComment(body.state, {
    ...body,
    taskUrl: `${ctx.baseUrl}/tasks/${body.taskId}`,
  })
  const knownId = await findExternalId(ctx.db, report.projectId, 'comment', report.subject)
  const comment = { number: body.number, marker: commentMarker(body.environmentId), body: text }
  try {
    return await client.putComment({ ...comment, knownId })
  } catch (error) {
    // a user deleted the comment: search for it, else create it again
    const isGone = error instanceof ForgeError && error.trouble === 'not_found' && knownId !== null
    if (!isGone) throw error
    return client.putComment({ ...comment, knownId: null })
  }
}

const giveUp = (ctx: Context, report: DueReport, error: string): Promise<void> =>
  updateReport(ctx.db, report.id, { nextAt: null, error, tries: report.tries + 1 })

async function putOff(ctx: Context, report: DueReport, error: ForgeError): Promise<void> {
  if (error.trouble === 'token_rejected') {
    const now = ctx.clock.now()
    await updateRepositoryFacts(ctx.db, report.projectId, {
      hostTokenError: error.message,
      hostTokenCheckedAt: now,
    })
  }
  const tries = report.tries + 1
  const isHopeless = error.trouble === 'refused' || error.trouble === 'not_found'
  if (isHopeless || tries >= COMMIT_STATUSES.tries) return giveUp(ctx, report, error.message)
  const backoff = Math.min(
    COMMIT_STATUSES.backoffMs * 2 ** report.tries,
    COMMIT_STATUSES.backoffCapMs,
  )
  const asked = Math.min(error.retryAfterMs ?? 0, COMMIT_STATUSES.backoffCapMs)
  const nextAt = ctx.clock.now() + Math.max(backoff, asked)
  await updateReport(ctx.db, report.id, { nextAt, tries, error: error.message })
}
