// Finds the commit that a short SHA names: among the earlier deployments of the environment, then at the heads of the
// repository's branches, then in the history of the environment's branch. Other commits of forks are not searched,
// because their authors could imitate 7 digits of another commit.
import { invalidFields, LOOKS } from '@berth/shared'
import { Commit } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import { chooseCommit } from '../../domain/deployments/commit.ts'
import { listCommitsBy } from '../../store/deployments/task-history.ts'
import type { Environment } from '../../store/environments/environments.ts'
import { findProject } from '../../store/projects/projects.ts'
import { listCommits, lookAtRepository } from '../forges/repository.ts'

const FULL = 'Give the full SHA: git rev-parse prints it.'

const refuse = (code: string, message: string) =>
  invalidFields([{ field: 'commit_sha', code, message }])

/** Uses the network, so never call it inside a transaction. A full SHA is returned as it is. */
export async function resolveCommit(
  ctx: Context,
  environment: Environment,
  given: string,
): Promise<string> {
  if (Commit.safeParse(given).success) return given
  const known = pick(given, await listCommitsBy(ctx.db, environment.id, given))
  const sha = known ?? (await searchRepository(ctx, environment, given))
  if (sha) return sha
  const where = environment.fromFork
    ? `the deployments of ${environment.identifier}`
    : `the deployments of ${environment.identifier}, the heads of branches and the newest ${LOOKS.commits} commits of ${environment.branch}`
  throw refuse('unknown_commit', `No commit begins with ${given} among ${where}. ${FULL}`)
}

async function searchRepository(
  ctx: Context,
  environment: Environment,
  given: string,
): Promise<string | undefined> {
  const project = await findProject(ctx.db, environment.projectId)
  if (!project || environment.fromFork) return undefined
  const look = await lookAtRepository(ctx, project)
  if (!look.ok) throw unreadable(given, look.message)
  const branches = [...look.refs].filter(([ref]) => ref.startsWith('refs/heads/'))
  const heads = branches.map(([, sha]) => sha)
  const head = pick(given, heads)
  const ref = `refs/heads/${environment.branch}`
  if (head !== undefined || !look.refs.has(ref)) return head
  const history = await listCommits(ctx, project, ref)
  if (!history.ok) throw unreadable(given, history.message)
  return pick(given, history.commits)
}

const unreadable = (given: string, message: string) =>
  refuse(
    'unknown_commit',
    `${given} names no earlier deployment, and the repository cannot be searched: ${message} ${FULL}`,
  )

function pick(given: string, commits: readonly string[]): string | undefined {
  const choice = chooseCommit(given, commits)
  if (choice.kind !== 'ambiguous') return choice.sha
  const some = choice.examples.join(' and ')
  const message = `${given} names several commits, such as ${some}. Give more digits.`
  throw refuse('ambiguous_commit', message)
}
