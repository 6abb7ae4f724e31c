// Deliveries for users: list, details, redelivery; and their retention.
import { AppError } from '@berth/shared'
import type { Context } from '../../context.ts'
import { type Caller, permit } from '../../domain/core/access.ts'
import { WEBHOOKS } from '../../limits/forges.ts'
import {
  type Delivery,
  type DeliveryFilter,
  deleteOldDeliveries,
  findDelivery,
  listDeliveries,
} from '../../store/forges/webhook-deliveries.ts'
import { loadProject } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import { change } from '../core/transaction.ts'
import { decideRow, insertReplay, readBody } from './delivery-queue.ts'

export async function listProjectDeliveries(
  ctx: Context,
  caller: Caller,
  projectId: number,
  filter: DeliveryFilter,
): Promise<Delivery[]> {
  await loadProject(ctx.db, caller, projectId, 'read')
  return listDeliveries(ctx.db, projectId, filter)
}

export interface DeliveryView {
  delivery: Delivery
  /** Only for callers who may change the project. */
  body: string | null
}

async function load(
  ctx: Context,
  caller: Caller,
  id: number,
  permission: 'read' | 'project:write',
): Promise<Delivery> {
  const row = await findDelivery(ctx.db, id)
  if (!row) throw new AppError('not_found', "Not found, or you don't have access.")
  await loadProject(ctx.db, caller, row.projectId, permission)
  return row
}

export async function getDelivery(ctx: Context, caller: Caller, id: number): Promise<DeliveryView> {
  const delivery = await load(ctx, caller, id, 'read')
  const mayRead = permit(caller, delivery.organizationId, 'project:write').kind === 'granted'
  const old = ctx.clock.now() - delivery.receivedAt > WEBHOOKS.keptBodyMs
  return { delivery, body: mayRead && !old ? await readBody(delivery) : null }
}

/** Decides it again as a new row, against the present state. */
export async function redeliver(ctx: Context, caller: Caller, id: number): Promise<Delivery> {
  const row = await load(ctx, caller, id, 'project:write')
  if (ctx.clock.now() - row.receivedAt > WEBHOOKS.keptMs) {
    throw new AppError('delivery_expired', 'The delivery is older than 30 days.')
  }
  const made = await change(ctx, async (c) => {
    const replay = await insertReplay(c, row, caller)
    const details = { replay_of: row.id, event: row.event }
    const { organizationId } = row
    await auditCaller(
      c,
      caller,
      organizationId,
      'delivery.redeliver',
      ['delivery', replay],
      details,
    )
    return replay
  })
  await decideRow(ctx, made).catch((error: unknown) =>
    ctx.log.error({ err: error, delivery: made }, 'a delivery could not be decided at once'),
  )
  const decided = await findDelivery(ctx.db, made)
  if (!decided) throw new Error('unreachable: it was just written')
  return decided
}

/** Runs once an hour. */
export const forgetDeliveries = (ctx: Context): Promise<void> => {
  const now = ctx.clock.now()
  return deleteOldDeliveries(ctx.db, {
    rowsBefore: now - WEBHOOKS.keptMs,
    bodiesBefore: now - WEBHOOKS.keptBodyMs,
    perProject: WEBHOOKS.keptPerProject,
  })
}
