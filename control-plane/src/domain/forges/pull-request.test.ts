// The matrix of pull requests, cell by cell, and the conditions of an environment, row by row: facts become intents.
import { PULL_REQUEST_ACTIONS, type PullRequestAction, type WaitingReason } from '@berth/shared'
import { describe, expect, test } from 'vitest'
import {
  ADMISSION_ROWS,
  type AdmissionFacts,
  type AdmissionRow,
  decideAdmission,
  type Home,
} from './admission.ts'
import { A, B, serving, tell } from './facts.testing.ts'
import type { EventPullRequest, PullRequestEvent } from './payloads/event.ts'
import {
  decidePullRequest,
  effectiveAction,
  happenedAt,
  type PullRequestFacts,
  type PullRequestRecord,
  reportPullRequest,
  SITUATIONS,
  type Situation,
  situationOf,
} from './pull-request.ts'
import type { RedeploymentFacts } from './redeployment.ts'

const NOW = 3_000
const open: PullRequestRecord = {
  state: 'open',
  author: 'ada',
  draft: false,
  baseBranch: 'main',
  headSha: A,
  waitingFor: null,
  happenedAt: 1_000,
}
const place = {
  kind: 'place',
  serverName: 'fra-1',
  serverId: 9,
  limit: 20,
  used: 3,
  inLine: 0,
  position: null,
} satisfies Home
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
  home: place,
}
const at = (over: Partial<RedeploymentFacts>): Home => ({
  kind: 'environment',
  environment: { ...serving, ...over },
})
const waiting = (waitingFor: WaitingReason) => ({ record: { ...open, waitingFor } })

const STATES: Record<
  Situation,
  { record?: PullRequestRecord; environment?: Partial<RedeploymentFacts> }
> = {
  unknown: {},
  finished: { record: { ...open, state: 'merged' } },
  ending: { record: { ...open, state: 'closed' }, environment: { removing: true } },
  idle: { record: open },
  in_line: waiting('environment_limit'),
  awaiting_approval: waiting('approval'),
  awaiting_server: waiting('server_not_ready'),
  awaiting_removal: waiting('environment_removing'),
  deployed: { record: open, environment: {} },
  protected: { record: open, environment: { protected: true } },
  removing: { record: open, environment: { removing: true } },
}

interface Over extends Partial<EventPullRequest> {
  happened_at?: number | null
  record?: PullRequestRecord
}

const eventOf = (action: PullRequestAction, over: Over = {}): PullRequestEvent => {
  const { happened_at: at = 2_000, record: _, ...reported } = over
  return {
    kind: 'pull_request',
    provider: 'github',
    delivery_id: 'd',
    happened_at: at === null ? null : new Date(at).toISOString(),
    actor: null,
    repository: { external_id: '1', full_name: 'acme/shop', web_url: null },
    action,
    pull_request: {
      number: 42,
      title: 'A title',
      url: 'https://forge.test/42',
      author: null,
      draft: false,
      head_branch: 'topic',
      head_sha: action === 'updated' ? B : A,
      before: null,
      head_ref: null,
      base_branch: 'main',
      from_fork: false,
      message: null,
      ...reported,
    },
  }
}

function facts(action: PullRequestAction, situation: Situation, over: Over = {}): PullRequestFacts {
  const event = eventOf(action, over)
  const { environment, record = undefined } = { ...STATES[situation], ...over }
  const sha = reportPullRequest(event, record, NOW).headSha
  const position = situation === 'in_line' ? 3 : null
  const home = environment ? at({ ...environment, sha }) : { ...place, position }
  return { event, now: NOW, record, admission: { ...admissible, headSha: sha, home } }
}

const CREATED = 'queued environment_created: record, wait for nothing, create_environment, deploy'
const CLOSED = 'ignored pull_request_closed: nothing'
const NOTED = 'applied recorded: record'
const LEFT = 'applied left_line: record'
const REMOVING = 'ignored environment_removing: record'
const NEXT = 'waiting environment_removing: record, wait for environment_removing'
const PROTECTED = 'ignored environment_protected: record, wait for nothing, record_head'
const opened: Record<Situation, string> = {
  unknown: CREATED,
  finished: CLOSED,
  ending: CLOSED,
  idle: CREATED,
  in_line: CREATED,
  awaiting_approval: CREATED,
  awaiting_server: CREATED,
  awaiting_removal: CREATED,
  deployed: 'ignored already_deployed: record, wait for nothing, record_head',
  protected: PROTECTED,
  removing: NEXT,
}
const merged: Record<Situation, string> = {
  unknown: 'ignored no_environment: record',
  finished: 'ignored pull_request_closed: record',
  ending: REMOVING,
  idle: 'ignored no_environment: record',
  in_line: LEFT,
  awaiting_approval: LEFT,
  awaiting_server: LEFT,
  awaiting_removal: LEFT,
  deployed: 'queued pull_request_merged: record, remove',
  protected: 'applied environment_protected: record',
  removing: REMOVING,
}
const EXPECTED: Record<PullRequestAction, Record<Situation, string>> = {
  opened,
  reopened: { ...opened, finished: CREATED, ending: NEXT },
  updated: {
    ...opened,
    in_line: 'waiting environment_limit_reached: record',
    deployed: 'queued redeployed: record, wait for nothing, record_head, deploy',
    removing: 'ignored environment_removing: record, wait for nothing, record_head',
  },
  edited: {
    unknown: CREATED,
    finished: CLOSED,
    ending: CLOSED,
    idle: NOTED,
    in_line: NOTED,
    awaiting_approval: NOTED,
    awaiting_server: NOTED,
    awaiting_removal: NOTED,
    deployed: NOTED,
    protected: NOTED,
    removing: NOTED,
  },
  merged,
  closed: {
    ...merged,
    // one that was merged stays merged
    finished: CLOSED,
    deployed: 'queued pull_request_closed: record, remove',
  },
}

