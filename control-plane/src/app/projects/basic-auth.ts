// Basic Auth for environments: set on the environment, on the project, or at creation. The password becomes a bcrypt
// hash before anything is stored, the hash is encrypted, and neither is ever shown. A change reaches the edge without a
// deployment, through the environment's edge revision.
import { AppError } from '@berth/shared'
import type { EnvironmentBasicAuth, ProjectBasicAuth } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { type EffectiveAuth, effectiveAuth } from '../../domain/environments/basic-auth.ts'
import { hashPassword } from '../../keys/password-hash.ts'
import type { Place } from '../../keys/secret-store.ts'
import { raiseEdgeRevisions } from '../../store/environments/edge.ts'
import { lockEnvironment, updateEnvironment } from '../../store/environments/environments.ts'
import { lockProject, updateProject } from '../../store/projects/projects.ts'
import { findServerAgent } from '../../store/servers/agents.ts'
import { loadEnvironment, loadProject, requireUnprotected } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { agentTopic, change, emit, emitEnvironment } from '../core/transaction.ts'

type Owner = { id: number; organizationId: number }

export const authPlace = (table: 'environments' | 'projects', owner: Owner): Place => ({
  table,
  column: 'basic_auth_hash',
  organizationId: owner.organizationId,
  rowId: owner.id,
})

/** Mode, name and bcrypt hash; the password itself is not passed on. */
export interface HashedAuth {
  mode: 'own' | 'inherit' | 'off'
  username: string | null
  hash: string | null
}

export async function hashAuth(asked: EnvironmentBasicAuth): Promise<HashedAuth> {
  if (asked.mode !== 'own') return { mode: asked.mode, username: null, hash: null }
  return { mode: 'own', username: asked.username, hash: await hashPassword(asked.password) }
}

/** As columns, encrypted for the row. */
export function authColumns(
  ctx: Context,
  table: 'environments' | 'projects',
  owner: Owner,
  { username, hash }: HashedAuth,
): { basicAuthUsername: string | null; basicAuthHash: string | null } {
  const sealed =
    hash === null
      ? null
      : ctx.secretStore.seal('basic-auth', authPlace(table, owner), Buffer.from(hash))
  return { basicAuthUsername: username, basicAuthHash: sealed }
}

export async function setEnvironmentAuth(
  ctx: Context,
  caller: Caller,
  id: number,
  asked: EnvironmentBasicAuth,
): Promise<EffectiveAuth> {
  const before = await loadEnvironment(ctx.db, caller, id, 'environment:write')
  await requireUnprotected(ctx.db, caller, before)
  const hashed = await hashAuth(asked)
  return change(ctx, async (c) => {
    const environment = await lockEnvironment(c.db, id)
    const project = environment && (await lockProject(c.db, environment.projectId))
    if (!environment || !project) throw new AppError('not_found', 'It was just removed.')
    await requireUnprotected(c.db, caller, environment)
    if (environment.removingAt !== null) {
      throw new AppError('environment_removing', `${environment.identifier} is being removed.`)
    }
    const columns = authColumns(ctx, 'environments', environment, hashed)
    await updateEnvironment(c.db, id, {
      basicAuthMode: hashed.mode,
      ...columns,
      updatedAt: c.now,
    })
    await notifyEdges(c, await raiseEdgeRevisions(c.db, { environmentId: id }))
    const details = { mode: hashed.mode, username: hashed.username }
    const subject: [string, number] = ['environment', id]
    const { organizationId } = environment
    await auditCaller(c, caller, organizationId, 'environment.basic_auth', subject, details)
    emitEnvironment(c, environment, 'environment.updated', {})
    return effectiveAuth({ basicAuthMode: hashed.mode, ...columns }, project)
  })
}

export async function setProjectAuth(
  ctx: Context,
  caller: Caller,
  id: number,
  asked: ProjectBasicAuth,
): Promise<EffectiveAuth> {
  await loadProject(ctx.db, caller, id, 'project:write')
  const hashed = await hashAuth(asked)
  return change(ctx, async (c) => {
    const project = await lockProject(c.db, id)
    if (!project) throw new AppError('not_found', 'It was just removed.')
    const { organizationId } = project
    const columns = authColumns(ctx, 'projects', project, hashed)
    await updateProject(c.db, id, { ...columns, updatedAt: c.now })
    await notifyEdges(c, await raiseEdgeRevisions(c.db, { inheritingFrom: id }))
    const details = { mode: hashed.mode, username: hashed.username }
    await auditCaller(c, caller, organizationId, 'project.basic_auth', ['project', id], details)
    emit(c, { organizationId, projectId: id }, 'project.updated', {})
    return projectAuth(columns)
  })
}

/** A project has its own setting or none. */
export const projectAuth = (project: { basicAuthUsername: string | null }): EffectiveAuth =>
  project.basicAuthUsername === null
    ? { mode: 'off', enabled: false, username: null, from: null }
    : { mode: 'own', enabled: true, username: project.basicAuthUsername, from: 'project' }

async function notifyEdges(c: Change, serverIds: number[]): Promise<void> {
  for (const serverId of serverIds) {
    const agent = await findServerAgent(c.db, serverId)
    if (agent) c.notify(agentTopic(agent.id))
  }
}
