// The browsers in which a user is signed in: listed, and ended one by one or all except the current one.
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import {
  type BrowserSession,
  deleteOtherSessions,
  deleteUserSession,
  listUserSessions,
} from '../../store/people/accounts.ts'
import { missing } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import { change } from '../core/transaction.ts'

export interface SessionView extends BrowserSession {
  /** The browser that sent the request. */
  isCurrent: boolean
}

export async function listOwnSessions(
  ctx: Context,
  caller: Caller,
  cookie: string | undefined,
): Promise<SessionView[]> {
  const current = await ctx.identity.findSession(cookie ?? '')
  const sessions = await listUserSessions(ctx.db, caller.userId, ctx.clock.now())
  return sessions.map((session) => ({ ...session, isCurrent: session.id === current?.sessionId }))
}

export async function endSession(ctx: Context, caller: Caller, id: number): Promise<void> {
  await change(ctx, async (c) => {
    if (!(await deleteUserSession(c.db, caller.userId, id))) throw missing()
    await auditCaller(c, caller, null, 'session.end', ['session', id])
  })
}

/** Signs out every browser of the caller but this one; returns how many. */
export async function endOtherSessions(
  ctx: Context,
  caller: Caller,
  cookie: string | undefined,
): Promise<number> {
  const current = await ctx.identity.findSession(cookie ?? '')
  if (!current || current.userId !== caller.userId) throw missing()
  return change(ctx, async (c) => {
    const ended = await deleteOtherSessions(c.db, caller.userId, current.sessionId)
    const subject: [string, number] = ['user', caller.userId]
    await auditCaller(c, caller, null, 'session.end_others', subject, { ended })
    return ended
  })
}
