// The daily look at every connected project, the installation of a changed key or secret, and the removal of what ended
// projects left at their forges. The times are rows, and a claim keeps replicas apart.
import type { Context } from '../../../context.ts'
import { failed } from '../../../domain/forges/setup.ts'
import { ForgeError } from '../../../forges/clients/forge.ts'
import { FORGE_CONNECTIONS } from '../../../limits/forges.ts'
import {
  claimRemoval,
  claimSetup,
  deleteRemoval,
  type ForgeRemoval,
  findConnection,
  listDueRemovals,
  listDueSetups,
} from '../../../store/forges/connections.ts'
import { findProject } from '../../../store/projects/projects.ts'
import { inspectSetup, installSetup, type Looked, removeSetup } from './installing.ts'
import { placeOf } from './opening.ts'
import { oneAtATime, openSetup, recordLooked } from './project-forge.ts'

/** Runs everything that is due; resolves when it ended. */
export async function runForgeRounds(ctx: Context): Promise<void> {
  const now = ctx.clock.now()
  const { dueAtOnce, claimMs } = FORGE_CONNECTIONS
  const setups = await listDueSetups(ctx.db, now, dueAtOnce)
  const removals = await listDueRemovals(ctx.db, now, dueAtOnce)
  await Promise.all([
    ...setups.map(async (setup) => {
      const { projectId } = setup
      const claim = now + claimMs
      if (!(await claimSetup(ctx.db, setup, claim))) return
      await oneAtATime(ctx, projectId, () => lookAgain(ctx, projectId, claim)).catch(
        (error: unknown) => ctx.log.error({ err: error, projectId }, 'the check of a forge failed'),
      )
    }),
    ...removals.map(async (removal) => {
      const wait = FORGE_CONNECTIONS.removalBackoffMs * 2 ** removal.tries
      if (!(await claimRemoval(ctx.db, removal, now + wait))) return
      await takeAway(ctx, removal)
    }),
  ])
}

const UNREADABLE: Looked = {
  checks: [failed('token', 'The token cannot be read any more. Connect again with a token.')],
  keyId: null,
  webhookId: null,
  repository: undefined,
  isAway: false,
  tokenError: undefined,
}

async function lookAgain(ctx: Context, projectId: number, claim: number): Promise<void> {
  const project = await findProject(ctx.db, projectId)
  const opened = project && (await openSetup(ctx, project))
  if (!project || !opened) return
  const { setup, client } = opened
  if (!client) return recordLooked(ctx, projectId, UNREADABLE, claim)
  const looked =
    setup.installDue === 1
      ? await installSetup(ctx, project, client, { made: setup, test: false })
      : await inspectSetup(ctx, project, client)
  await recordLooked(ctx, projectId, looked, claim)
}

async function takeAway(ctx: Context, removal: ForgeRemoval): Promise<void> {
  const connection = await findConnection(ctx.db, removal.connectionId)
  const place = connection && (await placeOf(ctx, connection))
  const isLast = removal.tries + 1 >= FORGE_CONNECTIONS.removalTries
  if (!place) return deleteRemoval(ctx.db, removal.id)
  try {
    const client = ctx.outbound.openPath(place, removal.repository)
    const { left } = await removeSetup(client, removal)
    if (left.length === 0 || isLast) await deleteRemoval(ctx.db, removal.id)
    if (left.length > 0 && isLast) {
      ctx.log.warn({ repository: removal.repository, left }, 'something of Berth stays at a forge')
    }
  } catch (error) {
    if (!(error instanceof ForgeError)) throw error
  }
}
