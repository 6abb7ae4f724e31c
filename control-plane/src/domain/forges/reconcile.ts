// What a look at git, and at the host when there is a token, tells that no delivery told. PURE: what is known and what was
// seen go in, findings come out; app/forges/reconcile.ts makes the events of them that a delivery would have made. What git
// cannot know is not guessed: a head ref outlives its pull request, so only a branch that stays away says "closed", and
// that slowly. Something that never was deployed was not missed.
import { RECONCILE } from '@berth/shared'
import { isLeftBehind } from '../deployments/pinning.ts'

/** An environment as it was before the look. */
export interface KnownEnvironment {
  id: number
  type: 'manual' | 'pull_request'
  branch: string
  targetSha: string | null
  /** It stays at a commit that somebody chose while its branch stood at one of these. */
  pinnedFrom: readonly string[] | null
  branchMissing: boolean
  fromFork: boolean
  /** It is being removed, or its pull request is over: what is pushed does not concern it. */
  ended: boolean
  /** Its newest deployment never started because its server was away, which is back now. */
  neverStarted: boolean
}

export interface KnownPullRequest {
  number: number
  title: string
  state: 'open' | 'merged' | 'closed' | 'presumed_closed'
  draft: boolean
  headBranch: string
  baseBranch: string
  fromFork: boolean
  /** Empty: never told in full. */
  headSha: string
  headRef: string | null
  branchMissingSince: number | null
  presumedClosedAt: number | null
  /** As of an environment; of the one it has. */
  neverStarted: boolean
}

/** A pull request as the host has it. */
export interface SeenPullRequest {
  number: number
  title: string
  url: string
  author: string
  state: 'open' | 'merged' | 'closed'
  draft: boolean
  headBranch: string
  headSha: string | null
  headRef: string | null
  baseBranch: string
  fromFork: boolean
  updatedAt: number
}

export interface HostTruth {
  open: SeenPullRequest[]
  /** False: nothing follows from one that is not in the list. */
  complete: boolean
  /** Known ones that were not in the list, asked for one by one; undefined: the host knows them no more. */
  asked: ReadonlyMap<number, SeenPullRequest | undefined>
}

export interface Sight {
  now: number
  /** Full names of refs. */
  refs: ReadonlyMap<string, string>
  host: HostTruth | undefined
  environments: readonly KnownEnvironment[]
  /** Those that are open or presumed closed, and whatever the host shows as open. */
  pullRequests: readonly KnownPullRequest[]
}

export type PullRequestAction = 'opened' | 'reopened' | 'updated' | 'edited' | 'merged' | 'closed'

export type Finding =
  | { kind: 'push'; branch: string; sha: string }
  | { kind: 'branch_deleted'; branch: string }
  | { kind: 'head'; number: number; sha: string }
  /** Its newest deployment never started because its server was away, and the server is back. */
  | { kind: 'again'; number: number }
  | { kind: 'host'; action: PullRequestAction; pullRequest: SeenPullRequest }
  /** The host knows it no more, or its branch stayed away: closed, by what is on record. */
  | { kind: 'closed'; number: number; reason: 'unknown_to_host' | 'branch_gone' }
  | { kind: 'branch_gone'; number: number }
  | { kind: 'presumed_closed'; number: number }
  /** `reopens`: it was presumed closed. */
  | { kind: 'branch_back'; number: number; reopens: boolean }

const branchRef = (branch: string): string => `refs/heads/${branch}`

export function findMissed(sight: Sight): Finding[] {
  const { refs, host } = sight
  const hasBranches = [...refs.keys()].some((ref) => ref.startsWith('refs/heads/'))
  const settled = new Set<number>()
  const findings: Finding[] = []
  if (host) {
    const reported = findFromHost(sight, host)
    for (const number of reported.settled) settled.add(number)
    findings.push(...reported.findings)
  }
  const isReported = (number: number): boolean =>
    findings.some((f) => f.kind === 'host' && f.pullRequest.number === number)
  for (const { number, state, fromFork, neverStarted } of sight.pullRequests) {
    // those of the same repository are told by their branch
    if (!neverStarted || !fromFork || state !== 'open' || isReported(number)) continue
    findings.push({ kind: 'again', number })
  }
  // a repository without any branch was just made, or is being restored: nothing follows from what is not there
  if (!hasBranches) return findings
  findings.push(...findBranches(sight))
  for (const known of sight.pullRequests) {
    if (known.state !== 'open' && known.state !== 'presumed_closed') continue
    if (!settled.has(known.number)) findings.push(...findHead(sight, known))
  }
  return findings
}

