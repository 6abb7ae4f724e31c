// Decides what an event about a pull request means, as a matrix action × situation: the compiler demands every cell.
// PURE. Identity is (project, number); base, branch and title never select an environment for removal. An event, a
// freed place, an approval, a server that joined and reconcile all use one list of conditions (admission.ts).
import {
  never,
  type PullRequestAction,
  type PullRequestState,
  type WaitingReason,
} from '@berth/shared'
import { WEBHOOKS } from '../../limits/forges.ts'
import { type AdmissionFacts, decideAdmission, isOver } from './admission.ts'
import {
  type Decision,
  decide,
  type EventDecision,
  type Intent,
  type ReportedPullRequest,
} from './intent.ts'
import type { PullRequestEvent } from './payloads/event.ts'
import { decideRedeployment, type RedeploymentFacts } from './redeployment.ts'

/** The part of the record that decisions need. */
export interface PullRequestRecord {
  state: PullRequestState
  author: string
  draft: boolean
  baseBranch: string
  /** Empty if it was never reported in full. */
  headSha: string
  waitingFor: WaitingReason | null
  happenedAt: number
}

/** The forge's time, bounded: a time in the future would make every later event stale. */
export function happenedAt(event: PullRequestEvent, now: number): number | null {
  if (event.happened_at === null) return null
  return Math.min(Date.parse(event.happened_at), now + WEBHOOKS.aheadMs)
}

/** The pull request as the event leaves it; the record fills in what the forge did not say. */
export function reportPullRequest(
  event: PullRequestEvent,
  record: PullRequestRecord | undefined,
  now: number,
): ReportedPullRequest {
  const { action, pull_request: reported } = event
  return {
    number: reported.number,
    title: reported.title,
    url: reported.url,
    author: reported.author ?? record?.author ?? '',
    state: action === 'merged' || action === 'closed' ? action : 'open',
    draft: reported.draft,
    headBranch: reported.head_branch,
    baseBranch: reported.base_branch,
    fromFork: reported.from_fork,
    headSha: reported.head_sha ?? record?.headSha ?? '',
    headRef: reported.head_ref,
    happenedAt: Math.max(
      record?.happenedAt ?? 0,
      happenedAt(event, now) ?? record?.happenedAt ?? now,
    ),
  }
}

export const SITUATIONS = [
  'unknown',
  'finished',
  'ending',
  'idle',
  'in_line',
  'awaiting_approval',
  'awaiting_server',
  'awaiting_removal',
  'deployed',
  'protected',
  'removing',
] as const
export type Situation = (typeof SITUATIONS)[number]

/** An ended pull request takes priority over its environment, and the environment over the record's waiting reason. */
export function situationOf(
  record: PullRequestRecord | undefined,
  environment: Pick<RedeploymentFacts, 'removing' | 'protected'> | undefined,
): Situation {
  if (isOver(record)) return environment?.removing ? 'ending' : 'finished'
  if (environment?.removing) return 'removing'
  if (environment) return environment.protected ? 'protected' : 'deployed'
  if (!record) return 'unknown'
  switch (record.waitingFor) {
    case null:
      return 'idle'
    case 'environment_limit':
      return 'in_line'
    case 'approval':
      return 'awaiting_approval'
    case 'server_not_ready':
      return 'awaiting_server'
    case 'environment_removing':
      return 'awaiting_removal'
    default:
      return never(record.waitingFor)
  }
}

/** Forges say "updated" for edited titles and "edited" for new commits, so with a record the head decides. */
export function effectiveAction(
  action: PullRequestAction,
  headSha: string | null,
  record: PullRequestRecord | undefined,
): PullRequestAction {
  if (!record || (action !== 'updated' && action !== 'edited')) return action
  return headSha !== null && headSha !== record.headSha ? 'updated' : 'edited'
}

type Cell =
  | 'admit' // the conditions under which it gets an environment
  | 'redeploy' // the table of redeployment
  | 'stays_closed'
  | 'ended_already'
  | 'keep_place'
  | 'edit'
  | 'edit_or_admit'
  | 'leave_line'
  | 'remove'
  | 'keep_protected'
  | 'removing_already'
  | 'nothing_to_remove'

const ADMIT: Record<Situation, Cell> = {
  unknown: 'admit',
  finished: 'stays_closed',
  ending: 'stays_closed',
  idle: 'admit',
  in_line: 'admit',
  awaiting_approval: 'admit',
  awaiting_server: 'admit',
  awaiting_removal: 'admit',
  deployed: 'admit',
  protected: 'admit',
  removing: 'admit',
}

const END: Record<Situation, Cell> = {
  unknown: 'nothing_to_remove',
  // users delete a kept environment by hand, even after its protection was removed
  finished: 'ended_already',
  ending: 'removing_already',
  idle: 'nothing_to_remove',
  in_line: 'leave_line',
  awaiting_approval: 'leave_line',
  awaiting_server: 'leave_line',
  awaiting_removal: 'leave_line',
  deployed: 'remove',
  protected: 'keep_protected',
  removing: 'removing_already',
}