const CELLS = PULL_REQUEST_ACTIONS.flatMap((action) =>
  SITUATIONS.map((situation) => [action, situation, EXPECTED[action][situation]] as const),
)

test.each(CELLS)('%s × %s: %s', (action, situation, decision) => {
  const given = facts(action, situation)
  const { home } = given.admission
  const environment = home.kind === 'environment' ? home.environment : undefined
  expect(situationOf(given.record, environment)).toBe(situation)
  const made = decidePullRequest(given)
  expect(tell(made)).toBe(decision)
  expect(made.reason).toMatch(/\.$/)
})

describe('the record after an event', () => {
  test('it is what the forge says, and what is known where it says nothing', () => {
    const event = eventOf('updated', { author: null, head_sha: null, draft: true, from_fork: true })
    expect(reportPullRequest(event, open, NOW)).toEqual({
      number: 42,
      title: 'A title',
      url: 'https://forge.test/42',
      author: 'ada',
      state: 'open',
      draft: true,
      headBranch: 'topic',
      baseBranch: 'main',
      fromFork: true,
      headSha: A,
      headRef: null,
      happenedAt: 2_000,
    })
  })

  test('its time never goes back; without a time it stays, or is that of the first event', () => {
    const timeOf = (happened_at: number | null, record: PullRequestRecord | undefined) =>
      reportPullRequest(eventOf('edited', { happened_at }), record, NOW).happenedAt
    expect([timeOf(500, open), timeOf(null, open), timeOf(null, undefined)]).toEqual([
      1_000, 1_000, 3_000,
    ])
    // a time in the future would make every later event stale
    expect(happenedAt(eventOf('edited', { happened_at: 9_999_999 }), NOW)).toBe(63_000)
  })
})

describe('the environment that a result names', () => {
  const named = (action: PullRequestAction, situation: Situation) => {
    const { environmentId, identifier } = decidePullRequest(facts(action, situation))
    return [environmentId, identifier]
  }
  test.each([
    ['closed', 'deployed', [5, 'pr-42']],
    ['closed', 'in_line', [null, null]],
    ['updated', 'deployed', [5, 'pr-42']],
    ['opened', 'unknown', [null, 'pr-42']],
    ['opened', 'removing', [null, 'pr-42']],
  ] as const)('%s × %s', (action, situation, expected) => {
    expect(named(action, situation)).toEqual(expected)
  })
})

