// Finds what deliveries missed, from the known state and the state of git and, with a token, of the forge. PURE:
// returns findings; app/forges/reconcile.ts turns them into the events of a delivery. It never guesses: a head ref
// outlives its pull request, so only a branch that stays missing means "closed", after a while. What was never deployed
// was not missed.
import type { PullRequestAction } from '@berth/shared'
import { RECONCILE } from '../../limits/forges.ts'
import { isLeftBehind } from '../deployments/pinning.ts'
import type { DescribedPullRequest } from './intent.ts'

/** An environment before the repository was read. */
export interface KnownEnvironment {
  id: number
  type: 'manual' | 'pull_request'
  branch: string
  targetSha: string | null
  /** A user chose a commit while the branch had one of these heads, so it stays there. */
  pinnedFrom: readonly string[] | null
  branchMissing: boolean
  fromFork: boolean
  /** It is being removed, or its pull request ended, so pushes do not concern it. */
  ended: boolean
  /** Its newest deployment never started because its server was offline, and the server is back. */
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
  /** Empty if it was never reported in full. */
  headSha: string
  headRef: string | null
  branchMissingSince: number | null
  presumedClosedAt: number | null
  /** Like that of an environment, for the pull request's own. */
  neverStarted: boolean
}

/** A pull request at the forge. */
export interface SeenPullRequest extends DescribedPullRequest {
  headSha: string | null
  updatedAt: number
}

export interface ForgeTruth {
  open: SeenPullRequest[]
  /** False if a missing entry proves nothing. */
  complete: boolean
  /** Known ones missing from the list, asked for one by one; undefined if the forge no longer knows them. */
  asked: ReadonlyMap<number, SeenPullRequest | undefined>
}

export interface Sight {
  now: number
  /** Full names of refs. */
  refs: ReadonlyMap<string, string>
  host: ForgeTruth | undefined
  environments: readonly KnownEnvironment[]
  /** The open and presumed closed ones, and all that the forge shows as open. */
  pullRequests: readonly KnownPullRequest[]
}

export type Finding =
  | { kind: 'push'; branch: string; sha: string }
  | { kind: 'branch_deleted'; branch: string }
  | { kind: 'head'; number: number; sha: string }
  /** Its newest deployment never started because its server was offline, and the server is back. */
  | { kind: 'again'; number: number }
  | { kind: 'host'; action: PullRequestAction; pullRequest: SeenPullRequest }
  /** The forge no longer knows it, or its branch stayed missing: closed, with the data on record. */
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
    // those of the same repository are found by their branch
    if (!neverStarted || !fromFork || state !== 'open' || isReported(number)) continue
    findings.push({ kind: 'again', number })
  }
  // a repository without branches is new or being restored, so missing branches prove nothing
  if (!hasBranches) return findings
  findings.push(...findBranches(sight))
  for (const known of sight.pullRequests) {
    if (known.state !== 'open' && known.state !== 'presumed_closed') continue
    if (!settled.has(known.number)) findings.push(...findHead(sight, known))
  }
  return findings
}

/**
 * Branches of environments, each once. Includes those of pull requests: a late, older push may have moved the
 * environment while the record is right. A fork's branch may have the same name as one of ours.
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

/** What git alone shows about an open pull request. */
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

/** The forge's list is authoritative: a difference from the record becomes the missed event. */
function findFromHost(
  { refs, pullRequests }: Sight,
  host: ForgeTruth,
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

/** For forges that send shortened commits: git has the full one, by the branch. */
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
