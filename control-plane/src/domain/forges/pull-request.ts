// Decides what an event about a pull request means, as a matrix action × situation: the compiler demands every cell.
// PURE. Identity is (project, number); base, branch and title never select an environment for removal. An event, a
// freed place, an approval, a server that joined and reconcile all use one list of conditions (admission.ts).
import {
  type DeliveryRule,
  never,
  type PullRequestAction,
  type PullRequestState,
  type WaitingReason,
} from '@berth/shared'
import { type Decision, decide, RECORD } from './intent.ts'

/** The part of the record that decisions need. */
export interface PullRequestRecord {
  state: PullRequestState
  draft: boolean
  baseBranch: string
  /** Empty if it was never reported in full. */
  headSha: string
  waitingFor: WaitingReason | null
  happenedAt: number
}

export interface PullRequestNews {
  number: number
  action: PullRequestAction
  draft: boolean
  baseBranch: string
  headSha: string | null
  /** Null if the forge did not say. */
  happenedAt: number | null
}

/** Its environment, if it still exists. */
export interface PullRequestEnvironment {
  removing: boolean
  protected: boolean
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
  environment: PullRequestEnvironment | undefined,
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

/** Merged or closed: it is not deployed again unless it is reopened. */
export const isOver = (record: Pick<PullRequestRecord, 'state'> | undefined): boolean =>
  record?.state === 'merged' || record?.state === 'closed'

/** Forges say "updated" for edited titles and "edited" for new commits, so with a record the head decides. */
export function effectiveAction(
  news: Pick<PullRequestNews, 'action' | 'headSha'>,
  record: PullRequestRecord | undefined,
): PullRequestAction {
  if (!record || (news.action !== 'updated' && news.action !== 'edited')) return news.action
  return news.headSha !== null && news.headSha !== record.headSha ? 'updated' : 'edited'
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

export const PULL_REQUEST_MATRIX: Record<PullRequestAction, Record<Situation, Cell>> = {
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
  news: PullRequestNews
  record: PullRequestRecord | undefined
  environment: PullRequestEnvironment | undefined
  identifier: string
  /** Place in line, from 1; null if it is not in line. */
  position: number | null
  admit(): Decision
  redeploy(): Decision
}

export function decidePullRequest(f: PullRequestFacts): Decision {
  const { news, record } = f
  const isStale =
    record !== undefined && news.happenedAt !== null && news.happenedAt < record.happenedAt
  if (isStale) {
    const reason = `The event is older than what is known of pull request ${news.number}.`
    return decide('ignored', 'stale_event', reason)
  }
  const action = effectiveAction(news, record)
  const cell = PULL_REQUEST_MATRIX[action][situationOf(record, f.environment)]
  switch (cell) {
    case 'admit':
      return f.admit()
    case 'redeploy':
      return f.redeploy()
    case 'edit_or_admit':
      return isReadier(news, record) ? f.admit() : edited(f)
    case 'edit':
      return edited(f)
    case 'stays_closed':
      return decide(
        'ignored',
        'pull_request_closed',
        `Pull request ${news.number} is ${record?.state ?? 'closed'}; only reopening it opens it.`,
      )
    case 'ended_already':
      // the newer time is recorded, so that an older reopening that arrives later is stale
      return decide(
        'ignored',
        'pull_request_closed',
        `Pull request ${news.number} is ${record?.state ?? 'closed'} already.`,
        ...(record?.state === 'merged' && action === 'closed' ? [] : [RECORD]),
      )
    case 'keep_place': {
      const place = f.position === null ? '' : ` (place ${f.position})`
      const reason = `Pull request ${news.number} keeps its place in line${place}.`
      return decide('waiting', 'environment_limit_reached', reason, RECORD)
    }
    case 'leave_line':
    case 'remove':
    case 'keep_protected':
    case 'removing_already':
    case 'nothing_to_remove':
      return ended(cell, f)
    default:
      return never(cell)
  }
}

/** Ready for review, or with another base: the reason that filtered it out may have ended. */
const isReadier = (news: PullRequestNews, record: PullRequestRecord | undefined): boolean =>
  record !== undefined && ((record.draft && !news.draft) || record.baseBranch !== news.baseBranch)

function edited({ news, record, environment, identifier }: PullRequestFacts): Decision {
  const isMoved = record !== undefined && record.baseBranch !== news.baseBranch
  return isMoved && environment
    ? decide(
        'applied',
        'retargeted',
        `Pull request ${news.number} goes into ${news.baseBranch} now; ${identifier} has the same commit, so nothing is deployed.`,
        RECORD,
      )
    : decide('applied', 'recorded', `Pull request ${news.number} was noted.`, RECORD)
}

function ended(
  cell: 'leave_line' | 'remove' | 'keep_protected' | 'removing_already' | 'nothing_to_remove',
  { news, identifier }: PullRequestFacts,
): Decision {
  const word = news.action === 'merged' ? 'merged' : 'closed'
  const said = `Pull request ${news.number} was ${word}`
  switch (cell) {
    case 'leave_line':
      return decide('applied', 'left_line', `${said} before it got an environment.`, RECORD, {
        kind: 'leave_line',
      })
    case 'remove': {
      const rule: DeliveryRule = word === 'merged' ? 'pull_request_merged' : 'pull_request_closed'
      return decide('queued', rule, `${said}; ${identifier} is removed.`, RECORD, {
        kind: 'remove',
      })
    }
    case 'keep_protected':
      return decide(
        'applied',
        'environment_protected',
        `${said}; ${identifier} is protected and stays until its owner deletes it.`,
        RECORD,
      )
    case 'removing_already':
      return decide(
        'ignored',
        'environment_removing',
        `${said}; ${identifier} is being removed.`,
        RECORD,
      )
    case 'nothing_to_remove':
      return decide('ignored', 'no_environment', `${said}; it has no environment.`, RECORD)
  }
}
