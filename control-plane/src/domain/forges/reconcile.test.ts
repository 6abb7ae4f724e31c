// Each row of the table of reconcile, and what reconcile must not conclude.

import { describe, expect, test } from 'vitest'
import { RECONCILE } from '../../limits/forges.ts'
import {
  findMissed,
  type KnownEnvironment,
  type KnownPullRequest,
  type SeenPullRequest,
  type Sight,
} from './reconcile.ts'

const A = 'a'.repeat(40)
const B = 'b'.repeat(40)
const NOW = 1_000_000_000_000

const environment = (over: Partial<KnownEnvironment> = {}): KnownEnvironment => ({
  id: 1,
  type: 'manual',
  branch: 'main',
  targetSha: A,
  pinnedFrom: null,
  branchMissing: false,
  fromFork: false,
  ended: false,
  neverStarted: false,
  ...over,
})
const known = (over: Partial<KnownPullRequest> = {}): KnownPullRequest => ({
  number: 7,
  title: 'Seven',
  state: 'open',
  draft: false,
  headBranch: 'seven',
  baseBranch: 'main',
  fromFork: false,
  headSha: A,
  headRef: 'refs/pull/7/head',
  branchMissingSince: null,
  presumedClosedAt: null,
  neverStarted: false,
  ...over,
})
const seen = (over: Partial<SeenPullRequest> = {}): SeenPullRequest => ({
  number: 7,
  title: 'Seven',
  url: 'https://git.example.com/acme/shop/pull/7',
  author: 'ada',
  state: 'open',
  draft: false,
  headBranch: 'seven',
  headSha: A,
  headRef: 'refs/pull/7/head',
  baseBranch: 'main',
  fromFork: false,
  updatedAt: NOW,
  ...over,
})
const look = (over: Partial<Sight> & { at?: Record<string, string> } = {}) => {
  const { at = { 'refs/heads/main': A, 'refs/heads/seven': A }, ...rest } = over
  const refs = new Map(Object.entries(at))
  return findMissed({
    now: NOW,
    refs,
    host: undefined,
    environments: [],
    pullRequests: [],
    ...rest,
  })
}
const truth = (open: SeenPullRequest[], over: object = {}) => ({
  open,
  complete: true,
  asked: new Map<number, SeenPullRequest | undefined>(),
  ...over,
})

describe('branches of manual environments', () => {
  test('the same commit says nothing', () => {
    expect(look({ environments: [environment()] })).toEqual([])
  })
  test('another commit is a push, told once for all environments of the branch', () => {
    const environments = [environment({ targetSha: B }), environment({ id: 2, targetSha: B })]
    expect(look({ environments })).toEqual([{ kind: 'push', branch: 'main', sha: A }])
  })
  test('a commit chosen by hand stays while the branch stands where it stood, and for that one alone', () => {
    const chosen = environment({ targetSha: B, pinnedFrom: [A] })
    expect(look({ environments: [chosen] })).toEqual([])
    expect(look({ environments: [{ ...chosen, neverStarted: true }] })).toEqual([])
    const push = { kind: 'push', branch: 'main', sha: A }
    expect(look({ environments: [{ ...chosen, pinnedFrom: ['c'] }] })).toEqual([push])
    const other = environment({ id: 2, targetSha: B })
    expect(look({ environments: [chosen, other] })).toEqual([push])
  })
  test('a branch that is gone is told once, and told when it is back', () => {
    const away = environment({ branch: 'away' })
    expect(look({ environments: [away] })).toEqual([{ kind: 'branch_deleted', branch: 'away' }])
    const marked = { ...away, branchMissing: true }
    expect(look({ environments: [marked] })).toEqual([])
    const at = { 'refs/heads/main': A, 'refs/heads/away': A }
    expect(look({ environments: [marked], at })).toEqual([{ kind: 'push', branch: 'away', sha: A }])
  })
  test('what never was deployed was not missed', () => {
    expect(look({ environments: [environment({ targetSha: null })] })).toEqual([])
  })
  test('what never started because the server was away is told again', () => {
    expect(look({ environments: [environment({ neverStarted: true })] })).toHaveLength(1)
  })
  test('one that is being removed and those of forks are left alone', () => {
    const environments = [
      environment({ targetSha: B, ended: true }),
      environment({ type: 'pull_request', targetSha: B, fromFork: true }),
    ]
    expect(look({ environments })).toEqual([])
  })
  test('the environment of a pull request that a late push led astray is led back', () => {
    const pr = environment({ type: 'pull_request', branch: 'seven', targetSha: B })
    expect(look({ environments: [pr] })).toEqual([{ kind: 'push', branch: 'seven', sha: A }])
    const gone = environment({ type: 'pull_request', branch: 'away', targetSha: B })
    expect(look({ environments: [gone] })).toEqual([])
  })
})

