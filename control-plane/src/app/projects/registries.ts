// Credentials of image registries, of an organization or of one project, whose own win. Callers can read hosts and user
// names but only write passwords. Only app/environments/values.ts decrypts them, for dispatch.
import { AppError, invalidFields, REGISTRIES, REGISTRY_HOST, registryHost } from '@berth/shared'
import type { RegistryPut } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { listUserNames } from '../../store/people/people.ts'
import {
  deleteRegistry,
  listRegistries,
  type Registry,
  type RegistryOwner,
  upsertRegistry,
  WHOLE_ORGANIZATION,
} from '../../store/projects/registries.ts'
import { loadProject, missing, requirePermission } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import { change, emit } from '../core/transaction.ts'

/** Bound to the user name too, so that a password is never sent with another one. */
export const registryPlace = (row: RegistryOwner & { host: string; username: string }) => ({
  table: 'registries',
  column: 'sealed',
  organizationId: row.organizationId,
  rowId: `${row.projectId}/${row.host}/${row.username}`,
})

/** Whose credentials: of a project, or of a whole organization. */
export type RegistryScope = { project: number } | { organization: number }

export interface RegistryView extends Registry {
  updatedByName: string
}

async function loadOwner(
  db: Context['db'],
  caller: Caller,
  scope: RegistryScope,
  permission: 'read' | 'project:write',
): Promise<RegistryOwner> {
  if ('project' in scope) {
    const { id, organizationId } = await loadProject(db, caller, scope.project, permission)
    return { organizationId, projectId: id }
  }
  requirePermission(caller, scope.organization, permission)
  return { organizationId: scope.organization, projectId: WHOLE_ORGANIZATION }
}

const subjectOf = ({ organizationId, projectId }: RegistryOwner): [string, number] =>
  projectId === WHOLE_ORGANIZATION ? ['organization', organizationId] : ['project', projectId]

async function withNames(ctx: Context, rows: Registry[]): Promise<RegistryView[]> {
  const names = await listUserNames(ctx.db, [...new Set(rows.map((row) => row.updatedBy))])
  return rows.map((row) => ({ ...row, updatedByName: names.get(row.updatedBy) ?? '' }))
}

/** Without those of the organization that the project replaces. */
export function inEffect<T extends Registry>(rows: T[], { projectId }: RegistryOwner): T[] {
  const own = new Set(rows.filter((row) => row.projectId === projectId).map(({ host }) => host))
  return rows.filter((row) => row.projectId === projectId || !own.has(row.host))
}

/** For a project also those of its organization that it does not replace. */
export async function listRegistryViews(
  ctx: Context,
  caller: Caller,
  scope: RegistryScope,
): Promise<RegistryView[]> {
  const owner = await loadOwner(ctx.db, caller, scope, 'read')
  const rows = await listRegistries(ctx.db, owner)
  return withNames(ctx, inEffect(rows, owner))
}

function readHost(written: string): string {
  const host = registryHost(written)
  if (REGISTRY_HOST.test(host) && host.length <= REGISTRIES.hostCharacters) return host
  const message =
    'must be the host name of a registry, such as ghcr.io or registry.example.com:5000'
  throw invalidFields([{ field: 'host', code: 'invalid_value', message }])
}

export async function putRegistry(
  ctx: Context,
  caller: Caller,
  scope: RegistryScope,
  { host: written, username, password }: RegistryPut & { host: string },
): Promise<RegistryView> {
  await loadOwner(ctx.db, caller, scope, 'project:write')
  const host = readHost(written)
  const [view] = await change(ctx, async (c) => {
    const owner = await loadOwner(c.db, caller, scope, 'project:write')
    const existing = (await listRegistries(c.db, owner)).filter(
      (row) => row.projectId === owner.projectId,
    )
    const isNew = !existing.some((row) => row.host === host)
    if (isNew && existing.length >= REGISTRIES.most) {
      const message = `At most ${REGISTRIES.most} registries are possible here. Remove one first.`
      throw invalidFields([{ field: 'host', code: 'too_many', message }])
    }
    const row = { ...owner, host, username, updatedAt: c.now, updatedBy: caller.userId }
    const place = registryPlace(row)
    const sealed = ctx.secretStore.seal('registry', place, Buffer.from(password))
    await upsertRegistry(c.db, { ...row, sealed })
    const details = { host, username }
    await auditCaller(c, caller, owner.organizationId, 'registry.set', subjectOf(owner), details)
    emitChange(c, owner)
    return [row]
  }).then((rows) => withNames(ctx, rows))
  if (!view) throw missing()
  return view
}

export async function removeRegistry(
  ctx: Context,
  caller: Caller,
  scope: RegistryScope,
  written: string,
): Promise<void> {
  await loadOwner(ctx.db, caller, scope, 'project:write')
  const host = registryHost(written)
  await change(ctx, async (c) => {
    const owner = await loadOwner(c.db, caller, scope, 'project:write')
    if (!(await deleteRegistry(c.db, owner, host))) {
      throw new AppError('not_found', `No credentials for ${host.slice(0, 100)} are stored here.`)
    }
    const subject = subjectOf(owner)
    await auditCaller(c, caller, owner.organizationId, 'registry.remove', subject, { host })
    emitChange(c, owner)
  })
}

function emitChange(c: Parameters<typeof emit>[0], owner: RegistryOwner): void {
  const { organizationId, projectId } = owner
  if (projectId === WHOLE_ORGANIZATION) emit(c, { organizationId }, 'organization.updated', {})
  else emit(c, { organizationId, projectId }, 'project.updated', {})
}
