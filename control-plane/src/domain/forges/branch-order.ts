// Does an event follow from what is known of its branch? Deliveries come late, twice and in any order, so a commit that
// does not follow is not deployed on the event's word: the branch is looked at first, and what it has now counts. PURE.
import { type PullRequestAction, WEBHOOKS } from '@berth/shared'

/** One changed branch of a push, as far as its order matters. */
export interface BranchStep {
  branch: string
  /** Null when the branch was deleted, or when its head is whatever the server finds. */
  sha: string | null
  before: string | null
  deleted: boolean
  message: string | null
  paths: string[] | null
}

/** What is known of an environment's branch. */
export interface KnownBranch {
  /** The newest commit an event or a look told of. */
  headSha: string | null
  /** What the newest deployment asked for. */
  targetSha: string | null
  branchMissing: boolean
}

/** The branch went from what is known straight to what the push says, or nothing new would be deployed. */
export function followsBranch(
  { sha, before, deleted }: Pick<BranchStep, 'sha' | 'before' | 'deleted'>,
  known: KnownBranch,
): boolean {
  if (!deleted && sha === known.targetSha && sha === (known.headSha ?? sha)) return true
  // a branch that was gone begins again at nothing
  if (known.branchMissing) return deleted || before === null
  return before !== null && before === known.headSha && before === known.targetSha
}

/** What is known of a pull request, and of its environment if it has one. */
export interface KnownPullRequest {
  state: 'open' | 'merged' | 'closed' | 'presumed_closed'
  /** Empty: never told in full. */
  headSha: string
  happenedAt: number
  targetSha: string | null
}

export interface PullRequestNews {
  action: PullRequestAction
  headSha: string | null
  /** What the host says the head was before; null: it does not say. */
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
  if (happenedAt !== null && happenedAt < known.happenedAt) return true // older: not used at all
  if (known.state === 'merged' || known.state === 'closed') return action !== 'reopened'
  // a short commit is never used: the branch's head is deployed, whatever it is
  if (headSha === null || headSha === known.headSha || known.headSha === '') return true
  return before === known.headSha && (known.targetSha ?? known.headSha) === known.headSha
}

/** What a look saw; refs null: the repository could not be read, and nothing more is waited for. */
export interface Seen {
  refs: ReadonlyMap<string, string> | null
  /** What the forge says of the pull request; null: it was not asked, or does not know. */
  state: 'open' | 'merged' | 'closed' | null
}

/** The push as the branch says it. Without a look: whatever the branch has when the server fetches it. */
export function correctPush<T extends BranchStep>(change: T, { refs }: Seen): T {
  const asRead = { ...change, before: null, message: null, paths: null }
  if (refs === null) return change.deleted ? change : { ...asRead, sha: null }
  const sha = refs.get(`refs/heads/${change.branch}`) ?? null
  if (sha !== null && sha === change.sha) return change
  return { ...asRead, sha, deleted: sha === null }
}

export interface PullRequestHead {
  head_branch: string
  head_sha: string | null
  head_ref: string | null
  from_fork: boolean
  message: string | null
}

/** The pull request's head as git has it; undefined: the branch is gone, so nothing of it is deployed. */
export function correctHead<T extends PullRequestHead>(reported: T, { refs }: Seen): T | undefined {
  if (refs === null) return { ...reported, head_sha: null, message: null }
  const branch = reported.from_fork ? undefined : refs.get(`refs/heads/${reported.head_branch}`)
  if (!reported.from_fork && branch === undefined) return undefined
  const sha =
    branch ?? (reported.head_ref === null ? undefined : refs.get(reported.head_ref)) ?? null
  return sha === reported.head_sha ? reported : { ...reported, head_sha: sha, message: null }
}
