// Decides whether an open pull request gets an environment now: the first of an ordered list of conditions that holds
// decides; the compiler demands one for every name. PURE. A fork's unapproved commit gets none and uses no place.
import type { Provider, PullRequestState, Recipe } from '@berth/shared'
import { type Decision, decide, RECORD, shortSha } from './intent.ts'
import { isOver, type PullRequestEnvironment } from './pull-request.ts'

export interface AdmissionFacts {
  number: number
  state: PullRequestState
  identifier: string
  previewsOn: boolean
  baseBranch: string
  baseAllowed: boolean
  draft: boolean
  deployDrafts: boolean
  fromFork: boolean
  forkPolicy: 'approve' | 'never'
  provider: Provider
  defaultRecipe: Recipe
  headSha: string | null
  headApproved: boolean
  environment: PullRequestEnvironment | undefined
  serverName: string
  serverJoined: boolean
  limit: number
  used: number
  /** Place in line if it joins now, from 1. */
  position: number
  redeploy(): Decision
}

export const ADMISSION_ROWS = [
  'pull_request_closed',
  'previews_disabled',
  'base_filtered',
  'draft_skipped',
  'fork_never',
  'fork_unsupported',
  'approval_required',
  'environment_removing',
  'environment_exists',
  'server_not_ready',
  'environment_limit_reached',
  'environment_created',
] as const
export type AdmissionRow = (typeof ADMISSION_ROWS)[number]

interface Row {
  when(f: AdmissionFacts): boolean
  gives(f: AdmissionFacts): Decision
}

const ADMISSION: Record<AdmissionRow, Row> = {
  pull_request_closed: {
    when: isOver,
    gives: (f) =>
      decide(
        'ignored',
        'pull_request_closed',
        `Pull request ${f.number} is ${f.state}; it gets no environment.`,
      ),
  },
  previews_disabled: {
    when: (f) => !f.previewsOn,
    gives: () =>
      decide('ignored', 'previews_disabled', 'Pull-request environments are switched off.', RECORD),
  },
  base_filtered: {
    when: (f) => !f.baseAllowed,
    gives: (f) =>
      decide(
        'ignored',
        'base_filtered',
        `Pull requests into ${f.baseBranch} get no environment in this project.`,
        RECORD,
      ),
  },
  draft_skipped: {
    when: (f) => f.draft && !f.deployDrafts,
    gives: (f) =>
      decide('ignored', 'draft_skipped', `Pull request ${f.number} is a draft.`, RECORD),
  },
  fork_never: {
    when: (f) => f.fromFork && f.forkPolicy === 'never',
    gives: (f) =>
      decide(
        'ignored',
        'fork_never',
        `Pull request ${f.number} comes from a fork; this project deploys none.`,
        RECORD,
      ),
  },
  fork_unsupported: {
    when: (f) => f.fromFork && (f.provider === 'bitbucket_cloud' || f.defaultRecipe === 'manual'),
    gives: (f) =>
      decide(
        'ignored',
        'fork_unsupported',
        f.defaultRecipe === 'manual'
          ? 'Commits of forks never run with the manual recipe.'
          : 'Bitbucket Cloud keeps commits of forks outside this repository.',
        RECORD,
      ),
  },
  approval_required: {
    when: (f) => f.fromFork && !f.headApproved,
    gives: (f) =>
      decide(
        'waiting',
        'approval_required',
        `Commit ${shortSha(f.headSha)} of pull request ${f.number} comes from a fork and waits for approval by a member.`,
        RECORD,
        { kind: 'ask_approval' },
      ),
  },
  environment_removing: {
    when: (f) => f.environment?.removing === true,
    gives: (f) =>
      decide(
        'waiting',
        'environment_removing',
        `${f.identifier} is being removed; pull request ${f.number} gets a new one when it is gone.`,
        RECORD,
        { kind: 'wait', for: 'environment_removing' },
      ),
  },
  environment_exists: {
    when: (f) => f.environment !== undefined,
    gives: (f) => f.redeploy(),
  },
  server_not_ready: {
    when: (f) => !f.serverJoined,
    gives: (f) =>
      decide(
        'waiting',
        'server_not_ready',
        `No agent ever joined from ${f.serverName}; ${f.identifier} is created when it does.`,
        RECORD,
        { kind: 'wait', for: 'server_not_ready' },
      ),
  },
  environment_limit_reached: {
    when: (f) => f.used >= f.limit,
    gives: (f) =>
      decide(
        'waiting',
        'environment_limit_reached',
        `${f.used} of ${f.limit} environments are in use; pull request ${f.number} has place ${f.position} in line.`,
        RECORD,
        { kind: 'join_line' },
      ),
  },
  environment_created: {
    when: () => true,
    gives: (f) =>
      decide(
        'queued',
        'environment_created',
        `${f.identifier} is created and deployed at ${shortSha(f.headSha)}.`,
        RECORD,
        { kind: 'create_environment' },
        { kind: 'deploy', sha: f.headSha },
      ),
  },
}

export function decideAdmission(facts: AdmissionFacts): Decision {
  for (const row of ADMISSION_ROWS) {
    if (ADMISSION[row].when(facts)) return ADMISSION[row].gives(facts)
  }
  throw new Error('unreachable: the last row always holds')
}
