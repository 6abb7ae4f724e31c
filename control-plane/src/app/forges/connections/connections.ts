// Connections of an organization to forges: a token, checked at the forge before it is stored, that its projects share.
// A token stays with the API it was given for; another address needs the token again.
import { AppError, invalidFields } from '@berth/shared'
import type { ForgeConnectionPatch, ForgeConnectionPost } from '@berth/shared/api'
import type { Context } from '../../../context.ts'
import type { Caller } from '../../../domain/core/access.ts'
import { FORGE_CONNECTIONS } from '../../../limits/forges.ts'
import {
  deleteConnection,
  type ForgeConnection,
  insertConnection,
  listConnectedProjects,
  listConnections,
  updateConnection,
} from '../../../store/forges/connections.ts'
import { listUserNames } from '../../../store/people/people.ts'
import { loadForgeConnection, missing, requirePermission } from '../../core/access.ts'
import { auditCaller } from '../../core/audit.ts'
import type { Change } from '../../core/change.ts'
import { holdOrganization } from '../../core/locks.ts'
import { change, emit } from '../../core/transaction.ts'
import { ensureDataKey } from '../../installation/data-keys.ts'
import { type FoundForge, findForge } from './finding.ts'
import { placeOf, sealToken } from './opening.ts'

export interface ForgeConnectionView extends ForgeConnection {
  createdByName: string
  projectCount: number
}

export async function viewConnections(
  ctx: Context,
  rows: ForgeConnection[],
): Promise<ForgeConnectionView[]> {
  const names = await listUserNames(ctx.db, [...new Set(rows.map((row) => row.createdBy))])
  const ids = rows.map((row) => row.id)
  const counts = Map.groupBy(await listConnectedProjects(ctx.db, ids), (p) => p.connectionId)
  return rows.map((row) => ({
    ...row,
    createdByName: names.get(row.createdBy) ?? '',
    projectCount: counts.get(row.id)?.length ?? 0,
  }))
}

async function viewConnection(ctx: Context, row: ForgeConnection): Promise<ForgeConnectionView> {
  const [view] = await viewConnections(ctx, [row])
  if (!view) throw missing()
  return view
}

export async function listForgeConnections(
  ctx: Context,
  caller: Caller,
  organizationId: number,
): Promise<ForgeConnectionView[]> {
  requirePermission(caller, organizationId, 'read')
  return viewConnections(ctx, await listConnections(ctx.db, organizationId))
}

export async function createForgeConnection(
  ctx: Context,
  caller: Caller,
  organizationId: number,
  asked: ForgeConnectionPost,
): Promise<ForgeConnectionView> {
  requirePermission(caller, organizationId, 'project:write')
  const found = await findForge(ctx, caller, asked)
  await ensureDataKey(ctx, organizationId)
  const row = await change(ctx, async (c) => {
    requirePermission(caller, organizationId, 'project:write')
    await holdOrganization(c, organizationId)
    return saveConnection(ctx, c, caller, organizationId, found)
  })
  return viewConnection(ctx, row)
}

/** The same token for the same API is one connection. The caller holds the organization. */
export async function saveConnection(
  ctx: Context,
  c: Change,
  caller: Caller,
  organizationId: number,
  found: FoundForge,
): Promise<ForgeConnection> {
  const existing = await listConnections(c.db, organizationId)
  let same: ForgeConnection | undefined
  for (const row of existing) {
    if (row.provider !== found.provider || row.apiUrl !== found.base) continue
    if ((await placeOf(ctx, row))?.token.reveal() === found.token.reveal()) same ??= row
  }
  if (same) {
    const columns = { account: found.account, checkedAt: c.now, error: null }
    await updateConnection(c.db, same.id, columns)
    return { ...same, ...columns }
  }
  if (existing.length >= FORGE_CONNECTIONS.perOrganization) {
    const message = `An organization has at most ${FORGE_CONNECTIONS.perOrganization} connections to forges. Remove one first.`
    throw invalidFields([{ field: 'token', code: 'too_many', message }])
  }
  const row = {
    organizationId,
    provider: found.provider,
    apiUrl: found.base,
    account: found.account,
    tokenSealed: '',
    createdAt: c.now,
    createdBy: caller.userId,
    checkedAt: c.now,
    error: null,
  }
  const id = await insertConnection(c.db, row)
  const tokenSealed = sealToken(ctx, { ...row, id }, found.token.reveal())
  await updateConnection(c.db, id, { tokenSealed })
  const details = { provider: row.provider, api_url: row.apiUrl, account: row.account }
  await auditCaller(c, caller, organizationId, 'forge.connect', ['forge', id], details)
  emit(c, { organizationId }, 'organization.updated', {})
  return { ...row, id, tokenSealed }
}

