// Decides whether a caller may still see the stored reply to a request: access is checked again, as for the same
// request made now. A caller who lost a role loses these replies too; a deleted row is reported as not found.
import type { Permission } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { findDelivery } from '../../store/forges/webhook-deliveries.ts'
import {
  loadEnvironment,
  loadProject,
  loadServer,
  loadTask,
  missing,
  organizationForCreation,
  requirePermission,
  requirePlatformAdmin,
} from './access.ts'

/** The subjects of requests, by the first word of their paths. */
export const KINDS = [
  'organizations',
  'projects',
  'environments',
  'tasks',
  'deliveries',
  'servers',
  'admin',
] as const
type Kind = (typeof KINDS)[number]

export interface About {
  kind: Kind
  /** The id in the path, or the id that the first request created; null for neither. */
  id: number | null
  needs: Permission | 'token' | 'platform_admin' | 'nothing'
}

/** Throws the refusal that the request would get now. */
export async function requireAccess(ctx: Context, caller: Caller, about: About): Promise<void> {
  const { kind, id, needs } = about
  if (needs === 'platform_admin' && kind !== 'organizations') return requirePlatformAdmin(caller)
  const isWord = needs === 'token' || needs === 'nothing' || needs === 'platform_admin'
  const permission = isWord ? 'read' : needs
  if (id !== null) return requireAccessTo(ctx, caller, kind, id, permission)
  if (kind !== 'organizations') organizationForCreation(caller, permission)
  else if (!ctx.config.openOrganizations) requirePlatformAdmin(caller)
}

async function requireAccessTo(
  ctx: Context,
  caller: Caller,
  kind: Kind,
  id: number,
  permission: Permission,
): Promise<void> {
  switch (kind) {
    case 'organizations':
      return requirePermission(caller, id, permission)
    case 'projects':
      return void (await loadProject(ctx.db, caller, id, permission))
    case 'environments':
      return void (await loadEnvironment(ctx.db, caller, id, permission))
    case 'tasks':
      return void (await loadTask(ctx.db, caller, id, permission))
    case 'servers':
      return void (await loadServer(ctx.db, caller, id, permission))
    case 'deliveries': {
      const delivery = await findDelivery(ctx.db, id)
      if (!delivery) throw missing()
      return void (await loadProject(ctx.db, caller, delivery.projectId, permission))
    }
    case 'admin':
      return requirePlatformAdmin(caller)
  }
}
