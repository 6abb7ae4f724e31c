// The matrix of pull requests, cell by cell, and the conditions of an environment, row by row, named after their rules.
import {
  type DeliveryRule,
  PULL_REQUEST_ACTIONS,
  type PullRequestAction,
  type WaitingReason,
} from '@berth/shared'
import { describe, expect, test } from 'vitest'
import {
  ADMISSION_ROWS,
  type AdmissionFacts,
  type AdmissionRow,
  decideAdmission,
} from './admission.ts'
import { decide } from './intent.ts'
import {
  decidePullRequest,
  effectiveAction,
  PULL_REQUEST_MATRIX,
  type PullRequestEnvironment,
  type PullRequestFacts,
  type PullRequestRecord,
  SITUATIONS,
  type Situation,
  situationOf,
} from './pull-request.ts'

const A = 'a'.repeat(40)
const B = 'b'.repeat(40)
const open: PullRequestRecord = {
  state: 'open',
  draft: false,
  baseBranch: 'main',
  headSha: A,
  waitingFor: null,
  happenedAt: 1_000,
}
const there: PullRequestEnvironment = { removing: false, protected: false }
const waiting = (waitingFor: WaitingReason) => ({ record: { ...open, waitingFor } })

const STATES: Record<
  Situation,
  { record?: PullRequestRecord; environment?: PullRequestEnvironment }
> = {
  unknown: {},
  finished: { record: { ...open, state: 'merged' } },
  ending: { record: { ...open, state: 'closed' }, environment: { ...there, removing: true } },
  idle: { record: open },
  in_line: waiting('environment_limit'),
  awaiting_approval: waiting('approval'),
  awaiting_server: waiting('server_not_ready'),
  awaiting_removal: waiting('environment_removing'),
  deployed: { record: open, environment: there },
  protected: { record: open, environment: { ...there, protected: true } },
  removing: { record: open, environment: { ...there, removing: true } },
}

function facts(
  action: PullRequestAction,
  situation: Situation,
  over: Partial<PullRequestFacts['news']> = {},
): PullRequestFacts {
  const state = STATES[situation]
  const isNew = action === 'updated'
  return {
    news: {
      number: 42,
      action,
      draft: false,
      baseBranch: 'main',
      headSha: isNew ? B : A,
      happenedAt: 2_000,
      ...over,
    },
    record: state.record,
    environment: state.environment,
    identifier: 'pr-42',
    position: situation === 'in_line' ? 3 : null,
    admit: () => decide('queued', 'environment_created', 'Admitted.'),
    redeploy: () => decide('queued', 'redeployed', 'Redeployed.'),
  }
}

type Answers = Record<Situation, DeliveryRule>
const admits = (finished: DeliveryRule): Answers => ({
  unknown: 'environment_created',
  finished,
  ending: finished,
  idle: 'environment_created',
  in_line: 'environment_created',
  awaiting_approval: 'environment_created',
  awaiting_server: 'environment_created',
  awaiting_removal: 'environment_created',
  deployed: 'environment_created',
  protected: 'environment_created',
  removing: 'environment_created',
})
const ends = (rule: DeliveryRule): Answers => ({
  unknown: 'no_environment',
  finished: 'pull_request_closed',
  ending: 'environment_removing',
  idle: 'no_environment',
  in_line: 'left_line',
  awaiting_approval: 'left_line',
  awaiting_server: 'left_line',
  awaiting_removal: 'left_line',
  deployed: rule,
  protected: 'environment_protected',
  removing: 'environment_removing',
})
const EXPECTED: Record<PullRequestAction, Answers> = {
  opened: admits('pull_request_closed'),
  reopened: admits('environment_created'),
  updated: {
    ...admits('pull_request_closed'),
    in_line: 'environment_limit_reached',
    deployed: 'redeployed',
    protected: 'redeployed',
    removing: 'redeployed',
  },
  edited: {
    unknown: 'environment_created',
    finished: 'pull_request_closed',
    ending: 'pull_request_closed',
    idle: 'recorded',
    in_line: 'recorded',
    awaiting_approval: 'recorded',
    awaiting_server: 'recorded',
    awaiting_removal: 'recorded',
    deployed: 'recorded',
    protected: 'recorded',
    removing: 'recorded',
  },
  merged: ends('pull_request_merged'),
  closed: ends('pull_request_closed'),
}

const CELLS = PULL_REQUEST_ACTIONS.flatMap((action) =>
  SITUATIONS.map((situation) => [action, situation] as const),
)

