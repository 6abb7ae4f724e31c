// Decides whether an event follows from the known state of its branch. Deliveries come late, twice and in any order, so
// for a commit that does not follow, the branch is checked first and its present head counts. PURE.
import type { PullRequestAction } from '@berth/shared'
import { WEBHOOKS } from '../../limits/forges.ts'

/** One changed branch of a push, as far as its order matters. */
interface BranchStep {
  branch: string
  /** Null when the branch was deleted, or when the server resolves its head. */
  sha: string | null
  before: string | null
  deleted: boolean
  message: string | null
  paths: string[] | null
}

/** The known state of an environment's branch. */
export interface KnownBranch {
  /** The newest commit from an event or a check. */
  headSha: string | null
  /** The commit of the newest requested deployment. */
  targetSha: string | null
  branchMissing: boolean
}

/** True if the push goes directly from the known head to its new one, or would deploy nothing new. */
export function followsBranch(
  { sha, before, deleted }: Pick<BranchStep, 'sha' | 'before' | 'deleted'>,
  known: KnownBranch,
): boolean {
  if (!deleted && sha === known.targetSha && sha === (known.headSha ?? sha)) return true
  // a deleted branch starts again without a former head
  if (known.branchMissing) return deleted || before === null
  return before !== null && before === known.headSha && before === known.targetSha
}

/** The known state of a pull request, and of its environment if it has one. */
export interface KnownPullRequest {
  state: 'open' | 'merged' | 'closed' | 'presumed_closed'
  /** Empty if it was never reported in full. */
  headSha: string
  happenedAt: number
  targetSha: string | null
}

export interface PullRequestNews {
  action: PullRequestAction
  headSha: string | null
  /** The head before the event, according to the forge; null if it does not say. */
  before: string | null
  happenedAt: number | null
}

export function followsPullRequest(
  news: PullRequestNews,
  known: KnownPullRequest | undefined,
  now: number,
): boolean {
  const { action, headSha, before, happenedAt } = news
  if (action === 'merged' || action === 'closed') return true
  if (!known) return happenedAt === null || now - happenedAt <= WEBHOOKS.lateMs
  if (happenedAt !== null && happenedAt < known.happenedAt) return true // older, so it is ignored later
  if (known.state === 'merged' || known.state === 'closed') return action !== 'reopened'
  // a shortened commit is never used: the present head of the branch is deployed
  if (headSha === null || headSha === known.headSha || known.headSha === '') return true
  return before === known.headSha && (known.targetSha ?? known.headSha) === known.headSha
}

/** The result of a check; refs is null if the repository could not be read and the tries are used up. */
export interface Seen {
  refs: ReadonlyMap<string, string> | null
  /** The pull request's state at the forge; null if it was not asked or does not know. */
  state: 'open' | 'merged' | 'closed' | null
}

/** Corrects the push to the branch's present head. Without a check, the server fetches the head. */
export function correctPush<T extends BranchStep>(change: T, { refs }: Seen): T {
  const asRead = { ...change, before: null, message: null, paths: null }
  if (refs === null) return change.deleted ? change : { ...asRead, sha: null }
  const sha = refs.get(`refs/heads/${change.branch}`) ?? null
  if (sha !== null && sha === change.sha) return change
  return { ...asRead, sha, deleted: sha === null }
}

interface PullRequestHead {
  head_branch: string
  head_sha: string | null
  head_ref: string | null
  from_fork: boolean
  message: string | null
}

/** Corrects the head to git's state; undefined if the branch was deleted, so nothing is deployed. */
export function correctHead<T extends PullRequestHead>(reported: T, { refs }: Seen): T | undefined {
  if (refs === null) return { ...reported, head_sha: null, message: null }
  const branch = reported.from_fork ? undefined : refs.get(`refs/heads/${reported.head_branch}`)
  if (!reported.from_fork && branch === undefined) return undefined
  const sha =
    branch ?? (reported.head_ref === null ? undefined : refs.get(reported.head_ref)) ?? null
  return sha === reported.head_sha ? reported : { ...reported, head_sha: sha, message: null }
}