/** Replaces the token in place. */
export async function replaceToken(
  ctx: Context,
  c: Change,
  caller: Caller,
  row: ForgeConnection,
  found: FoundForge,
): Promise<ForgeConnection> {
  const columns = {
    provider: found.provider,
    apiUrl: found.base,
    account: found.account,
    checkedAt: c.now,
    error: null,
  }
  const changed = { ...row, ...columns }
  const tokenSealed = sealToken(ctx, changed, found.token.reveal())
  await updateConnection(c.db, row.id, { ...columns, tokenSealed })
  const { organizationId } = row
  const details = { api_url: found.base, account: found.account }
  await auditCaller(c, caller, organizationId, 'forge.update', ['forge', row.id], details)
  emit(c, { organizationId }, 'organization.updated', {})
  return { ...changed, tokenSealed }
}

export async function changeForgeConnection(
  ctx: Context,
  caller: Caller,
  id: number,
  asked: ForgeConnectionPatch,
): Promise<ForgeConnectionView> {
  const before = await loadForgeConnection(ctx.db, caller, id, 'project:write')
  const token = asked.token ?? (await storedToken(ctx, before, asked.api_url))
  const { provider, apiUrl: api_url } = before
  const found = await findForge(ctx, caller, {
    provider,
    api_url: asked.api_url ?? api_url,
    token,
  })
  const row = await change(ctx, async (c) => {
    const current = await loadForgeConnection(c.db, caller, id, 'project:write')
    return replaceToken(ctx, c, caller, current, found)
  })
  return viewConnection(ctx, row)
}

/** A stored token is never sent to another origin: a member who cannot read it could have it sent to themselves. */
async function storedToken(
  ctx: Context,
  row: ForgeConnection,
  apiUrl: string | undefined,
): Promise<string> {
  const isSameOrigin =
    apiUrl === undefined ||
    (URL.canParse(apiUrl) && new URL(apiUrl).origin === new URL(row.apiUrl).origin)
  const place = isSameOrigin ? await placeOf(ctx, row) : undefined
  if (place) return place.token.reveal()
  const message = 'Give the token too: it is not sent to another address than before.'
  throw invalidFields([{ field: 'token', code: 'token_required', message }])
}

export async function removeForgeConnection(
  ctx: Context,
  caller: Caller,
  id: number,
): Promise<void> {
  await loadForgeConnection(ctx.db, caller, id, 'project:write')
  await change(ctx, async (c) => {
    const row = await loadForgeConnection(c.db, caller, id, 'project:write')
    const { organizationId } = row
    await holdOrganization(c, organizationId)
    const used = await listConnectedProjects(c.db, [id])
    if (used.length > 0) {
      const projects = used.map((project) => ({ id: project.id, name: project.name }))
      const names = used.map((project) => project.name).join(', ')
      throw new AppError('forge_in_use', `${names} use this connection. Disconnect them first.`, {
        projects,
      })
    }
    await deleteConnection(c.db, id)
    const details = { provider: row.provider, api_url: row.apiUrl }
    await auditCaller(c, caller, organizationId, 'forge.remove', ['forge', id], details)
    emit(c, { organizationId }, 'organization.updated', {})
  })
}