test.each(CELLS)('%s × %s', (action, situation) => {
  const state = STATES[situation]
  expect(situationOf(state.record, state.environment)).toBe(situation)
  expect(PULL_REQUEST_MATRIX[action][situation]).toBeDefined()
  const made = decidePullRequest(facts(action, situation))
  expect(made.rule).toBe(EXPECTED[action][situation])
  expect(made.reason).toMatch(/\.$/)
})

describe('rows of their own', () => {
  test('stale_event: an older event changes nothing, whatever it says', () => {
    for (const action of PULL_REQUEST_ACTIONS) {
      const made = decidePullRequest(facts(action, 'deployed', { happenedAt: 999 }))
      expect([made.outcome, made.rule, made.intents]).toEqual(['ignored', 'stale_event', []])
    }
    const same = decidePullRequest(facts('merged', 'deployed', { happenedAt: 1_000 }))
    expect(same.rule).toBe('pull_request_merged')
    const untimed = decidePullRequest(facts('merged', 'deployed', { happenedAt: null }))
    expect(untimed.rule).toBe('pull_request_merged')
  })

  test('pull_request_closed: only reopening opens it, and nothing is recorded', () => {
    const made = decidePullRequest(facts('updated', 'finished'))
    expect([made.outcome, made.intents]).toEqual(['ignored', []])
  })

  test('pull_request_closed: a second end records its time, so that an older reopening is stale', () => {
    const record = { ...open, state: 'closed' as const }
    const closed = decidePullRequest({ ...facts('closed', 'finished'), record })
    expect([closed.outcome, closed.intents]).toEqual(['ignored', [{ kind: 'record' }]])
    // one that was merged stays merged
    expect(decidePullRequest(facts('closed', 'finished')).intents).toEqual([])
  })

  test('retargeted: the environment stays as it is', () => {
    const made = decidePullRequest(facts('edited', 'deployed', { baseBranch: 'release/1.x' }))
    expect([made.outcome, made.rule]).toEqual(['applied', 'retargeted'])
    expect(made.intents).toEqual([{ kind: 'record' }])
  })

  test('ready for review, or retargeted, without an environment: as opened', () => {
    const draft = facts('edited', 'idle')
    draft.record = { ...open, draft: true }
    expect(decidePullRequest(draft).rule).toBe('environment_created')
    const moved = decidePullRequest(facts('edited', 'idle', { baseBranch: 'release/1.x' }))
    expect(moved.rule).toBe('environment_created')
    const backToDraft = decidePullRequest(facts('edited', 'idle', { draft: true }))
    expect(backToDraft.rule).toBe('recorded')
  })

  test('pull_request_merged, pull_request_closed: the environment is removed', () => {
    for (const action of ['merged', 'closed'] as const) {
      const made = decidePullRequest(facts(action, 'deployed'))
      expect([made.outcome, made.rule]).toEqual(['queued', `pull_request_${action}`])
      expect(made.intents).toEqual([{ kind: 'record' }, { kind: 'remove' }])
    }
  })

  test('environment_protected: it is kept, and kept after its protection was lifted', () => {
    const made = decidePullRequest(facts('merged', 'protected'))
    expect([made.outcome, made.rule, made.intents]).toEqual([
      'applied',
      'environment_protected',
      [{ kind: 'record' }],
    ])
    const lifted = facts('merged', 'deployed')
    lifted.record = { ...open, state: 'merged' }
    expect(decidePullRequest(lifted).intents).toEqual([{ kind: 'record' }])
  })

  test('left_line', () => {
    for (const situation of ['in_line', 'awaiting_approval'] as const) {
      const made = decidePullRequest(facts('closed', situation))
      expect([made.outcome, made.rule]).toEqual(['applied', 'left_line'])
      expect(made.intents).toEqual([{ kind: 'record' }, { kind: 'leave_line' }])
    }
  })

  test('environment_limit_reached: an update keeps its place', () => {
    const made = decidePullRequest(facts('updated', 'in_line'))
    expect([made.outcome, made.intents]).toEqual(['waiting', [{ kind: 'record' }]])
    expect(made.reason).toContain('place 3')
  })

  test('a presumed closed one is open as soon as an event says so', () => {
    const record: PullRequestRecord = { ...open, state: 'presumed_closed' }
    expect(situationOf(record, there)).toBe('deployed')
  })

  test('the head decides between updated and edited, once there is a record', () => {
    const say = (action: PullRequestAction, headSha: string | null, record?: PullRequestRecord) =>
      effectiveAction({ action, headSha }, record)
    expect(say('updated', A, open)).toBe('edited')
    expect(say('edited', B, open)).toBe('updated')
    expect(say('updated', null, open)).toBe('edited')
    expect(say('updated', B)).toBe('updated')
    expect(say('edited', B)).toBe('edited')
    expect(say('merged', B, open)).toBe('merged')
  })
})

