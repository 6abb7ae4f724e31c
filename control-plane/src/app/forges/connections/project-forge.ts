// A project's connection to its forge: made, looked at again, repaired and ended. What was found is stored with the
// project and shown everywhere; a missing permission does not undo the connection.
import { AppError, invalidFields } from '@berth/shared'
import type { ProjectForgePut } from '@berth/shared/api'
import type { Context } from '../../../context.ts'
import type { Caller } from '../../../domain/core/access.ts'
import { type ForgeCheck, isBroken } from '../../../domain/forges/setup.ts'
import {
  type ForgeClient,
  ForgeError,
  type ForgeRepository,
} from '../../../forges/clients/forge.ts'
import { explainRefusal } from '../../../forges/clients/setup/permissions.ts'
import { FORGE_CONNECTIONS } from '../../../limits/forges.ts'
import { deleteWaitingReports } from '../../../store/forges/commit-statuses.ts'
import {
  deleteSetup,
  type ForgeConnection,
  type ForgeSetup,
  findConnection,
  findSetup,
  insertRemoval,
  listConnectedProjects,
  putSetup,
  setProjectConnection,
  updateConnection,
  updateSetup,
} from '../../../store/forges/connections.ts'
import { hastenRound, updateRepositoryFacts } from '../../../store/forges/repositories.ts'
import { findProject, lockProject, type Project } from '../../../store/projects/projects.ts'
import { findUsableConnection, loadProject, missing } from '../../core/access.ts'
import { auditCaller } from '../../core/audit.ts'
import type { Change } from '../../core/change.ts'
import { withLease } from '../../core/leases.ts'
import { holdOrganization } from '../../core/locks.ts'
import { change, emit } from '../../core/transaction.ts'
import { ensureDataKey } from '../../installation/data-keys.ts'
import {
  type ForgeConnectionView,
  replaceToken,
  saveConnection,
  viewConnections,
} from './connections.ts'
import { countForgeCall, type FoundForge, findForge, refusalOf } from './finding.ts'
import { inspectSetup, installSetup, type Looked, type Removed, removeSetup } from './installing.ts'
import { openConnected, placeOf } from './opening.ts'

export interface ProjectForgeView {
  connection: ForgeConnectionView | null
  setup: ForgeSetup | null
}

export const readChecks = (setup: Pick<ForgeSetup, 'checks'>): ForgeCheck[] =>
  JSON.parse(setup.checks) as ForgeCheck[]

async function viewForge(ctx: Context, project: Project): Promise<ProjectForgeView> {
  const id = project.forgeConnectionId
  const found = id === null ? undefined : await findConnection(ctx.db, id)
  if (!found) return { connection: null, setup: null }
  const [connection = null] = await viewConnections(ctx, [found])
  return { connection, setup: (await findSetup(ctx.db, project.id)) ?? null }
}

export const getProjectForge = async (
  ctx: Context,
  caller: Caller,
  projectId: number,
): Promise<ProjectForgeView> => viewForge(ctx, await loadProject(ctx.db, caller, projectId, 'read'))

/** A connection to use, from a stored one or from a token that the forge just accepted. */
type Chosen =
  | { kind: 'stored'; connection: ForgeConnection; place: Place }
  | { kind: 'new'; place: FoundForge }
type Place = Omit<FoundForge, 'account'>

async function choose(
  ctx: Context,
  caller: Caller,
  project: Project,
  asked: ProjectForgePut,
): Promise<Chosen> {
  if (!('connection_id' in asked)) {
    const place = await findForge(ctx, caller, { ...asked, repo_url: project.repoUrl })
    return { kind: 'new', place }
  }
  const id = asked.connection_id
  const connection = await findUsableConnection(ctx.db, project.organizationId, id)
  const place = connection && (await placeOf(ctx, connection))
  if (connection && place) {
    await countForgeCall(ctx, caller)
    return { kind: 'stored', connection, place }
  }
  const message = connection
    ? 'Its token cannot be read any more. Give the token again.'
    : 'This connection does not exist in the organization.'
  throw invalidFields([{ field: 'connection_id', code: 'not_found', message }])
}

/** Asks for the project's repository. Uses the network. */
async function findRepository(
  ctx: Context,
  project: Project,
  chosen: Chosen,
): Promise<{ client: ForgeClient; repository: ForgeRepository }> {
  const field = chosen.kind === 'new' ? 'token' : 'connection_id'
  const client = ctx.outbound.openRepository(chosen.place, project.repoUrl)
  if (!client) {
    const message = "The project's repository is not at a forge, so there is nothing to connect."
    throw invalidFields([{ field, code: 'repository_not_found', message }])
  }
  try {
    return { client, repository: await client.findRepository() }
  } catch (error) {
    if (!(error instanceof ForgeError)) throw error
    if (error.trouble !== 'not_found') {
      throw refusalOf(error, client.provider, 'repository', field)
    }
    const { permission } = explainRefusal(error, client.provider, 'list')
    const message = `${error.message} The token must open the repository ${project.repoUrl}; it needs: ${permission}.`
    throw invalidFields([{ field, code: 'repository_not_found', message }])
  }
}

