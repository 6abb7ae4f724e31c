// Reads a project's repository with the project's own key, outside any transaction, and stores the result with the
// project. The key leaves this file only as a Sensitive for the one call that needs it.
import { LOOKS, RECIPES, type Recipe, Sensitive } from '@berth/shared'
import { type Problem, readServiceFile } from '@berth/shared/service-file'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import type { Look, LookRequest } from '../../forges/git.ts'
import type { LookFailure } from '../../forges/git-messages.ts'
import { learnDefaultBranch, updateRepositoryFacts } from '../../store/forges/repositories.ts'
import type { Project } from '../../store/projects/projects.ts'
import { loadProject } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change, emit } from '../core/transaction.ts'
import { deployKeyPlace } from '../projects/projects.ts'

/** Lines of known_hosts that servers must accept; empty means the first key that each server sees. */
export function trustedLines(ctx: Context, project: Project): string[] {
  if (project.trustedHostKey === null) return []
  const host = ctx.outbound.git.knownHostsNameOf(project.repoUrl)
  return project.trustedHostKey.startsWith(`${host} `) ? [project.trustedHostKey] : []
}

async function lookRequest(ctx: Context, project: Project): Promise<LookRequest> {
  const place = deployKeyPlace(project)
  const key = await ctx.secretStore.open('deploy-key', place, project.deployKeySealed)
  return {
    projectId: project.id,
    url: project.repoUrl,
    publicKey: project.deployKeyPublic,
    deployKey: new Sensitive(key),
    trusted: trustedLines(ctx, project)[0] ?? null,
  }
}

/** Uses the network, so never call it inside a transaction. */
export const lookAtRepository = async (ctx: Context, project: Project): Promise<Look> =>
  ctx.outbound.git.lookAtRepository(await lookRequest(ctx, project))

/** Lists the newest commits of a ref. Uses the network, so never call it inside a transaction. */
export const listCommits = async (ctx: Context, project: Project, ref: string) =>
  ctx.outbound.git.listCommits({ ...(await lookRequest(ctx, project)), ref, most: LOOKS.commits })

/** The same with authors and subjects, for a user who chooses one. */
export const readHistory = async (ctx: Context, project: Project, ref: string) =>
  ctx.outbound.git.readHistory({
    ...(await lookRequest(ctx, project)),
    ref,
    most: LOOKS.offeredCommits,
  })

/** Which files differ between two commits. Uses the network. */
export const compareCommits = async (ctx: Context, project: Project, base: string, head: string) =>
  ctx.outbound.git.compareTrees({
    ...(await lookRequest(ctx, project)),
    base,
    head,
    most: LOOKS.shownFiles,
  })

const encodeLookError = (look: Look): string | null =>
  look.ok ? null : JSON.stringify({ code: look.code, message: look.message })

/** Decodes the stored error; null if there is none. */
export function decodeLookError(stored: string | null): { code: string; message: string } | null {
  if (stored === null) return null
  return JSON.parse(stored) as { code: string; message: string }
}

/** The first read learns an unset default branch; until then it is the most common name. */
export const defaultBranchOf = (
  project: Pick<Project, 'defaultBranch'>,
  look?: { defaultBranch: string | undefined },
): string => project.defaultBranch || look?.defaultBranch || 'main'

/** Emits an event only on a change. */
export async function recordLook(c: Change, project: Project, look: Look): Promise<void> {
  const reachable = look.ok ? 1 : 0
  await updateRepositoryFacts(c.db, project.id, {
    reachable,
    checkedAt: c.now,
    repositoryError: encodeLookError(look),
  })
  const branch = look.ok && project.defaultBranch === '' ? look.defaultBranch : undefined
  const isLearned = branch !== undefined && (await learnDefaultBranch(c.db, project.id, branch))
  if (project.reachable === reachable && !isLearned) return
  const about = { organizationId: project.organizationId, projectId: project.id }
  emit(c, about, 'project.updated', { reachable: look.ok })
}

export interface RepositoryCheck {
  reachable: boolean
  defaultBranch: string | null
  branchCount: number | null
  /** Null if the repository could not be read that far. */
  serviceFile: { found: boolean; recipes: Recipe[]; problems: Problem[] } | null
  error: LookFailure | null
}

/** Reads the repository now, with the service file of the default branch. */
export async function checkRepository(
  ctx: Context,
  caller: Caller,
  projectId: number,
): Promise<RepositoryCheck> {
  const project = await loadProject(ctx.db, caller, projectId, 'project:write')
  const look = await lookAtRepository(ctx, project)
  await change(ctx, async (c) => {
    await recordLook(c, project, look)
    const details = { reachable: look.ok, ...(look.ok ? {} : { code: look.code }) }
    const subject: [string, number] = ['project', project.id]
    await auditCaller(c, caller, project.organizationId, 'project.check', subject, details)
  })
  if (!look.ok) {
    const error = { code: look.code, message: look.message }
    return { reachable: false, defaultBranch: null, branchCount: null, serviceFile: null, error }
  }
  const branches = [...look.refs.keys()].filter((ref) => ref.startsWith('refs/heads/'))
  const sha = look.refs.get(`refs/heads/${defaultBranchOf(project, look)}`)
  const file = sha === undefined ? undefined : await readFileAt(ctx, project, sha)
  return {
    reachable: true,
    defaultBranch: look.defaultBranch ?? null,
    branchCount: branches.length,
    serviceFile: file?.ok
      ? file.serviceFile
      : sha
        ? null
        : { found: false, recipes: [], problems: [] },
    error: file && !file.ok ? { code: file.code, message: file.message } : null,
  }
}

async function readFileAt(ctx: Context, project: Project, sha: string) {
  const request = await lookRequest(ctx, project)
  const read = await ctx.outbound.git.readServiceFile({ ...request, sha })
  if (!read.ok) return read
  if (!read.content) {
    return { ok: true as const, serviceFile: { found: false, recipes: [], problems: [] } }
  }
  const { file, problems } = readServiceFile(read.content)
  const recipes = RECIPES.filter((recipe) => file?.[recipe])
  return { ok: true as const, serviceFile: { found: true, recipes, problems } }
}
