// Names of deliveries and pull requests that the control plane, the client and the dashboard share. Their meaning is
// decided in control-plane/src/domain/forges/pull-request.ts and redeployment.ts; nothing here decides.

/** Forges. Forgejo uses Gitea's format but signs under its own name. */
export const PROVIDERS = [
  'github',
  'gitlab',
  'gitea',
  'forgejo',
  'bitbucket_cloud',
  'bitbucket_server',
] as const
export type Provider = (typeof PROVIDERS)[number]

export const PULL_REQUEST_ACTIONS = [
  'opened',
  'reopened',
  'updated',
  'edited',
  'merged',
  'closed',
] as const
export type PullRequestAction = (typeof PULL_REQUEST_ACTIONS)[number]

export const PULL_REQUEST_STATES = ['open', 'merged', 'closed', 'presumed_closed'] as const
export type PullRequestState = (typeof PULL_REQUEST_STATES)[number]

export const WAITING_REASONS = [
  'approval',
  'environment_limit',
  'server_not_ready',
  'environment_removing',
] as const
export type WaitingReason = (typeof WAITING_REASONS)[number]

export const DELIVERY_OUTCOMES = [
  'queued',
  'waiting',
  'applied',
  'ignored',
  'duplicate',
  'received',
  'error',
  'refused',
] as const
export type DeliveryOutcome = (typeof DELIVERY_OUTCOMES)[number]

/** Which row of the decision tables applied. */
export const DELIVERY_RULES = [
  'duplicate',
  'ping',
  'unsupported_event',
  'malformed_payload',
  'repository_mismatch',
  'project_deleting',
  'no_environment',
  'branch_deleted',
  'stale_event',
  'pull_request_closed',
  'previews_disabled',
  'base_filtered',
  'draft_skipped',
  'fork_never',
  'fork_unsupported',
  'approval_required',
  'environment_removing',
  'server_not_ready',
  'environment_limit_reached',
  'environment_created',
  'domain_in_use',
  'presumed_closed',
  'retargeted',
  'recorded',
  'left_line',
  'pull_request_merged',
  'environment_protected',
  'auto_deploy_off',
  'already_deployed',
  'already_attempted',
  'pinned',
  'skip_marker',
  'paths_unchanged',
  'superseded_queued',
  'queued_behind_running',
  'redeployed',
  'undecided',
] as const
export type DeliveryRule = (typeof DELIVERY_RULES)[number]
