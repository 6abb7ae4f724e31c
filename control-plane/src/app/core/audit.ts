// Who changed what: one row in the transaction of the change. Details hold names and keys, never a value. This file
// only collects rows; audit-chain.ts writes them at the end of the transaction.
import type { Context } from '../../context.ts'
import type { Caller, Origin } from '../../domain/core/access.ts'
import type { AuditRow } from '../../store/core/audit.ts'
import { type AuditFilter, type AuditPage, listAudit } from '../../store/core/audit-pages.ts'
import { findAgent } from '../../store/servers/agents.ts'
import { findServer } from '../../store/servers/servers.ts'
import { requirePermission, requirePlatformAdmin } from './access.ts'
import type { Change } from './change.ts'

/** The kind and the id of the changed row; its name is looked up if the kind has one. */
export type Subject = [kind: string, id: number | string, name?: string]

/** Who makes the change. */
export type Actor =
  | { type: 'user'; caller: Caller }
  | { type: 'webhook'; name: string; deliveryId: number }
  | { type: 'system'; name: string }

/** For what the control plane decides by itself. */
export const BERTH: Actor = { type: 'system', name: 'Berth' }

export const byCaller = (caller: Caller): Actor => ({ type: 'user', caller })

export const actorName = (actor: Actor): string =>
  actor.type === 'user' ? actor.caller.name : actor.name

type Who = Pick<AuditRow, 'actorType' | 'actorId' | 'actorName' | 'tokenId'> &
  Pick<AuditRow, 'address' | 'requestId'>

const NOWHERE = { tokenId: null, address: null, requestId: null }

const person = (p: { userId: number; name: string; origin: Origin }): Who => ({
  actorType: 'user',
  actorId: String(p.userId),
  actorName: p.name,
  ...p.origin,
})

function whoIs(actor: Actor): Who {
  switch (actor.type) {
    case 'user':
      return person(actor.caller)
    case 'webhook': {
      const { name: actorName, deliveryId } = actor
      return { actorType: 'webhook', actorId: String(deliveryId), actorName, ...NOWHERE }
    }
    case 'system':
      return { actorType: 'system', actorId: null, actorName: actor.name, ...NOWHERE }
  }
}

function record(
  c: Change,
  who: Who,
  organizationId: number | null,
  verb: string,
  [subjectType, subjectId, subjectName = undefined]: Subject,
  details: Record<string, unknown>,
): void {
  c.audits.push({
    at: c.now,
    organizationId,
    actorType: who.actorType,
    actorId: who.actorId,
    actorName: who.actorName,
    tokenId: who.tokenId,
    address: who.address,
    requestId: who.requestId,
    verb,
    subjectType,
    subjectId: String(subjectId),
    subjectName: subjectName ?? null,
    details,
  })
}

/** For an action of a user. */
export const auditCaller = (
  c: Change,
  caller: Caller,
  organizationId: number | null,
  verb: string,
  subject: Subject,
  details: Record<string, unknown> = {},
): Promise<void> => audit(c, byCaller(caller), organizationId, verb, subject, details)

export async function audit(
  c: Change,
  actor: Actor,
  organizationId: number | null,
  verb: string,
  subject: Subject,
  details: Record<string, unknown> = {},
): Promise<void> {
  record(c, whoIs(actor), organizationId, verb, subject, details)
}

/** For an action of a person who is not a caller yet: set-up, sign-in, an accepted invitation. */
export async function auditPerson(
  c: Change,
  who: { userId: number; name: string; origin: Origin },
  organizationId: number | null,
  verb: string,
  subject: Subject,
  details: Record<string, unknown> = {},
): Promise<void> {
  record(c, person(who), organizationId, verb, subject, details)
}

/** For an action of an agent, or what the control plane concluded about it (`by` system). */
export async function auditAgent(
  c: Change,
  agentId: string,
  by: 'agent' | 'system',
  verb: string,
  subject: Subject,
  details: Record<string, unknown> = {},
): Promise<void> {
  const agent = await findAgent(c.db, agentId)
  const server = agent && (await findServer(c.db, agent.serverId))
  const actorId = by === 'agent' ? agentId : null
  const who: Who = { actorType: by, actorId, actorName: server?.name ?? null, ...NOWHERE }
  record(c, who, server?.organizationId ?? null, verb, subject, details)
}

export async function listOrganizationAudit(
  ctx: Context,
  caller: Caller,
  organizationId: number,
  filter: AuditFilter,
): Promise<AuditPage> {
  requirePermission(caller, organizationId, 'audit:read')
  return listAudit(ctx.db, organizationId, filter)
}

export async function listWholeAudit(
  ctx: Context,
  caller: Caller,
  filter: AuditFilter,
): Promise<AuditPage> {
  requirePlatformAdmin(caller)
  return listAudit(ctx.db, undefined, filter)
}