const PULL_REQUEST_MATRIX: Record<PullRequestAction, Record<Situation, Cell>> = {
  opened: ADMIT,
  reopened: { ...ADMIT, finished: 'admit', ending: 'admit' },
  updated: {
    ...ADMIT,
    in_line: 'keep_place',
    deployed: 'redeploy',
    protected: 'redeploy',
    removing: 'redeploy',
  },
  edited: {
    unknown: 'admit',
    finished: 'stays_closed',
    ending: 'stays_closed',
    idle: 'edit_or_admit',
    in_line: 'edit',
    awaiting_approval: 'edit',
    awaiting_server: 'edit',
    awaiting_removal: 'edit',
    deployed: 'edit',
    protected: 'edit',
    removing: 'edit',
  },
  merged: END,
  closed: END,
}

export interface PullRequestFacts {
  event: PullRequestEvent
  now: number
  /** Before the event. */
  record: PullRequestRecord | undefined
  /** Of the pull request as the event leaves it. */
  admission: AdmissionFacts
}

export function decidePullRequest(facts: PullRequestFacts): EventDecision {
  const { environmentId = null, identifier = null } = environmentOf(facts) ?? {}
  return { environmentId, identifier, ...decideCell(facts) }
}

const environmentOf = ({ admission: { home } }: PullRequestFacts): RedeploymentFacts | undefined =>
  home.kind === 'environment' ? home.environment : undefined

function decideCell(f: PullRequestFacts): Decision {
  const { event, record, admission } = f
  const { home, identifier } = admission
  const { number, head_sha: headSha } = event.pull_request
  const happened = happenedAt(event, f.now)
  if (record && happened !== null && happened < record.happenedAt) {
    const reason = `The event is older than what is known of pull request ${number}.`
    return decide('ignored', 'stale_event', reason)
  }
  const reported = reportPullRequest(event, record, f.now)
  const recorded: Intent = { kind: 'record', pull: reported }
  const environment = environmentOf(f)
  const action = effectiveAction(event.action, headSha, record)
  const isMoved = record !== undefined && record.baseBranch !== reported.baseBranch
  // ready for review, or with another base: the reason that filtered it out may have ended
  const isReadier = isMoved || (record?.draft === true && !reported.draft)
  const given = PULL_REQUEST_MATRIX[action][situationOf(record, environment)]
  const cell = given !== 'edit_or_admit' ? given : isReadier ? 'admit' : 'edit'
  const said = `Pull request ${number} was ${event.action === 'merged' ? 'merged' : 'closed'}`
  switch (cell) {
    case 'admit':
    case 'redeploy': {
      const isRedeployed = cell === 'redeploy' && environment
      const made = isRedeployed ? decideRedeployment(environment) : decideAdmission(admission)
      return { ...made, intents: [recorded, ...made.intents] }
    }
    case 'edit':
      return isMoved && environment
        ? decide(
            'applied',
            'retargeted',
            `Pull request ${number} goes into ${reported.baseBranch} now; ${identifier} has the same commit, so nothing is deployed.`,
            recorded,
          )
        : decide('applied', 'recorded', `Pull request ${number} was noted.`, recorded)
    case 'stays_closed':
      return decide(
        'ignored',
        'pull_request_closed',
        `Pull request ${number} is ${record?.state ?? 'closed'}; only reopening it opens it.`,
      )
    case 'ended_already':
      // the newer time is recorded, so that an older reopening that arrives later is stale
      return decide(
        'ignored',
        'pull_request_closed',
        `Pull request ${number} is ${record?.state ?? 'closed'} already.`,
        ...(record?.state === 'merged' && action === 'closed' ? [] : [recorded]),
      )
    case 'keep_place': {
      const position = home.kind === 'place' ? home.position : null
      const place = position === null ? '' : ` (place ${position})`
      const reason = `Pull request ${number} keeps its place in line${place}.`
      return decide('waiting', 'environment_limit_reached', reason, recorded)
    }
    case 'leave_line':
      return decide('applied', 'left_line', `${said} before it got an environment.`, recorded)
    case 'remove': {
      const rule = event.action === 'merged' ? 'pull_request_merged' : 'pull_request_closed'
      return decide('queued', rule, `${said}; ${identifier} is removed.`, recorded, {
        kind: 'remove',
      })
    }
    case 'keep_protected':
      return decide(
        'applied',
        'environment_protected',
        `${said}; ${identifier} is protected and stays until its owner deletes it.`,
        recorded,
      )
    case 'removing_already':
      return decide(
        'ignored',
        'environment_removing',
        `${said}; ${identifier} is being removed.`,
        recorded,
      )
    case 'nothing_to_remove':
      return decide('ignored', 'no_environment', `${said}; it has no environment.`, recorded)
    default:
      return never(cell)
  }
}
