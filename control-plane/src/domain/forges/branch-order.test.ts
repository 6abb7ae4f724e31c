// When an event is applied as it is, and what counts otherwise: late, duplicate and shuffled events, row by row.

import { describe, expect, test } from 'vitest'
import { WEBHOOKS } from '../../limits/forges.ts'
import {
  correctHead,
  correctPush,
  followsBranch,
  followsPullRequest,
  type KnownBranch,
  type KnownPullRequest,
  type PullRequestNews,
} from './branch-order.ts'

const A = 'a'.repeat(40)
const B = 'b'.repeat(40)
const C = 'c'.repeat(40)

describe('a push follows', () => {
  const at = (headSha: string | null, targetSha = headSha, branchMissing = false): KnownBranch => ({
    headSha,
    targetSha,
    branchMissing,
  })
  const push = (before: string | null, sha: string | null) => ({
    before,
    sha,
    deleted: sha === null,
  })
  const ROWS: [string, KnownBranch, ReturnType<typeof push>, boolean][] = [
    ['straight on', at(A), push(A, B), true],
    ['rewritten history, straight on', at(B), push(B, A), true],
    ['a deletion of what is known', at(A), push(A, null), true],
    ['the commit that was asked for last, once more', at(B), push(A, B), true],
    ['a branch that begins again after it was gone', at(A, A, true), push(null, B), true],
    ['late: the branch is known to be further', at(B), push(A, C), false],
    ['one in between was lost', at(A), push(B, C), false],
    ['a new branch where one is known', at(A), push(null, B), false],
    ['a late deletion', at(B), push(A, null), false],
    ['nothing is known', at(null), push(A, B), false],
    ['nothing is known of a new branch', at(null), push(null, B), false],
    ['a person deployed what no event told', at(A, C), push(A, B), false],
    ['what was told last was not deployed', at(B, A), push(A, C), false],
    ['an old one that is deployed, while a newer is known', at(C, B), push(A, B), false],
    ['a branch that was gone, from a commit in between', at(A, A, true), push(B, C), false],
  ]
  test.each(ROWS)('%s', (_, known, change, follows) => {
    expect(followsBranch(change, known)).toBe(follows)
  })
})

describe('an event of a pull request follows', () => {
  const NOW = 10_000_000
  const open: KnownPullRequest = { state: 'open', headSha: A, happenedAt: 1_000, targetSha: A }
  const news = (over: Partial<PullRequestNews> = {}): PullRequestNews => ({
    action: 'updated',
    headSha: B,
    before: A,
    happenedAt: 2_000,
    ...over,
  })
  const late = NOW - WEBHOOKS.lateMs - 1
  const ROWS: [string, KnownPullRequest | undefined, PullRequestNews, boolean][] = [
    ['straight on', open, news(), true],
    ['straight on, without an environment', { ...open, targetSha: null }, news(), true],
    ['the same head', open, news({ action: 'edited', headSha: A, before: null }), true],
    ['a host that tells no full commit', open, news({ headSha: null, before: null }), true],
    ['an older event, which nothing uses', open, news({ happenedAt: 500, before: C }), true],
    ['merged', open, news({ action: 'merged', headSha: C }), true],
    ['closed', undefined, news({ action: 'closed', happenedAt: late }), true],
    ['just opened', undefined, news({ action: 'opened', happenedAt: NOW - 1_000 }), true],
    ['over, and not reopened', { ...open, state: 'merged' }, news({ action: 'opened' }), true],
    ['opened long ago and unknown', undefined, news({ action: 'opened', happenedAt: late }), false],
    ['reopened', { ...open, state: 'closed' }, news({ action: 'reopened', headSha: A }), false],
    ['the same second, another order', open, news({ happenedAt: 1_000, before: C }), false],
    ['one in between was lost', open, news({ before: C }), false],
    ['a host that does not tell the former head', open, news({ before: null }), false],
    ['a person deployed what no event told', { ...open, targetSha: C }, news(), false],
    ['opened again with another head', open, news({ action: 'opened', before: null }), false],
  ]
  test.each(ROWS)('%s', (_, known, reported, follows) => {
    expect(followsPullRequest(reported, known, NOW)).toBe(follows)
  })
})

describe('after a look', () => {
  const change = { branch: 'x', sha: B, before: A, deleted: false, message: 'M', paths: ['p'] }
  const seen = (refs: Record<string, string>) => ({
    refs: new Map(Object.entries(refs)),
    state: null,
  })
  const unread = { refs: null, state: null }

  test('a push is what the branch has', () => {
    const reported = { before: null, message: null, paths: null }
    expect(correctPush(change, seen({ 'refs/heads/x': B }))).toBe(change)
    expect(correctPush(change, seen({ 'refs/heads/x': C }))).toEqual({
      ...change,
      ...reported,
      sha: C,
    })
    expect(correctPush(change, seen({ 'refs/heads/y': C }))).toEqual({
      ...change,
      ...reported,
      sha: null,
      deleted: true,
    })
    const deleted = { ...change, sha: null, deleted: true }
    expect(correctPush(deleted, seen({ 'refs/heads/x': C }))).toMatchObject({
      sha: C,
      deleted: false,
    })
  })

  test('without one a push means the branch, whatever it has', () => {
    expect(correctPush(change, unread)).toMatchObject({ sha: null, deleted: false, paths: null })
    const deleted = { ...change, sha: null, deleted: true }
    expect(correctPush(deleted, unread)).toBe(deleted)
  })

  const head = {
    head_branch: 'x',
    head_sha: B,
    head_ref: 'refs/pull/4/head',
    from_fork: false,
    message: 'M',
  }

  test('the head of a pull request is its branch, of a fork what the host keeps', () => {
    expect(correctHead(head, seen({ 'refs/heads/x': C, 'refs/pull/4/head': B }))).toMatchObject({
      head_sha: C,
      message: null,
    })
    expect(correctHead(head, seen({ 'refs/heads/x': B }))).toBe(head)
    const fork = { ...head, from_fork: true }
    expect(correctHead(fork, seen({ 'refs/heads/x': C, 'refs/pull/4/head': A }))).toMatchObject({
      head_sha: A,
    })
    // a commit of a fork is deployed only if git shows it there
    expect(correctHead(fork, seen({ 'refs/heads/x': C }))).toMatchObject({ head_sha: null })
  })

  test('a branch that is gone deploys nothing, whatever ref outlives it', () => {
    expect(correctHead(head, seen({ 'refs/pull/4/head': B, 'refs/heads/main': A }))).toBeUndefined()
    expect(correctHead(head, unread)).toMatchObject({ head_sha: null })
  })
})