describe('pull requests by git alone', () => {
  const one = (over: Partial<KnownPullRequest>, at?: Record<string, string>) =>
    look({ pullRequests: [known(over)], ...(at ? { at } : {}) })

  test('a head that moved, by its ref or by its branch', () => {
    const moved = [{ kind: 'head', number: 7, sha: B }]
    expect(one({}, { 'refs/heads/seven': A, 'refs/pull/7/head': B })).toEqual(moved)
    expect(one({ headRef: null }, { 'refs/heads/seven': B })).toEqual(moved)
    expect(one({}, { 'refs/heads/seven': A })).toEqual([])
  })
  test('a fork is known by its ref alone: a branch of the same name is not its head', () => {
    expect(one({ fromFork: true }, { 'refs/heads/seven': B })).toEqual([])
    expect(one({ fromFork: true }, { 'refs/heads/seven': A, 'refs/pull/7/head': B })).toEqual([
      { kind: 'head', number: 7, sha: B },
    ])
  })
  test('a branch that stays away: noted, presumed after ten minutes, closed after a day more', () => {
    const at = { 'refs/heads/main': A, 'refs/pull/7/head': A }
    expect(one({}, at)).toEqual([{ kind: 'branch_gone', number: 7 }])
    expect(one({ branchMissingSince: NOW - RECONCILE.goneMs + 1 }, at)).toEqual([])
    expect(one({ branchMissingSince: NOW - RECONCILE.goneMs }, at)).toEqual([
      { kind: 'presumed_closed', number: 7 },
    ])
    const presumed = { state: 'presumed_closed', branchMissingSince: 1 } as const
    const presumedAt = NOW - RECONCILE.presumedMs
    expect(one({ ...presumed, presumedClosedAt: presumedAt + 1 }, at)).toEqual([])
    expect(one({ ...presumed, presumedClosedAt: presumedAt }, at)).toEqual([
      { kind: 'closed', number: 7, reason: 'branch_gone' },
    ])
  })
  test('a branch that returns takes it all back', () => {
    expect(one({ branchMissingSince: 1 })).toEqual([
      { kind: 'branch_back', number: 7, reopens: false },
    ])
    const presumed = {
      state: 'presumed_closed',
      branchMissingSince: 1,
      presumedClosedAt: 2,
    } as const
    expect(one(presumed, { 'refs/heads/seven': B })).toEqual([
      { kind: 'branch_back', number: 7, reopens: true },
      { kind: 'head', number: 7, sha: B },
    ])
  })
  test('a repository without branches says nothing, and closed ones are not looked at', () => {
    expect(one({}, {})).toEqual([])
    expect(look({ environments: [environment({ branch: 'away' })], at: {} })).toEqual([])
    expect(one({ state: 'merged' }, { 'refs/heads/main': A })).toEqual([])
  })
  test('a fork’s deployment that never started because the server was away is told again', () => {
    const fork = { fromFork: true, neverStarted: true }
    expect(one(fork)).toEqual([{ kind: 'again', number: 7 }])
    expect(one({ ...fork, fromFork: false })).toEqual([])
    expect(one({ ...fork, state: 'presumed_closed' })).not.toContainEqual({
      kind: 'again',
      number: 7,
    })
  })
  test('a fork’s missing branch is not presumed to be anything', () => {
    expect(one({ fromFork: true, headRef: null }, { 'refs/heads/main': A })).toEqual([])
  })
})

describe('pull requests by the host', () => {
  const reported = (records: KnownPullRequest[], open: SeenPullRequest[], over: object = {}) =>
    look({ pullRequests: records, host: truth(open, over) }).map((f) =>
      f.kind === 'host' ? `${f.action} ${f.pullRequest.number}` : `${f.kind}`,
    )

  test('what differs becomes the event that was missed', () => {
    expect(reported([], [seen()])).toEqual(['opened 7'])
    expect(reported([known()], [seen()])).toEqual([])
    expect(reported([known({ state: 'closed' })], [seen()])).toEqual(['reopened 7'])
    expect(reported([known({ state: 'merged' })], [seen()])).toEqual(['reopened 7'])
    expect(reported([known()], [seen({ headSha: B })])).toEqual(['updated 7'])
    expect(reported([known()], [seen({ baseBranch: 'next' })])).toEqual(['edited 7'])
    expect(reported([known()], [seen({ draft: true })])).toEqual(['edited 7'])
    expect(reported([known()], [seen({ title: 'New' })])).toEqual(['edited 7'])
  })
  test('one that left the list is merged, closed or unknown by now', () => {
    const asked = (value: SeenPullRequest | undefined) => ({ asked: new Map([[7, value]]) })
    expect(reported([known()], [], asked(seen({ state: 'merged' })))).toEqual(['merged 7'])
    expect(reported([known()], [], asked(seen({ state: 'closed' })))).toEqual(['closed 7'])
    expect(reported([known()], [], asked(undefined))).toEqual(['closed'])
    expect(reported([known()], [], asked(seen()))).toEqual([]) // opened since the list was read
    expect(reported([known()], [])).toEqual([]) // not asked about, so nothing follows
  })
  test('nothing follows from a list that is not complete', () => {
    const over = { complete: false, asked: new Map([[7, seen({ state: 'closed' })]]) }
    expect(reported([known()], [], over)).toEqual([])
  })
  test('the host’s word stands above a branch that is gone', () => {
    const at = { 'refs/heads/main': A }
    const pullRequests = [known({ branchMissingSince: 1 })]
    expect(look({ pullRequests, host: truth([seen()]), at })).toEqual([
      { kind: 'branch_back', number: 7, reopens: false },
    ])
  })
  test('a commit told in part is resolved by git, and never for a fork', () => {
    const at = { 'refs/heads/seven': B }
    const [finding] = look({ host: truth([seen({ headSha: null, headRef: null })]), at })
    expect(finding).toMatchObject({ action: 'opened', pullRequest: { headSha: B } })
    const fork = seen({ headSha: null, headRef: null, fromFork: true })
    expect(look({ host: truth([fork]), at })[0]).toMatchObject({ pullRequest: { headSha: null } })
  })
})
