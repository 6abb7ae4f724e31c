// Decides whether an event redeploys an existing environment: the first row of an ordered list whose condition holds
// decides. PURE. Pushes, new commits of pull requests and reconcile use it. The compiler demands a row for every name.
import type { DeliveryOutcome, DeliveryRule, TaskStatus } from '@berth/shared'
import {
  type Decision,
  decide,
  type EventDecision,
  type Intent,
  type SkipRule,
  shortSha,
  wait,
} from './intent.ts'

export interface NewestDeployment {
  status: TaskStatus
  /** A user canceled it; superseded and removed ones do not count. */
  canceledByPerson: boolean
  failureCode: string | null
}

export interface RedeploymentFacts {
  environmentId: number
  identifier: string
  /** The commit that the event asks for; null if the forge did not send it in full. */
  sha: string | null
  removing: boolean
  /** The end of its pull request, if that ended. */
  ended: 'merged' | 'closed' | null
  protected: boolean
  autoDeploy: boolean
  fromFork: boolean
  shaApproved: boolean
  /** The commit of the newest requested deployment, and the one that serves. */
  targetSha: string | null
  commitSha: string | null
  newest: NewestDeployment | undefined
  skipMarkerOn: boolean
  /** The head commit's message, if known. */
  message: string | null
  /** An earlier push skipped exactly this commit. */
  skippedBefore: SkipRule | null
  watchesPaths: boolean
  /** False only if certainly no watched path changed since the deployed commit. */
  watchedChanged: boolean
  serverName: string
  serverJoined: boolean
  serverOnline: boolean
  /** A user chose another commit while the branch had this head. */
  leftBehind: boolean
  /** A deployment that has not started, and a running one. */
  queuedTaskId: number | null
  runningTaskId: number | null
  /** Reconcile may repeat a deployment that never started because the server was offline. */
  origin: 'event' | 'reconcile'
}

const SKIP_MARKER = '[skip deploy]'

export const REDEPLOYMENT_ROWS = [
  'environment_removing',
  'pull_request_closed',
  'environment_protected',
  'auto_deploy_off',
  'approval_required',
  'already_deployed',
  'already_attempted',
  'pinned',
  'skip_marker',
  'paths_unchanged',
  'server_not_ready',
  'superseded_queued',
  'queued_behind_running',
  'redeployed_offline',
  'redeployed',
] as const
export type RedeploymentRow = (typeof REDEPLOYMENT_ROWS)[number]

interface Row {
  when(f: RedeploymentFacts): boolean
  gives(f: RedeploymentFacts): Decision
}

const isTarget = (f: RedeploymentFacts): boolean => f.sha !== null && f.sha === f.targetSha

/** Neither setting skips a first deployment. */
const maySkip = (f: RedeploymentFacts): boolean => f.commitSha !== null && f.sha !== null

const neverStarted = (f: RedeploymentFacts): boolean =>
  f.origin === 'reconcile' && f.newest?.failureCode === 'server_offline'

/** Its pull request, if it has one, no longer waits, and the head is stored. */
const settled = (
  f: RedeploymentFacts,
  outcome: DeliveryOutcome,
  rule: DeliveryRule,
  reason: string,
  ...intents: Intent[]
): Decision =>
  decide(outcome, rule, reason, wait(null), { kind: 'record_head', sha: f.sha }, ...intents)

const skipped = (f: RedeploymentFacts, rule: SkipRule, reason: string): Decision =>
  settled(f, 'ignored', rule, reason, {
    kind: 'mark_skipped',
    rule,
    sha: f.sha,
    from: f.commitSha,
  })

const redeployed = (
  f: RedeploymentFacts,
  rule: DeliveryRule,
  rest: string,
  ...first: Intent[]
): Decision => {
  const reason = `${f.identifier} is redeployed at ${shortSha(f.sha)}${rest}.`
  return settled(f, 'queued', rule, reason, ...first, { kind: 'deploy', sha: f.sha })
}

