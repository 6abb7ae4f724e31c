// A project's settings as columns, and the checks that need no other row; used to create and to change a project.
import type { FieldProblem } from '@berth/shared'
import type { ProjectPatch } from '@berth/shared/api'
import type { Updateable } from 'kysely'
import type { Context } from '../../context.ts'
import { branchProblem, repositoryProblem } from '../../domain/forges/repository.ts'
import type { Db } from '../../store/engine/db.ts'
import type { ProjectsTable } from '../../store/schema.ts'
import { filterUsableServers } from '../core/access.ts'
import { reservedProblem } from '../environments/hostnames.ts'

type ProjectColumns = Updateable<ProjectsTable>

const flag = (value: boolean) => (value ? 1 : 0)

/** Contains only the settings in the request; the others keep their values. */
export function projectColumns(asked: ProjectPatch): ProjectColumns {
  const columns: ProjectColumns = {}
  if (asked.name !== undefined) columns.name = asked.name
  if (asked.repo_url !== undefined) columns.repoUrl = asked.repo_url
  if (asked.domain !== undefined) columns.domain = asked.domain
  if (asked.owner_id !== undefined) columns.ownerId = asked.owner_id
  if (asked.default_recipe !== undefined) columns.defaultRecipe = asked.default_recipe
  if (asked.default_branch !== undefined) columns.defaultBranch = asked.default_branch
  if (asked.default_server_id !== undefined) columns.defaultServerId = asked.default_server_id
  if (asked.pull_request_environments !== undefined) {
    columns.pullRequestEnvironments = flag(asked.pull_request_environments)
  }
  if (asked.pull_request_bases !== undefined) {
    columns.pullRequestBases = JSON.stringify(asked.pull_request_bases)
  }
  if (asked.deploy_drafts !== undefined) columns.deployDrafts = flag(asked.deploy_drafts)
  if (asked.fork_pull_requests !== undefined) columns.forkPullRequests = asked.fork_pull_requests
  if (asked.auto_deploy !== undefined) columns.autoDeploy = flag(asked.auto_deploy)
  if (asked.watch_paths !== undefined) columns.watchPaths = JSON.stringify(asked.watch_paths)
  if (asked.skip_marker !== undefined) columns.skipMarker = flag(asked.skip_marker)
  if (asked.comment_on_pull_requests !== undefined) {
    columns.commentOnPullRequests = flag(asked.comment_on_pull_requests)
  }
  if (asked.custom_domains !== undefined) {
    columns.customDomains = JSON.stringify([...new Set(asked.custom_domains)])
  }
  if (asked.lost_after_seconds !== undefined) {
    columns.lostAfterMs = asked.lost_after_seconds * 1_000
  }
  return columns
}

export async function projectProblems(
  ctx: Context,
  db: Db,
  organizationId: number,
  asked: ProjectPatch,
): Promise<FieldProblem[]> {
  const problems: (FieldProblem | undefined)[] = []
  if (asked.repo_url !== undefined) {
    const allowLocal = ctx.config.allowLocalRepositories
    problems.push(repositoryProblem(asked.repo_url, { allowLocal }))
  }
  if (asked.default_branch !== undefined) {
    problems.push(branchProblem(asked.default_branch, 'default_branch'))
  }
  if (asked.domain !== undefined) problems.push(reservedProblem(ctx, asked.domain, 'domain'))
  for (const [i, host] of (asked.custom_domains ?? []).entries()) {
    problems.push(reservedProblem(ctx, host, `custom_domains.${i}`))
  }
  if (asked.server_ids !== undefined) {
    const wanted = new Set(asked.server_ids)
    const usable = await filterUsableServers(db, organizationId, [...wanted])
    if (usable.length !== wanted.size) {
      const message = 'A server of the list does not exist in this organization.'
      problems.push({ field: 'server_ids', code: 'not_found', message })
    }
  }
  return problems.filter((p) => p !== undefined)
}

export const defaultServerProblem = (serverIds: readonly number[], id: number) =>
  serverIds.includes(id)
    ? undefined
    : {
        field: 'default_server_id',
        code: 'server_not_in_project',
        message: 'The default server must be one of the project.',
      }