/**
 * Branches of environments, each once. Also those of pull requests: a late, older push may have led their environment
 * astray while their record is right. A fork's branch may have any name, also one of ours.
 */
function findBranches({ refs, environments }: Sight): Finding[] {
  const findings = new Map<string, Finding>()
  for (const e of environments) {
    if (e.ended || e.fromFork) continue
    const { branch } = e
    const sha = refs.get(branchRef(branch))
    if (sha === undefined) {
      const isNews = e.type === 'manual' && !e.branchMissing && !findings.has(branch)
      if (isNews) findings.set(branch, { kind: 'branch_deleted', branch })
      continue
    }
    const isStaying = sha !== e.targetSha && isLeftBehind(e.pinnedFrom, sha)
    const isMoved = e.targetSha !== null && (sha !== e.targetSha || e.neverStarted) && !isStaying
    if (isMoved || e.branchMissing) findings.set(branch, { kind: 'push', branch, sha })
  }
  return [...findings.values()]
}

const headOf = (refs: Sight['refs'], known: KnownPullRequest): string | undefined => {
  const own = known.headRef === null ? undefined : refs.get(known.headRef)
  return own ?? (known.fromFork ? undefined : refs.get(branchRef(known.headBranch)))
}

/** What git alone can say of an open pull request. */
function findHead({ refs, now }: Sight, known: KnownPullRequest): Finding[] {
  const { number, fromFork, branchMissingSince, presumedClosedAt, state } = known
  const findings: Finding[] = []
  const isGone = !fromFork && !refs.has(branchRef(known.headBranch))
  if (isGone) {
    if (branchMissingSince === null) return [{ kind: 'branch_gone', number }]
    if (state === 'open') {
      const isLong = now - branchMissingSince >= RECONCILE.goneMs
      return isLong ? [{ kind: 'presumed_closed', number }] : []
    }
    const isOver = now - (presumedClosedAt ?? now) >= RECONCILE.presumedMs
    return isOver ? [{ kind: 'closed', number, reason: 'branch_gone' }] : []
  }
  const reopens = state === 'presumed_closed'
  if (branchMissingSince !== null || reopens) {
    findings.push({ kind: 'branch_back', number, reopens })
  }
  const sha = headOf(refs, known)
  if (sha !== undefined && sha !== known.headSha) findings.push({ kind: 'head', number, sha })
  return findings
}

/** The host's list is the truth: what differs from the record becomes the event that was missed. */
function findFromHost(
  { refs, pullRequests }: Sight,
  host: HostTruth,
): { findings: Finding[]; settled: Set<number> } {
  const known = new Map(pullRequests.map((p) => [p.number, p]))
  const findings: Finding[] = []
  const settled = new Set<number>()
  for (const seen of host.open) {
    const record = known.get(seen.number)
    const pullRequest = { ...seen, headSha: seen.headSha ?? resolveHead(refs, seen) }
    settled.add(seen.number)
    const action = actionFor(record, pullRequest)
    if (action) findings.push({ kind: 'host', action, pullRequest })
    if (record && record.branchMissingSince !== null) {
      const reopens = record.state === 'presumed_closed'
      findings.push({ kind: 'branch_back', number: seen.number, reopens })
    }
  }
  if (!host.complete) return { findings, settled }
  for (const record of pullRequests) {
    const { number, state } = record
    if (settled.has(number) || (state !== 'open' && state !== 'presumed_closed')) continue
    if (!host.asked.has(number)) continue
    const seen = host.asked.get(number)
    settled.add(number)
    if (!seen) findings.push({ kind: 'closed', number, reason: 'unknown_to_host' })
    else if (seen.state !== 'open') {
      findings.push({ kind: 'host', action: seen.state, pullRequest: seen })
    }
  }
  return { findings, settled }
}

/** Hosts that tell only a part of the commit: git knows the whole of it, by the branch. */
const resolveHead = (refs: Sight['refs'], seen: SeenPullRequest): string | null =>
  seen.fromFork ? null : (refs.get(branchRef(seen.headBranch)) ?? null)

function actionFor(
  record: KnownPullRequest | undefined,
  seen: SeenPullRequest,
): PullRequestAction | undefined {
  if (!record) return 'opened'
  if (record.state === 'merged' || record.state === 'closed') return 'reopened'
  if (seen.headSha !== null && seen.headSha !== record.headSha) return 'updated'
  const isSame =
    record.state === 'open' &&
    record.baseBranch === seen.baseBranch &&
    record.draft === seen.draft &&
    record.title === seen.title
  return isSame ? undefined : 'edited'
}
