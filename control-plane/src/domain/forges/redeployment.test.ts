// Every row of the table of redeployments, named after its rule, and the order in which they win.
import { describe, expect, test } from 'vitest'
import { A, B, serving, tell } from './facts.testing.ts'
import {
  decidePush,
  decideRedeployment,
  REDEPLOYMENT_ROWS,
  type RedeploymentFacts,
  type RedeploymentRow,
} from './redeployment.ts'

const failed = { status: 'failed', canceledByPerson: false, failureCode: 'build_failed' } as const

/** The facts that make each row hold, and what follows; facts of earlier rows stay as they are. */
const CASES: Record<RedeploymentRow, [facts: Partial<RedeploymentFacts>, decision: string]> = {
  environment_removing: [
    { removing: true },
    'ignored environment_removing: wait for nothing, record_head',
  ],
  pull_request_closed: [{ ended: 'merged' }, 'ignored pull_request_closed: nothing'],
  environment_protected: [
    { protected: true },
    'ignored environment_protected: wait for nothing, record_head',
  ],
  auto_deploy_off: [
    { autoDeploy: false },
    'ignored auto_deploy_off: wait for nothing, record_head',
  ],
  approval_required: [
    { fromFork: true },
    'waiting approval_required: wait for approval, record_head',
  ],
  already_deployed: [{ targetSha: B }, 'ignored already_deployed: wait for nothing, record_head'],
  already_attempted: [
    { targetSha: B, newest: failed },
    'ignored already_attempted: wait for nothing, record_head',
  ],
  pinned: [
    { leftBehind: true, origin: 'reconcile' },
    'ignored pinned: wait for nothing, record_head',
  ],
  skip_marker: [
    { skipMarkerOn: true, message: 'Typo\n\n[skip deploy]' },
    'ignored skip_marker: wait for nothing, record_head, mark_skipped',
  ],
  paths_unchanged: [
    { watchesPaths: true, watchedChanged: false },
    'ignored paths_unchanged: wait for nothing, record_head, mark_skipped',
  ],
  server_not_ready: [
    { serverJoined: false },
    'waiting server_not_ready: wait for server_not_ready, record_head, deploy_on_join',
  ],
  superseded_queued: [
    { queuedTaskId: 7 },
    'queued superseded_queued: wait for nothing, record_head, supersede, deploy',
  ],
  queued_behind_running: [
    { runningTaskId: 6 },
    'queued queued_behind_running: wait for nothing, record_head, deploy',
  ],
  redeployed_offline: [
    { serverOnline: false },
    'queued redeployed: wait for nothing, record_head, deploy',
  ],
  redeployed: [{}, 'queued redeployed: wait for nothing, record_head, deploy'],
}

describe('each row', () => {
  test.each(REDEPLOYMENT_ROWS)('%s', (row) => {
    const [facts, decision] = CASES[row]
    const made = decideRedeployment({ ...serving, ...facts })
    expect([made.row, tell(made)]).toEqual([row, decision])
    expect([made.environmentId, made.identifier]).toEqual([5, 'pr-42'])
    expect(made.reason).toMatch(/^[A-Z`a-z0-9].*\.$/)
  })

  test('the first row whose condition holds wins', () => {
    // two rows whose conditions exclude each other
    const apart = (a: RedeploymentRow, b: RedeploymentRow) =>
      a === 'already_deployed' && b === 'already_attempted'
    for (const [i, first] of REDEPLOYMENT_ROWS.entries()) {
      for (const second of REDEPLOYMENT_ROWS.slice(i + 1)) {
        if (apart(first, second)) continue
        const both = { ...serving, ...CASES[second][0], ...CASES[first][0] }
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
  test.each([
    ['manual', true, false, 'applied branch_deleted: mark_branch missing'],
    ['pull_request', true, false, 'ignored branch_deleted: nothing'],
    ['manual', false, false, 'queued redeployed: wait for nothing, record_head, deploy'],
    [
      'manual',
      false,
      true,
      'queued redeployed: mark_branch found, wait for nothing, record_head, deploy',
    ],
  ] as const)('%s, deleted: %s, missing before: %s', (type, deleted, branchMissing, decision) => {
    const made = decidePush({ branch: 'main', deleted }, { type, branchMissing }, serving)
    expect(tell(made)).toBe(decision)
    expect([made.environmentId, made.identifier]).toEqual([5, 'pr-42'])
  })
})
