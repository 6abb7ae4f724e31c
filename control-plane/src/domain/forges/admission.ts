// Decides whether an open pull request gets an environment now: the first of an ordered list of conditions that holds
// decides; the compiler demands one for every name. PURE. A fork's unapproved commit gets none and uses no place.
import type { Provider, PullRequestState, Recipe } from '@berth/shared'
import { type Decision, decide, type EventDecision, shortSha, wait } from './intent.ts'
import { decideRedeployment, type RedeploymentFacts } from './redeployment.ts'

/** The environment of a pull request, or the place for one. */
export type Home =
  | { kind: 'environment'; environment: RedeploymentFacts }
  | {
      kind: 'place'
      serverName: string
      /** Null until an agent joined from it. */
      serverId: number | null
      limit: number
      used: number
      /** How many are in line, and its own place there, from 1; null if it is not in line. */
      inLine: number
      position: number | null
    }

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
  home: Home
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

/** Merged or closed: it is not deployed again unless it is reopened. */
export const isOver = (record: { state: PullRequestState } | undefined): boolean =>
  record?.state === 'merged' || record?.state === 'closed'

const ROWS: Record<AdmissionRow, (f: AdmissionFacts) => Decision | undefined> = {
  pull_request_closed: (f) =>
    isOver(f)
      ? decide(
          'ignored',
          'pull_request_closed',
          `Pull request ${f.number} is ${f.state}; it gets no environment.`,
          wait(null),
        )
      : undefined,
  previews_disabled: (f) =>
    f.previewsOn
      ? undefined
      : decide(
          'ignored',
          'previews_disabled',
          'Pull-request environments are switched off.',
          wait(null),
        ),
  base_filtered: (f) =>
    f.baseAllowed
      ? undefined
      : decide(
          'ignored',
          'base_filtered',
          `Pull requests into ${f.baseBranch} get no environment in this project.`,
          wait(null),
        ),
  draft_skipped: (f) =>
    f.draft && !f.deployDrafts
      ? decide('ignored', 'draft_skipped', `Pull request ${f.number} is a draft.`, wait(null))
      : undefined,
  fork_never: (f) =>
    f.fromFork && f.forkPolicy === 'never'
      ? decide(
          'ignored',
          'fork_never',
          `Pull request ${f.number} comes from a fork; this project deploys none.`,
          wait(null),
        )
      : undefined,
  fork_unsupported: (f) =>
    f.fromFork && (f.provider === 'bitbucket_cloud' || f.defaultRecipe === 'manual')
      ? decide(
          'ignored',
          'fork_unsupported',
          f.defaultRecipe === 'manual'
            ? 'Commits of forks never run with the manual recipe.'
            : 'Bitbucket Cloud keeps commits of forks outside this repository.',
          wait(null),
        )
      : undefined,
  approval_required: (f) =>
    f.fromFork && !f.headApproved
      ? decide(
          'waiting',
          'approval_required',
          `Commit ${shortSha(f.headSha)} of pull request ${f.number} comes from a fork and waits for approval by a member.`,
          wait('approval'),
        )
      : undefined,
  environment_removing: ({ home, identifier, number }) =>
    home.kind === 'environment' && home.environment.removing
      ? decide(
          'waiting',
          'environment_removing',
          `${identifier} is being removed; pull request ${number} gets a new one when it is gone.`,
          wait('environment_removing'),
        )
      : undefined,
  environment_exists: ({ home }) =>
    home.kind === 'environment' ? decideRedeployment(home.environment) : undefined,
  server_not_ready: ({ home, identifier }) =>
    home.kind === 'place' && home.serverId === null
      ? decide(
          'waiting',
          'server_not_ready',
          `No agent ever joined from ${home.serverName}; ${identifier} is created when it does.`,
          wait('server_not_ready'),
        )
      : undefined,
  environment_limit_reached: ({ home, number }) =>
    home.kind === 'place' && home.used >= home.limit
      ? decide(
          'waiting',
          'environment_limit_reached',
          `${home.used} of ${home.limit} environments are in use; pull request ${number} has place ${home.position ?? home.inLine + 1} in line.`,
          wait('environment_limit'),
        )
      : undefined,
  environment_created: ({ home, identifier, headSha }) =>
    home.kind === 'place' && home.serverId !== null
      ? decide(
          'queued',
          'environment_created',
          `${identifier} is created and deployed at ${shortSha(headSha)}.`,
          wait(null),
          { kind: 'create_environment', serverId: home.serverId },
          { kind: 'deploy', sha: headSha },
        )
      : undefined,
}

export function decideAdmission(facts: AdmissionFacts): EventDecision {
  for (const row of ADMISSION_ROWS) {
    const decision = ROWS[row](facts)
    // only a redeployment names an environment; the others are about the pull request
    if (decision) return { environmentId: null, identifier: facts.identifier, ...decision }
  }
  throw new Error('unreachable: a place has a server or waits for one')
}