const underWay = new WeakMap<Context, Map<number, Promise<void>>>()

/** Two installations at once would both find nothing and add two webhooks. */
export async function oneAtATime(
  ctx: Context,
  id: number,
  work: () => Promise<void>,
): Promise<void> {
  const busy = underWay.get(ctx) ?? new Map<number, Promise<void>>()
  underWay.set(ctx, busy)
  const before = busy.get(id) ?? Promise.resolve()
  const alone = () => withLease(ctx, `forge of project ${id}`, work)
  const mine = before.then(alone, alone)
  const settled = mine.catch(() => {})
  busy.set(id, settled)
  await mine.finally(() => {
    if (busy.get(id) === settled) busy.delete(id)
  })
}

export async function connectProject(
  ctx: Context,
  caller: Caller,
  projectId: number,
  asked: ProjectForgePut,
): Promise<ProjectForgeView> {
  const project = await loadProject(ctx.db, caller, projectId, 'project:write')
  if (project.status === 'deleting') {
    throw new AppError('project_deleting', `${project.name} is being deleted.`)
  }
  const chosen = await choose(ctx, caller, project, asked)
  const { client, repository } = await findRepository(ctx, project, chosen)
  await ensureDataKey(ctx, project.organizationId)
  const setup = await change(ctx, (c) => saveChoice(ctx, c, caller, projectId, chosen, repository))
  const current = (await findProject(ctx.db, projectId)) ?? project
  await oneAtATime(ctx, projectId, async () => {
    const looked = await installSetup(ctx, current, client, { made: setup, test: true })
    await recordLooked(ctx, projectId, looked, setup.nextCheckAt)
  })
  return viewForge(ctx, (await findProject(ctx.db, projectId)) ?? current)
}

/** The token replaces that of the present connection if only this project uses it. */
async function saveToken(
  ctx: Context,
  c: Change,
  caller: Caller,
  project: Project,
  found: FoundForge,
): Promise<ForgeConnection> {
  const id = project.forgeConnectionId
  const present = id === null ? undefined : await findConnection(c.db, id)
  if (present && present.provider === found.provider && present.apiUrl === found.base) {
    const used = await listConnectedProjects(c.db, [present.id])
    if (used.every((one) => one.id === project.id)) {
      return replaceToken(ctx, c, caller, present, found)
    }
  }
  return saveConnection(ctx, c, caller, project.organizationId, found)
}

async function saveChoice(
  ctx: Context,
  c: Change,
  caller: Caller,
  projectId: number,
  chosen: Chosen,
  repository: ForgeRepository,
): Promise<ForgeSetup> {
  const { organizationId } = await loadProject(c.db, caller, projectId, 'project:write')
  await holdOrganization(c, organizationId)
  const project = await lockProject(c.db, projectId)
  if (!project) throw missing()
  const connection =
    chosen.kind === 'new'
      ? await saveToken(ctx, c, caller, project, chosen.place)
      : await findUsableConnection(c.db, organizationId, chosen.connection.id)
  if (!connection) throw missing()
  const before = await findSetup(c.db, projectId)
  const isSame = before?.repository === repository.fullName
  if (before && !isSame) await leaveRepository(c, project, before)
  const setup: ForgeSetup = {
    projectId,
    repository: repository.fullName,
    keyId: isSame ? before.keyId : null,
    webhookId: isSame ? before.webhookId : null,
    checks: isSame ? before.checks : '[]',
    broken: isSame ? before.broken : 0,
    // a round goes on if this process dies before the forge has the key and the webhook
    installDue: 1,
    checkedAt: before?.checkedAt ?? null,
    nextCheckAt: c.now + FORGE_CONNECTIONS.claimMs,
  }
  await putSetup(c.db, setup)
  await setProjectConnection(c.db, projectId, connection.id)
  await updateRepositoryFacts(c.db, projectId, {
    provider: connection.provider,
    externalId: repository.externalId || project.externalId,
    // the connection replaces a token that the project had for itself
    hostTokenSealed: null,
    hostTokenCheckedAt: null,
    hostTokenError: null,
  })
  await hastenRound(c.db, projectId, c.now)
  const details = { provider: connection.provider, repository: repository.fullName }
  const subject: [string, number] = ['project', projectId]
  await auditCaller(c, caller, organizationId, 'project.forge_connect', subject, details)
  emit(c, { organizationId, projectId }, 'project.updated', {})
  return setup
}

/** Key and webhook in a former repository are removed by a round. */
async function leaveRepository(c: Change, project: Project, before: ForgeSetup): Promise<void> {
  const { repository, keyId, webhookId } = before
  const connectionId = project.forgeConnectionId
  if (connectionId === null) return
  await insertRemoval(c.db, { connectionId, repository, keyId, webhookId, nextAt: c.now })
}

const nextCheck = (now: number): number => {
  const { checkEveryMs, jitter } = FORGE_CONNECTIONS
  return Math.round(now + checkEveryMs * (1 + jitter * (2 * Math.random() - 1)))
}

