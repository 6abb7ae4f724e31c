// Every row of the table of redeployments, named after its rule, and the order in which they win.
import { describe, expect, test } from 'vitest'
import {
  decidePush,
  decideRedeployment,
  REDEPLOYMENT_ROWS,
  type RedeploymentFacts,
  type RedeploymentRow,
} from './redeployment.ts'

const A = 'a'.repeat(40)
const B = 'b'.repeat(40)
const serving: RedeploymentFacts = {
  identifier: 'pr-42',
  sha: B,
  removing: false,
  ended: null,
  protected: false,
  autoDeploy: true,
  fromFork: false,
  shaApproved: false,
  targetSha: A,
  commitSha: A,
  newest: { status: 'succeeded', canceledByPerson: false, failureCode: null },
  skipMarkerOn: false,
  message: null,
  skippedBefore: null,
  watchesPaths: false,
  watchedChanged: true,
  serverName: 'fra-1',
  serverJoined: true,
  serverOnline: true,
  leftBehind: false,
  queuedTaskId: null,
  runningTaskId: null,
  origin: 'event',
}
const failed = { status: 'failed', canceledByPerson: false, failureCode: 'build_failed' } as const

interface Case {
  facts: Partial<RedeploymentFacts>
  outcome: string
  rule: string
  intents: string[]
}

/** The facts that make each row hold; facts of earlier rows stay as they are. */
const CASES: Record<RedeploymentRow, Case> = {
  environment_removing: {
    facts: { removing: true },
    outcome: 'ignored',
    rule: 'environment_removing',
    intents: ['record'],
  },
  pull_request_closed: {
    facts: { ended: 'merged' },
    outcome: 'ignored',
    rule: 'pull_request_closed',
    intents: [],
  },
  environment_protected: {
    facts: { protected: true },
    outcome: 'ignored',
    rule: 'environment_protected',
    intents: ['record'],
  },
  auto_deploy_off: {
    facts: { autoDeploy: false },
    outcome: 'ignored',
    rule: 'auto_deploy_off',
    intents: ['record'],
  },
  approval_required: {
    facts: { fromFork: true },
    outcome: 'waiting',
    rule: 'approval_required',
    intents: ['record', 'ask_approval'],
  },
  already_deployed: {
    facts: { targetSha: B },
    outcome: 'ignored',
    rule: 'already_deployed',
    intents: ['record'],
  },
  already_attempted: {
    facts: { targetSha: B, newest: failed },
    outcome: 'ignored',
    rule: 'already_attempted',
    intents: ['record'],
  },
  pinned: {
    facts: { leftBehind: true, origin: 'reconcile' },
    outcome: 'ignored',
    rule: 'pinned',
    intents: ['record'],
  },
  skip_marker: {
    facts: { skipMarkerOn: true, message: 'Typo\n\n[skip deploy]' },
    outcome: 'ignored',
    rule: 'skip_marker',
    intents: ['record', 'mark_skipped'],
  },
  paths_unchanged: {
    facts: { watchesPaths: true, watchedChanged: false },
    outcome: 'ignored',
    rule: 'paths_unchanged',
    intents: ['record', 'mark_skipped'],
  },
  server_not_ready: {
    facts: { serverJoined: false },
    outcome: 'waiting',
    rule: 'server_not_ready',
    intents: ['record', 'wait'],
  },
  superseded_queued: {
    facts: { queuedTaskId: 7 },
    outcome: 'queued',
    rule: 'superseded_queued',
    intents: ['record', 'supersede', 'deploy'],
  },
  queued_behind_running: {
    facts: { runningTaskId: 6 },
    outcome: 'queued',
    rule: 'queued_behind_running',
    intents: ['record', 'deploy'],
  },
  redeployed_offline: {
    facts: { serverOnline: false },
    outcome: 'queued',
    rule: 'redeployed',
    intents: ['record', 'deploy'],
  },
  redeployed: { facts: {}, outcome: 'queued', rule: 'redeployed', intents: ['record', 'deploy'] },
}