describe('rows of their own', () => {
  test('stale_event: an older event changes nothing, whatever it says', () => {
    for (const action of PULL_REQUEST_ACTIONS) {
      const made = decidePullRequest(facts(action, 'deployed', { happened_at: 999 }))
      expect(tell(made)).toBe('ignored stale_event: nothing')
    }
    const same = decidePullRequest(facts('merged', 'deployed', { happened_at: 1_000 }))
    expect(same.rule).toBe('pull_request_merged')
    const untimed = decidePullRequest(facts('merged', 'deployed', { happened_at: null }))
    expect(untimed.rule).toBe('pull_request_merged')
  })

  test('pull_request_closed: a second end records its time, so that an older reopening is stale', () => {
    const record = { ...open, state: 'closed' as const }
    const closed = decidePullRequest(facts('closed', 'finished', { record }))
    expect(tell(closed)).toBe('ignored pull_request_closed: record')
  })

  test('retargeted: the environment stays as it is', () => {
    const made = decidePullRequest(facts('edited', 'deployed', { base_branch: 'release/1.x' }))
    expect(tell(made)).toBe('applied retargeted: record')
  })

  test('ready for review, or retargeted, without an environment: as opened', () => {
    const draft = decidePullRequest(facts('edited', 'idle', { record: { ...open, draft: true } }))
    expect(tell(draft)).toBe(CREATED)
    const moved = decidePullRequest(facts('edited', 'idle', { base_branch: 'release/1.x' }))
    expect(tell(moved)).toBe(CREATED)
    expect(tell(decidePullRequest(facts('edited', 'idle', { draft: true })))).toBe(NOTED)
  })

  test('environment_protected: it is kept, and kept after its protection was lifted', () => {
    const record = { ...open, state: 'merged' as const }
    const made = decidePullRequest(facts('merged', 'deployed', { record }))
    expect(tell(made)).toBe('ignored pull_request_closed: record')
  })

  test('environment_limit_reached: an update keeps its place', () => {
    expect(decidePullRequest(facts('updated', 'in_line')).reason).toContain('place 3')
  })

  test('a presumed closed one is open as soon as an event says so', () => {
    const record: PullRequestRecord = { ...open, state: 'presumed_closed' }
    expect(situationOf(record, serving)).toBe('deployed')
  })

  test('the head decides between updated and edited, once there is a record', () => {
    const say = (action: PullRequestAction, headSha: string | null, record?: PullRequestRecord) =>
      effectiveAction(action, headSha, record)
    expect(say('updated', A, open)).toBe('edited')
    expect(say('edited', B, open)).toBe('updated')
    expect(say('updated', null, open)).toBe('edited')
    expect(say('updated', B)).toBe('updated')
    expect(say('edited', B)).toBe('edited')
    expect(say('merged', B, open)).toBe('merged')
  })
})

const ADMISSIONS: Record<AdmissionRow, [facts: Partial<AdmissionFacts>, decision: string]> = {
  pull_request_closed: [{ state: 'closed' }, 'ignored pull_request_closed: wait for nothing'],
  previews_disabled: [{ previewsOn: false }, 'ignored previews_disabled: wait for nothing'],
  base_filtered: [{ baseAllowed: false }, 'ignored base_filtered: wait for nothing'],
  draft_skipped: [{ draft: true, deployDrafts: false }, 'ignored draft_skipped: wait for nothing'],
  fork_never: [{ fromFork: true, forkPolicy: 'never' }, 'ignored fork_never: wait for nothing'],
  fork_unsupported: [
    { fromFork: true, defaultRecipe: 'manual' },
    'ignored fork_unsupported: wait for nothing',
  ],
  approval_required: [{ fromFork: true }, 'waiting approval_required: wait for approval'],
  environment_removing: [
    { home: at({ removing: true }) },
    'waiting environment_removing: wait for environment_removing',
  ],
  environment_exists: [
    { home: at({}) },
    'queued redeployed: wait for nothing, record_head, deploy',
  ],
  server_not_ready: [
    { home: { ...place, serverId: null, used: 20 } },
    'waiting server_not_ready: wait for server_not_ready',
  ],
  environment_limit_reached: [
    { home: { ...place, used: 20 } },
    'waiting environment_limit_reached: wait for environment_limit',
  ],
  environment_created: [
    {},
    'queued environment_created: wait for nothing, create_environment, deploy',
  ],
}

describe('an environment for an open pull request', () => {
  test.each(ADMISSION_ROWS)('%s', (row) => {
    const [over, decision] = ADMISSIONS[row]
    expect(tell(decideAdmission({ ...admissible, ...over }))).toBe(decision)
  })

  test('the first condition wins', () => {
    const apart = new Set(['fork_never fork_unsupported'])
    for (const [i, first] of ADMISSION_ROWS.entries()) {
      for (const second of ADMISSION_ROWS.slice(i + 1)) {
        if (apart.has(`${first} ${second}`)) continue
        const both = { ...admissible, ...ADMISSIONS[second][0], ...ADMISSIONS[first][0] }
        expect(tell(decideAdmission(both)), `${first} before ${second}`).toBe(ADMISSIONS[first][1])
      }
    }
  })

  test('fork_unsupported: Bitbucket Cloud has no ref of it', () => {
    const made = decideAdmission({ ...admissible, fromFork: true, provider: 'bitbucket_cloud' })
    expect(made.rule).toBe('fork_unsupported')
  })

  test('environment_limit_reached: it keeps its place, or joins as the last', () => {
    const full = { ...place, used: 20, inLine: 4 }
    const reason = (home: Home) => decideAdmission({ ...admissible, home }).reason
    expect(reason(full)).toContain('has place 5 in line')
    expect(reason({ ...full, position: 2 })).toContain('has place 2 in line')
  })

  test('an approved head of a fork is like any other', () => {
    const made = decideAdmission({ ...admissible, fromFork: true, headApproved: true })
    expect(made.intents).toContainEqual({ kind: 'create_environment', serverId: 9 })
    expect(made.intents).toContainEqual({ kind: 'deploy', sha: B })
  })
})
