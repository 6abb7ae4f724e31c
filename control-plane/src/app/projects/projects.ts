// Creates a project from a repository, a base domain and servers. Each project gets its own Ed25519 key pair for
// reading its repository and its own webhook secret, which is shown only once.
import { AppError, invalidFields, REST, TASKS } from '@berth/shared'
import type { ProjectCreate } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { createDeployKey } from '../../keys/deploy-key.ts'
import { RECONCILE } from '../../limits/forges.ts'
import { isUniqueViolation } from '../../store/engine/database.ts'
import {
  countProjects,
  insertProject,
  listProjects,
  updateDeployKey,
  updateProject,
} from '../../store/projects/projects.ts'
import { asReader, organizationForCreation } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import { holdOrganization, holdServers } from '../core/locks.ts'
import { change, emit } from '../core/transaction.ts'
import { claimProjectDomain } from '../environments/hostnames.ts'
import { giveWebhookSecret } from '../forges/webhook-secrets.ts'
import { ensureDataKey } from '../installation/data-keys.ts'
import { defaultServerProblem, projectColumns, projectProblems } from './columns.ts'
import { getProject, type ProjectView } from './views.ts'

export const deployKeyPlace = (project: { id: number; organizationId: number }) => ({
  table: 'projects',
  column: 'deploy_key_sealed',
  organizationId: project.organizationId,
  rowId: project.id,
})

interface CreatedProject {
  view: ProjectView
  webhookSecret: string
}

export async function createProject(
  ctx: Context,
  caller: Caller,
  asked: ProjectCreate,
): Promise<CreatedProject> {
  const organizationId = organizationForCreation(caller, 'project:write')
  const problems = await projectProblems(ctx, ctx.db, organizationId, asked)
  const wrongDefault =
    asked.default_server_id === undefined
      ? undefined
      : defaultServerProblem(asked.server_ids, asked.default_server_id)
  if (wrongDefault) problems.push(wrongDefault)
  if (problems.length > 0) throw invalidFields(problems)
  const key = createDeployKey(asked.name)
  await ensureDataKey(ctx, organizationId) // an organization's first secret belongs to a project
  const { name, repo_url, domain } = asked
  const made = await change(ctx, async (c) => {
    const { db, now } = c
    await holdOrganization(c, organizationId)
    await holdServers(c, organizationId, [...new Set(asked.server_ids)])
    await claimProjectDomain(c, { id: null, organizationId }, domain)
    await requireFreeName(c.db, organizationId, name)
    await requireBelowLimit(c.db, organizationId, ctx.config.projectsPerOrganization)
    const id = await insertProject(
      db,
      {
        organizationId,
        name,
        repoUrl: repo_url,
        domain,
        ownerId: caller.userId,
        defaultRecipe: 'docker',
        defaultBranch: '', // the first read of the repository finds it
        defaultServerId: asked.server_ids[0] ?? null,
        environmentLimit: REST.environmentsPerProject,
        lostAfterMs: TASKS.lostAfterMs,
        reconcileAt: now + RECONCILE.afterStartMs,
        deployKeyPublic: key.publicLine,
        deployKeySealed: '',
        deployKeyCreatedAt: now,
        createdAt: now,
        updatedAt: now,
      },
      [...new Set(asked.server_ids)],
    )
    await updateProject(db, id, projectColumns(asked))
    const place = deployKeyPlace({ id, organizationId })
    const sealed = ctx.secretStore.seal('deploy-key', place, Buffer.from(key.privateKey))
    await updateDeployKey(db, id, { deployKeyPublic: key.publicLine, deployKeySealed: sealed })
    const webhookSecret = await giveWebhookSecret(ctx, c, { id, organizationId })
    const details = { name, repo_url, domain }
    await auditCaller(c, caller, organizationId, 'project.create', ['project', id], details)
    emit(c, { organizationId, projectId: id }, 'project.created', { name })
    return { id, webhookSecret }
  }).catch((error: unknown) => {
    // both were checked above; only the index decides between two concurrent requests
    if (!isUniqueViolation(error)) throw error
    throw new AppError('name_taken', `The name ${name} or the domain ${domain} was just taken.`)
  })
  const view = await getProject(ctx, asReader(caller), made.id)
  return { view, webhookSecret: made.webhookSecret }
}

type Db = Parameters<typeof listProjects>[0]

export async function requireFreeName(
  db: Db,
  organizationId: number,
  name: string,
  except?: number,
): Promise<void> {
  const [same] = await listProjects(db, [organizationId], { name, limit: 1 })
  if (!same || same.id === except) return
  throw new AppError('name_taken', `There is a project named ${name} already.`)
}

async function requireBelowLimit(db: Db, organizationId: number, most: number): Promise<void> {
  if ((await countProjects(db, organizationId)) < most) return
  const message = `An organization has at most ${most} projects. The operator of Berth can raise BERTH_PROJECTS_PER_ORGANIZATION.`
  throw invalidFields([{ field: 'name', code: 'too_many_projects', message }])
}