describe('each row', () => {
  test.each(REDEPLOYMENT_ROWS)('%s', (row) => {
    const { facts, outcome, rule, intents } = CASES[row]
    const made = decideRedeployment({ ...serving, ...facts })
    expect([made.row, made.outcome, made.rule]).toEqual([row, outcome, rule])
    expect(made.intents.map((i) => i.kind)).toEqual(intents)
    expect(made.reason).toMatch(/^[A-Z`a-z0-9].*\.$/)
  })

  test('the first row whose condition holds wins', () => {
    // two rows whose conditions exclude each other
    const apart = (a: RedeploymentRow, b: RedeploymentRow) =>
      a === 'already_deployed' && b === 'already_attempted'
    for (const [i, first] of REDEPLOYMENT_ROWS.entries()) {
      for (const second of REDEPLOYMENT_ROWS.slice(i + 1)) {
        if (apart(first, second)) continue
        const both = { ...serving, ...CASES[second].facts, ...CASES[first].facts }
        expect(decideRedeployment(both).row, `${first} before ${second}`).toBe(first)
      }
    }
  })
})

test('A, B, A deploys A again: only the newest deployment is compared', () => {
  const made = decideRedeployment({ ...serving, sha: A, targetSha: B, commitSha: A })
  expect(made.rule).toBe('redeployed')
})

test('the same commit while queued, running or succeeded is nothing new', () => {
  for (const status of ['queued', 'running', 'succeeded'] as const) {
    const newest = { status, canceledByPerson: false, failureCode: null }
    const made = decideRedeployment({ ...serving, targetSha: B, newest, runningTaskId: 6 })
    expect(made.rule).toBe('already_deployed')
  }
})

test('a person who canceled decided; whoever was superseded did not', () => {
  const by = (canceledByPerson: boolean) =>
    decideRedeployment({
      ...serving,
      targetSha: B,
      newest: { status: 'canceled', canceledByPerson, failureCode: null },
    }).rule
  expect(by(true)).toBe('already_attempted')
  expect(by(false)).toBe('redeployed')
})

test('only reconcile repeats what never started, and no other failure', () => {
  const newest = {
    status: 'failed',
    canceledByPerson: false,
    failureCode: 'server_offline',
  } as const
  const made = (over: Partial<RedeploymentFacts>) =>
    decideRedeployment({ ...serving, targetSha: B, newest, ...over }).rule
  expect(made({ origin: 'event' })).toBe('already_attempted')
  expect(made({ origin: 'reconcile' })).toBe('redeployed')
  expect(made({ origin: 'reconcile', newest: failed })).toBe('already_attempted')
})

test('a commit chosen by hand outlasts a look, not a push', () => {
  const chosen = { ...serving, leftBehind: true }
  expect(decideRedeployment({ ...chosen, origin: 'reconcile' }).rule).toBe('pinned')
  expect(decideRedeployment(chosen).rule).toBe('redeployed')
})

test('a first deployment is never skipped', () => {
  const first = { ...serving, commitSha: null, targetSha: null, newest: undefined }
  const marked = { ...first, skipMarkerOn: true, message: '[skip deploy]' }
  expect(decideRedeployment(marked).rule).toBe('redeployed')
  const quiet = { ...first, watchesPaths: true, watchedChanged: false }
  expect(decideRedeployment(quiet).rule).toBe('redeployed')
})

test('both settings are off by default, and what a push skipped its pull request skips too', () => {
  const said = { ...serving, message: '[skip deploy]', watchedChanged: false }
  expect(decideRedeployment(said).rule).toBe('redeployed')
  const before = { ...serving, skipMarkerOn: true, skippedBefore: 'skip_marker' as const }
  expect(decideRedeployment(before).rule).toBe('skip_marker')
  const watched = { ...serving, watchesPaths: true, skippedBefore: 'paths_unchanged' as const }
  expect(decideRedeployment(watched).rule).toBe('paths_unchanged')
})

test('a fork is deployed at an approved commit', () => {
  const made = decideRedeployment({ ...serving, fromFork: true, shaApproved: true })
  expect(made.intents).toContainEqual({ kind: 'deploy', sha: B })
})

test('a head that nobody told in full is never compared', () => {
  const made = decideRedeployment({ ...serving, sha: null, targetSha: null })
  expect(made.intents).toContainEqual({ kind: 'deploy', sha: null })
})

describe('pushes', () => {
  const redeploy = () => decideRedeployment(serving)
  test('branch_deleted', () => {
    const change = { branch: 'main', deleted: true }
    const manual = decidePush(change, { type: 'manual', identifier: 'staging' }, redeploy)
    expect([manual.outcome, manual.rule]).toEqual(['applied', 'branch_deleted'])
    expect(manual.intents).toEqual([{ kind: 'mark_branch_missing' }])
    const preview = decidePush(change, { type: 'pull_request', identifier: 'pr-42' }, redeploy)
    expect([preview.outcome, preview.rule, preview.intents]).toEqual([
      'ignored',
      'branch_deleted',
      [],
    ])
  })
  test('a commit goes to the table of redeployments', () => {
    const change = { branch: 'main', deleted: false }
    expect(decidePush(change, { type: 'manual', identifier: 'main' }, redeploy).rule).toBe(
      'redeployed',
    )
  })
})
