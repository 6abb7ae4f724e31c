// The token for the API of a project's forge: checked there before it is stored, encrypted and bound to the project and
// the forge's hostname, so that a project moved to another forge does not send it there. It is in no answer, log or
// audit row, and never reaches a server.
import { invalidFields, Sensitive } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { type ForgeClient, ForgeError } from '../../forges/clients/forge.ts'
import { splitRepositoryUrl } from '../../forges/clients/open.ts'
import { SecretStoreError } from '../../keys/secret-store.ts'
import { deleteWaitingReports } from '../../store/forges/commit-statuses.ts'
import { findConnection } from '../../store/forges/connections.ts'
import { hastenRound, updateRepositoryFacts } from '../../store/forges/repositories.ts'
import type { Project } from '../../store/projects/projects.ts'
import { loadProject } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import { change, emit } from '../core/transaction.ts'
import { openConnected } from './connections/opening.ts'

export const forgeTokenPlace = (project: Pick<Project, 'id' | 'organizationId' | 'repoUrl'>) => ({
  table: 'projects',
  column: 'host_token_sealed',
  organizationId: project.organizationId,
  rowId: `${project.id}@${splitRepositoryUrl(project.repoUrl)?.origin ?? ''}`,
})

/** By the project's own token, else by its connection. Undefined if there is none, or only one for another forge. */
export async function openProjectForge(
  ctx: Context,
  project: Project,
): Promise<ForgeClient | undefined> {
  const own = await openWithOwnToken(ctx, project)
  if (own || project.forgeConnectionId === null) return own
  const connection = await findConnection(ctx.db, project.forgeConnectionId)
  return connection && openConnected(ctx, connection, project.repoUrl)
}

async function openWithOwnToken(ctx: Context, project: Project): Promise<ForgeClient | undefined> {
  if (project.hostTokenSealed === null) return undefined
  let token: Sensitive<string>
  try {
    const plain = await ctx.secretStore.open(
      'host-token',
      forgeTokenPlace(project),
      project.hostTokenSealed,
    )
    token = new Sensitive(Buffer.from(plain).toString('utf8'))
  } catch (error) {
    if (error instanceof SecretStoreError) return undefined
    throw error
  }
  return ctx.outbound.openHosts(project.repoUrl, project.provider, token)[0]
}

export interface ForgeTokenView {
  set: boolean
  host: string | null
  checkedAt: number | null
  error: string | null
}

/** The first kind of forge that accepts the token, or the error to report if none does. */
async function findAccepting(clients: ForgeClient[]) {
  let last: ForgeError | undefined
  for (const client of clients) {
    try {
      return { client, repository: await client.findRepository() }
    } catch (error) {
      if (!(error instanceof ForgeError)) throw error
      // a rejected token is the clearest reason; a wrong kind of forge answers "not found" to everything
      if (!last || error.trouble === 'token_rejected') last = error
    }
  }
  const message = last?.message ?? 'The host of this repository has no API that Berth knows.'
  const advice = 'Give a token that may read the repository and set statuses.'
  throw invalidFields([
    { field: 'token', code: 'host_token_rejected', message: `${message} ${advice}` },
  ])
}

export async function setForgeToken(
  ctx: Context,
  caller: Caller,
  projectId: number,
  given: string,
): Promise<ForgeTokenView> {
  const project = await loadProject(ctx.db, caller, projectId, 'project:write')
  const token = new Sensitive(given)
  const clients = ctx.outbound.openHosts(project.repoUrl, project.provider, token)
  const { client, repository } = await findAccepting(clients)
  return change(ctx, async (c) => {
    const current = await loadProject(c.db, caller, projectId, 'project:write')
    const sealed = ctx.secretStore.seal('host-token', forgeTokenPlace(project), Buffer.from(given))
    await updateRepositoryFacts(c.db, projectId, {
      hostTokenSealed: sealed,
      hostTokenCheckedAt: c.now,
      hostTokenError: null,
      provider: current.provider ?? client.provider,
      ...(current.externalId === null && repository.externalId !== ''
        ? { externalId: repository.externalId }
        : {}),
    })
    await hastenRound(c.db, projectId, c.now)
    const subject: [string, number] = ['project', projectId]
    const details = { host: client.provider }
    await auditCaller(c, caller, project.organizationId, 'host_token.set', subject, details)
    emit(c, { organizationId: project.organizationId, projectId }, 'project.updated', {})
    return { set: true, host: client.provider, checkedAt: c.now, error: null }
  })
}

export async function removeForgeToken(
  ctx: Context,
  caller: Caller,
  projectId: number,
): Promise<void> {
  const project = await loadProject(ctx.db, caller, projectId, 'project:write')
  await change(ctx, async (c) => {
    await updateRepositoryFacts(c.db, projectId, {
      hostTokenSealed: null,
      hostTokenCheckedAt: null,
      hostTokenError: null,
    })
    if (project.forgeConnectionId === null) await deleteWaitingReports(c.db, projectId)
    const subject: [string, number] = ['project', projectId]
    await auditCaller(c, caller, project.organizationId, 'host_token.remove', subject)
    emit(c, { organizationId: project.organizationId, projectId }, 'project.updated', {})
  })
}