const admissible: AdmissionFacts = {
  number: 42,
  state: 'open',
  identifier: 'pr-42',
  previewsOn: true,
  baseBranch: 'main',
  baseAllowed: true,
  draft: false,
  deployDrafts: true,
  fromFork: false,
  forkPolicy: 'approve',
  provider: 'github',
  defaultRecipe: 'docker',
  headSha: B,
  headApproved: false,
  environment: undefined,
  serverName: 'fra-1',
  serverJoined: true,
  limit: 20,
  used: 3,
  position: 1,
  redeploy: () => decide('queued', 'redeployed', 'Redeployed.'),
}

const ADMISSIONS: Record<
  AdmissionRow,
  { facts: Partial<AdmissionFacts>; outcome: string; rule: string; intents: string[] }
> = {
  pull_request_closed: {
    facts: { state: 'closed' },
    outcome: 'ignored',
    rule: 'pull_request_closed',
    intents: [],
  },
  previews_disabled: {
    facts: { previewsOn: false },
    outcome: 'ignored',
    rule: 'previews_disabled',
    intents: ['record'],
  },
  base_filtered: {
    facts: { baseAllowed: false },
    outcome: 'ignored',
    rule: 'base_filtered',
    intents: ['record'],
  },
  draft_skipped: {
    facts: { draft: true, deployDrafts: false },
    outcome: 'ignored',
    rule: 'draft_skipped',
    intents: ['record'],
  },
  fork_never: {
    facts: { fromFork: true, forkPolicy: 'never' },
    outcome: 'ignored',
    rule: 'fork_never',
    intents: ['record'],
  },
  fork_unsupported: {
    facts: { fromFork: true, defaultRecipe: 'manual' },
    outcome: 'ignored',
    rule: 'fork_unsupported',
    intents: ['record'],
  },
  approval_required: {
    facts: { fromFork: true },
    outcome: 'waiting',
    rule: 'approval_required',
    intents: ['record', 'ask_approval'],
  },
  environment_removing: {
    facts: { environment: { removing: true, protected: false } },
    outcome: 'waiting',
    rule: 'environment_removing',
    intents: ['record', 'wait'],
  },
  environment_exists: {
    facts: { environment: there },
    outcome: 'queued',
    rule: 'redeployed',
    intents: [],
  },
  server_not_ready: {
    facts: { serverJoined: false },
    outcome: 'waiting',
    rule: 'server_not_ready',
    intents: ['record', 'wait'],
  },
  environment_limit_reached: {
    facts: { used: 20 },
    outcome: 'waiting',
    rule: 'environment_limit_reached',
    intents: ['record', 'join_line'],
  },
  environment_created: {
    facts: {},
    outcome: 'queued',
    rule: 'environment_created',
    intents: ['record', 'create_environment', 'deploy'],
  },
}

describe('an environment for an open pull request', () => {
  test.each(ADMISSION_ROWS)('%s', (row) => {
    const { facts: over, outcome, rule, intents } = ADMISSIONS[row]
    const made = decideAdmission({ ...admissible, ...over })
    expect([made.outcome, made.rule]).toEqual([outcome, rule])
    expect(made.intents.map((i) => i.kind)).toEqual(intents)
  })

  test('the first condition wins', () => {
    const apart = new Set([
      'environment_removing environment_exists',
      'fork_never fork_unsupported',
    ])
    for (const [i, first] of ADMISSION_ROWS.entries()) {
      for (const second of ADMISSION_ROWS.slice(i + 1)) {
        if (apart.has(`${first} ${second}`)) continue
        const both = { ...admissible, ...ADMISSIONS[second].facts, ...ADMISSIONS[first].facts }
        expect(decideAdmission(both).rule, `${first} before ${second}`).toBe(ADMISSIONS[first].rule)
      }
    }
  })

  test('fork_unsupported: Bitbucket Cloud has no ref of it', () => {
    const made = decideAdmission({ ...admissible, fromFork: true, provider: 'bitbucket_cloud' })
    expect(made.rule).toBe('fork_unsupported')
  })

  test('an approved head of a fork is like any other', () => {
    const made = decideAdmission({ ...admissible, fromFork: true, headApproved: true })
    expect(made.intents).toContainEqual({ kind: 'deploy', sha: B })
  })

  test('no decision without approval uses a place or makes an environment', () => {
    const made = decideAdmission({ ...admissible, fromFork: true, used: 0 })
    expect(made.intents.map((i) => i.kind)).not.toContain('create_environment')
    expect(made.intents.map((i) => i.kind)).not.toContain('join_line')
  })
})
