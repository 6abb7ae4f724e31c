// Serializes deliveries and pull requests to the documented fields, never a signature or a secret.
import type { DeliveryOutcome, DeliveryRule, Provider } from '@berth/shared'
import type {
  Delivery,
  DeliveryDetail,
  PullRequest,
  RefusedDelivery,
  WebhookAnswer,
} from '@berth/shared/api'
import type { EventResult } from '../../app/forges/intents.ts'
import type { PullRequestView } from '../../app/forges/pull-requests.ts'
import type { DeliveryView } from '../../app/forges/webhook-deliveries.ts'
import type {
  RefusedDelivery as RefusedRow,
  Delivery as Row,
} from '../../store/forges/webhook-deliveries.ts'
import { time, timeOrNull } from './fields.ts'

const resultsOf = (row: Row): EventResult[] => JSON.parse(row.results) as EventResult[]

const taskIdsOf = (row: Row): number[] =>
  resultsOf(row)
    .map((result) => result.taskId)
    .filter((id) => id !== null)

export const serializeAnswer = (row: Row): WebhookAnswer => ({
  delivery: row.id,
  outcome: row.outcome as DeliveryOutcome,
  rule: row.rule as DeliveryRule | null,
  reason: row.decidedAt === null ? 'It is looked at in a moment.' : row.reason,
  task_ids: taskIdsOf(row),
})

export const serializeDelivery = (row: Row): Delivery => ({
  id: row.id,
  project_id: row.projectId,
  provider: row.provider === 'git' ? null : (row.provider as Provider),
  delivery_id: row.deliveryId,
  event: row.event,
  received_at: time(row.receivedAt),
  actor: row.actor,
  branch: row.branch,
  pull_request_number: row.pullRequestNumber,
  sha: row.sha,
  signed_with: row.signedWith === 'none' ? null : row.signedWith,
  outcome: row.outcome as DeliveryOutcome,
  rule: row.rule as DeliveryRule | null,
  reason: row.reason,
  results: resultsOf(row).map((result) => ({
    environment_id: result.environmentId,
    identifier: result.identifier,
    outcome: result.outcome,
    rule: result.rule,
    reason: result.reason,
    task_id: result.taskId,
  })),
  task_ids: taskIdsOf(row),
  replay_of: row.replayOf,
  tries: row.tries,
  response_status: row.responseStatus,
  error: row.error,
})

export const serializeDeliveryDetail = ({ delivery, body }: DeliveryView): DeliveryDetail => ({
  ...serializeDelivery(delivery),
  headers: JSON.parse(delivery.headers) as Record<string, string>,
  normalised:
    delivery.normalised === null
      ? null
      : (JSON.parse(delivery.normalised) as Record<string, unknown>),
  body_sha256: delivery.bodySha256,
  body_bytes: delivery.bodyBytes,
  body,
})

export const serializeRefused = (row: RefusedRow): RefusedDelivery => ({
  at: time(row.at),
  address: row.address,
  provider: row.provider as Provider | null,
  reason: row.reason,
})

export function serializePullRequest(view: PullRequestView): PullRequest {
  const { pullRequest: p, approval, approvedBy, position } = view
  return {
    project_id: p.projectId,
    number: p.number,
    title: p.title,
    url: p.url,
    author: p.author,
    state: p.state,
    draft: p.draft,
    head_branch: p.headBranch,
    base_branch: p.baseBranch,
    from_fork: p.fromFork,
    head_sha: p.headSha || null,
    approved_sha: approval?.sha ?? null,
    approved_by: approval ? { id: approval.userId, name: approvedBy ?? '' } : null,
    environment_id: p.environmentId,
    waiting_for: p.waitingFor,
    waiting_since: timeOrNull(p.waitingSince),
    position,
    updated_at: time(p.updatedAt),
  }
}
