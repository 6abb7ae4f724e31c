// Finds the commit that a short SHA names: among the earlier deployments of the environment, then at the heads of the
// repository's branches, then in the history of the environment's branch. Other commits of forks are not searched,
// because their authors could imitate 7 digits of another commit. Also lists what a user can choose from: branches with
// their newest commits, and earlier deployments.
import { AppError, invalidFields, LOOKS, STEPS } from '@berth/shared'
import { Commit } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { chooseCommit } from '../../domain/deployments/commit.ts'
import type { CommitFacts } from '../../forges/git-messages.ts'
import { listCommitsBy, listTasks } from '../../store/deployments/task-history.ts'
import type { ShownTask } from '../../store/deployments/tasks.ts'
import type { Environment } from '../../store/environments/environments.ts'
import { findProject } from '../../store/projects/projects.ts'
import { loadEnvironment } from '../core/access.ts'
import { listCommits, lookAtRepository, readHistory } from '../forges/repository.ts'

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

export interface CommitChoices {
  /** The environment's own branch first, if the repository has it. */
  branches: string[]
  areAllBranches: boolean
  /** Of the asked branch, newest first. */
  commits: CommitFacts[]
  /** Why they are empty; null: the repository was read. */
  problem: string | null
}

const HEADS = 'refs/heads/'

/** A pull request of a fork offers nothing: only approved commits are deployed there. */
export async function listCommitChoices(
  ctx: Context,
  caller: Caller,
  environmentId: number,
  asked: { branch?: string | undefined },
): Promise<CommitChoices> {
  const environment = await loadEnvironment(ctx.db, caller, environmentId, 'deploy')
  await ctx.quotas.narrow.searches.take(`user ${caller.userId}`)
  const none = { branches: [], areAllBranches: true, commits: [] }
  if (environment.fromFork) {
    return { ...none, problem: 'It comes from a fork: only approved commits are deployed.' }
  }
  const project = await findProject(ctx.db, environment.projectId)
  if (!project) throw new AppError('not_found', 'It was just removed.')
  const look = await lookAtRepository(ctx, project)
  if (!look.ok) return { ...none, problem: look.message }
  const own = environment.branch
  const names = [...look.refs.keys()].filter((ref) => ref.startsWith(HEADS))
  const others = names.map((ref) => ref.slice(HEADS.length)).filter((name) => name !== own)
  const all = look.refs.has(HEADS + own) ? [own, ...others.toSorted()] : others.toSorted()
  const choices = {
    ...none,
    branches: all.slice(0, LOOKS.offeredBranches),
    areAllBranches: all.length <= LOOKS.offeredBranches,
  }
  const branch = asked.branch ?? own
  if (!look.refs.has(HEADS + branch)) {
    return { ...choices, problem: `The repository has no branch ${branch}.` }
  }
  const history = await readHistory(ctx, project, HEADS + branch)
  if (!history.ok) return { ...choices, problem: history.message }
  return { ...choices, commits: history.commits, problem: null }
}

export interface Version {
  task: ShownTask
  /** By the rule that servers follow, its image or release is still there, so nothing is built. */
  isKept: boolean
}

/** History that is searched for versions; deployments of the same commit count once. */
const SEARCHED = 100

/** Earlier successful deployments of other commits than the running one, newest first. */
export async function listVersions(
  ctx: Context,
  caller: Caller,
  environmentId: number,
): Promise<Version[]> {
  const environment = await loadEnvironment(ctx.db, caller, environmentId, 'read')
  const filter = { status: ['succeeded' as const], types: ['deploy' as const], limit: SEARCHED }
  const tasks = await listTasks(ctx.db, { environmentId }, filter)
  const byCommit = new Map<string, ShownTask>()
  for (const task of tasks) {
    const sha = task.commitSha
    if (sha === null || sha === environment.commitSha || byCommit.has(sha)) continue
    byCommit.set(sha, task)
  }
  // a server keeps the running version and the newest before it; one that moved has none of the former server
  let room = STEPS.keptReleases - 1
  return [...byCommit.values()].map((task) => {
    const isKept = task.serverId === environment.serverId && room-- > 0
    return { task, isKept }
  })
}