/**
 * Stores what was found. An outage of the forge keeps what was known and is tried again soon. `claim` is the time until
 * which the caller held the row: an installation that was asked for meanwhile stays due.
 */
export async function recordLooked(
  ctx: Context,
  projectId: number,
  looked: Looked,
  claim: number | undefined,
): Promise<void> {
  await change(ctx, async (c) => {
    const project = await lockProject(c.db, projectId)
    const before = await findSetup(c.db, projectId)
    if (!project || !before || project.forgeConnectionId === null) return
    const isDue = before.installDue === 1 && before.nextCheckAt !== claim
    if (looked.tokenError !== undefined) {
      const columns = { error: looked.tokenError, checkedAt: c.now }
      await updateConnection(c.db, project.forgeConnectionId, columns)
    }
    if (looked.isAway) {
      const kept = readChecks(before).filter((check) => check.name !== 'token')
      await updateSetup(c.db, projectId, {
        checks: JSON.stringify([...looked.checks, ...kept]),
        ...(isDue ? {} : { nextCheckAt: c.now + FORGE_CONNECTIONS.retryMs }),
      })
      return
    }
    const { repository } = looked
    const isInstalled = repository !== undefined
    if (repository && repository.fullName !== before.repository) {
      await leaveRepository(c, project, before)
    }
    if (repository && project.externalId === null) {
      await updateRepositoryFacts(c.db, projectId, { externalId: repository.externalId })
    }
    await updateSetup(c.db, projectId, {
      ...(repository ? { repository: repository.fullName } : {}),
      checks: JSON.stringify(looked.checks),
      broken: isBroken(looked.checks) ? 1 : 0,
      keyId: isInstalled ? looked.keyId : before.keyId,
      webhookId: isInstalled ? looked.webhookId : before.webhookId,
      ...(isDue ? {} : { installDue: 0, nextCheckAt: nextCheck(c.now) }),
      checkedAt: c.now,
    })
    const { organizationId } = project
    emit(c, { organizationId, projectId }, 'project.updated', {})
  })
}

const notConnected = (): AppError =>
  new AppError('not_found', 'The project is not connected to a forge.')

/** Opens the connection of a project; undefined if it has none. */
export async function openSetup(ctx: Context, project: Project) {
  const id = project.forgeConnectionId
  const connection = id === null ? undefined : await findConnection(ctx.db, id)
  const setup = await findSetup(ctx.db, project.id)
  if (!connection || !setup) return undefined
  return { connection, setup, client: await openConnected(ctx, connection, project.repoUrl) }
}

/** POST …/forge/check: looks again and changes nothing at the forge. */
export async function checkProjectForge(
  ctx: Context,
  caller: Caller,
  projectId: number,
): Promise<ProjectForgeView> {
  const project = await loadProject(ctx.db, caller, projectId, 'project:write')
  const opened = await openSetup(ctx, project)
  if (!opened) throw notConnected()
  await countForgeCall(ctx, caller)
  await change(ctx, async (c) => {
    const subject: [string, number] = ['project', projectId]
    await auditCaller(c, caller, project.organizationId, 'project.forge_check', subject)
  })
  if (opened.client) {
    const looked = await inspectSetup(ctx, project, opened.client)
    await recordLooked(ctx, projectId, looked, undefined)
  }
  return viewForge(ctx, (await findProject(ctx.db, projectId)) ?? project)
}

/** DELETE …/forge: removes key and webhook at the forge as far as the token allows. */
export async function disconnectProject(
  ctx: Context,
  caller: Caller,
  projectId: number,
): Promise<Removed> {
  const project = await loadProject(ctx.db, caller, projectId, 'project:write')
  const opened = await openSetup(ctx, project)
  if (!opened) throw notConnected()
  const { keyId, webhookId, repository } = opened.setup
  const place = await placeOf(ctx, opened.connection)
  const client = place && ctx.outbound.openPath(place, repository)
  const result = client ? await removeSetup(client, { keyId, webhookId }) : NO_TOKEN
  await change(ctx, async (c) => {
    const held = await lockProject(c.db, projectId)
    if (!held) return
    await deleteSetup(c.db, projectId)
    await setProjectConnection(c.db, projectId, null)
    await updateRepositoryFacts(c.db, projectId, { hostTokenCheckedAt: null, hostTokenError: null })
    if (held.hostTokenSealed === null) await deleteWaitingReports(c.db, projectId)
    const { organizationId } = held
    const subject: [string, number] = ['project', projectId]
    const details = { repository, removed: result.removed }
    await auditCaller(c, caller, organizationId, 'project.forge_disconnect', subject, details)
    emit(c, { organizationId, projectId }, 'project.updated', {})
  })
  return result
}

const UNREADABLE = 'The token cannot be read any more. Remove it by hand.'
const NO_TOKEN: Removed = {
  removed: [],
  left: [
    { what: 'deploy_key', message: UNREADABLE },
    { what: 'webhook', message: UNREADABLE },
  ],
}