const ROWS: Record<RedeploymentRow, Row> = {
  environment_removing: {
    when: (f) => f.removing,
    gives: (f) =>
      settled(f, 'ignored', 'environment_removing', `${f.identifier} is being removed.`),
  },
  // before protection, because removing protection does not reopen the pull request
  pull_request_closed: {
    when: (f) => f.ended !== null,
    gives: (f) =>
      decide(
        'ignored',
        'pull_request_closed',
        `The pull request of ${f.identifier} is ${f.ended}: nothing is deployed to it automatically.`,
      ),
  },
  // before auto-deploy: protection takes priority
  environment_protected: {
    when: (f) => f.protected,
    gives: (f) =>
      settled(
        f,
        'ignored',
        'environment_protected',
        `${f.identifier} is protected: nothing is deployed to it automatically.`,
      ),
  },
  auto_deploy_off: {
    when: (f) => !f.autoDeploy,
    gives: (f) =>
      settled(f, 'ignored', 'auto_deploy_off', `Auto-deploy of ${f.identifier} is off.`),
  },
  approval_required: {
    when: (f) => f.fromFork && !f.shaApproved,
    gives: (f) =>
      decide(
        'waiting',
        'approval_required',
        `Commit ${shortSha(f.sha)} comes from a fork and waits for approval by a member; the running version stays.`,
        wait('approval'),
        { kind: 'record_head', sha: f.sha },
      ),
  },
  already_deployed: {
    when: (f) =>
      isTarget(f) && ['queued', 'running', 'succeeded'].includes(f.newest?.status ?? 'failed'),
    gives: (f) =>
      settled(
        f,
        'ignored',
        'already_deployed',
        `${shortSha(f.sha)} is what the newest deployment of ${f.identifier} is about.`,
      ),
  },
  already_attempted: {
    when: (f) =>
      isTarget(f) &&
      (f.newest?.status === 'failed' || f.newest?.canceledByPerson === true) &&
      !neverStarted(f),
    gives: (f) =>
      settled(
        f,
        'ignored',
        'already_attempted',
        `${shortSha(f.sha)} was tried on ${f.identifier} already and is not repeated by itself. Deploy it by hand.`,
      ),
  },
  // a push moves the environment on; reconcile leaves it if the branch still has its former head
  pinned: {
    when: (f) => f.leftBehind && f.origin === 'reconcile',
    gives: (f) =>
      settled(
        f,
        'ignored',
        'pinned',
        `${f.identifier} stays at ${shortSha(f.targetSha)}, which was chosen by hand, until the next push.`,
      ),
  },
  skip_marker: {
    when: (f) =>
      f.skipMarkerOn &&
      maySkip(f) &&
      (f.message?.includes(SKIP_MARKER) === true || f.skippedBefore === 'skip_marker'),
    gives: (f) =>
      skipped(f, 'skip_marker', `The message of ${shortSha(f.sha)} holds ${SKIP_MARKER}.`),
  },
  paths_unchanged: {
    when: (f) =>
      f.watchesPaths && maySkip(f) && (!f.watchedChanged || f.skippedBefore === 'paths_unchanged'),
    gives: (f) =>
      skipped(
        f,
        'paths_unchanged',
        `Nothing under the watched paths changed since ${shortSha(f.commitSha)}, which ${f.identifier} serves.`,
      ),
  },
  server_not_ready: {
    when: (f) => !f.serverJoined,
    gives: (f) =>
      decide(
        'waiting',
        'server_not_ready',
        `No agent ever joined from ${f.serverName}; ${f.identifier} is deployed when it does.`,
        wait('server_not_ready'),
        { kind: 'record_head', sha: f.sha },
        { kind: 'deploy_on_join' },
      ),
  },
  superseded_queued: {
    when: (f) => f.queuedTaskId !== null,
    gives: (f) =>
      redeployed(
        f,
        'superseded_queued',
        `; task ${f.queuedTaskId} had not started and is replaced`,
        { kind: 'supersede', taskId: f.queuedTaskId ?? 0 },
      ),
  },
  queued_behind_running: {
    when: (f) => f.runningTaskId !== null,
    gives: (f) =>
      redeployed(f, 'queued_behind_running', ` after task ${f.runningTaskId}, which runs`),
  },
  redeployed_offline: {
    when: (f) => !f.serverOnline,
    gives: (f) =>
      redeployed(
        f,
        'redeployed',
        ` when ${f.serverName}, which is offline, returns within 15 minutes`,
      ),
  },
  redeployed: {
    when: () => true,
    gives: (f) => redeployed(f, 'redeployed', ''),
  },
}

/** Also returns the row, because two rows share one rule. */
export function decideRedeployment(
  facts: RedeploymentFacts,
): EventDecision & { row: RedeploymentRow } {
  const { environmentId, identifier } = facts
  for (const row of REDEPLOYMENT_ROWS) {
    if (ROWS[row].when(facts)) return { ...ROWS[row].gives(facts), environmentId, identifier, row }
  }
  throw new Error('unreachable: the last row always holds')
}

/** Decides about one changed branch that an environment tracks. */
export function decidePush(
  change: { branch: string; deleted: boolean },
  environment: { type: 'manual' | 'pull_request'; branchMissing: boolean },
  facts: RedeploymentFacts,
): EventDecision {
  const { environmentId, identifier } = facts
  if (!change.deleted) {
    const decision = decideRedeployment(facts)
    const found: Intent[] = environment.branchMissing
      ? [{ kind: 'mark_branch', missing: false }]
      : []
    return { ...decision, intents: [...found, ...decision.intents] }
  }
  const decision =
    environment.type === 'manual'
      ? decide(
          'applied',
          'branch_deleted',
          `Branch ${change.branch} was deleted; ${identifier} keeps what it serves.`,
          { kind: 'mark_branch', missing: true },
        )
      : decide(
          'ignored',
          'branch_deleted',
          `Branch ${change.branch} was deleted; ${identifier} stays until its pull request is closed.`,
        )
  return { ...decision, environmentId, identifier }
}
