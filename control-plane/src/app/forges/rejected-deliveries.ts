// Deliveries refused by the gateway, so that users see why their webhook fails: the last few of a project, without
// body. They wait in bounded memory for the next tick, because a flood of wrong signatures must neither cause a write
// each nor take longer for a project that exists.
import type { Provider } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { WEBHOOKS } from '../../limits/forges.ts'
import {
  insertRefused,
  listRefused,
  type RefusedDelivery,
} from '../../store/forges/webhook-deliveries.ts'
import { findProject } from '../../store/projects/projects.ts'
import { loadProject } from '../core/access.ts'
import { change } from '../core/transaction.ts'

interface Refusal {
  at: number
  address: string
  provider: string | null
  reason: string
}

const waiting = new WeakMap<Context, Map<number, Refusal[]>>()

export function noteRefused(
  ctx: Context,
  projectId: number,
  refused: { address: string; provider: Provider | undefined; reason: string },
): void {
  const projects = waiting.get(ctx) ?? new Map<number, Refusal[]>()
  waiting.set(ctx, projects)
  const list = projects.get(projectId) ?? []
  if (list.length === 0 && projects.size >= WEBHOOKS.refusedProjects) return
  const { address, reason } = refused
  list.push({ at: ctx.clock.now(), address, reason, provider: refused.provider ?? null })
  projects.set(projectId, list.slice(-WEBHOOKS.refusedKept))
}

export async function flushRefused(ctx: Context): Promise<void> {
  const projects = waiting.get(ctx)
  if (!projects || projects.size === 0) return
  waiting.delete(ctx)
  await change(ctx, async (c) => {
    for (const [projectId, list] of projects) {
      if (!(await findProject(c.db, projectId))) continue
      const rows = list.map((refusal) => ({ ...refusal, projectId }))
      await insertRefused(c.db, rows, WEBHOOKS.refusedKept)
    }
  })
}

export async function listProjectRefusals(
  ctx: Context,
  caller: Caller,
  projectId: number,
): Promise<RefusedDelivery[]> {
  await loadProject(ctx.db, caller, projectId, 'read')
  return listRefused(ctx.db, projectId, WEBHOOKS.refusedKept)
}
