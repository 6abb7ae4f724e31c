// Builds the events that missed deliveries would have brought, from the project's records and the state of the
// repository, in the normalised form of every delivery. No I/O.
import type { Provider } from '@berth/shared'
import type { EventPullRequest, NormalisedEvent } from '../../domain/forges/payloads/event.ts'
import type { ForgeTruth } from '../../domain/forges/reconcile.ts'
import type { PullRequest } from '../../store/forges/pull-requests.ts'
import type { Project } from '../../store/projects/projects.ts'

const common = (project: Project, happenedAt: number | null) => ({
  provider: (project.provider ?? 'github') as Provider,
  delivery_id: '',
  happened_at: happenedAt === null ? null : new Date(happenedAt).toISOString(),
  actor: null,
  // reconcile read the project's own address, so the repository matches
  repository: { external_id: project.externalId ?? '', full_name: '', web_url: null },
})

export const pushEvent = (
  project: Project,
  branch: string,
  sha: string | null,
): NormalisedEvent => ({
  ...common(project, null),
  kind: 'push',
  changes: [{ branch, sha, before: null, deleted: sha === null, message: null, paths: null }],
  truncated: false,
})

export const pullRequestEvent = (
  project: Project,
  action: Extract<NormalisedEvent, { kind: 'pull_request' }>['action'],
  pullRequest: EventPullRequest,
  happenedAt: number | null,
): NormalisedEvent => ({
  ...common(project, happenedAt),
  kind: 'pull_request',
  action,
  pull_request: pullRequest,
})

export const fromRecord = (record: PullRequest): EventPullRequest => ({
  number: record.number,
  title: record.title,
  url: record.url,
  author: record.author,
  draft: record.draft,
  head_branch: record.headBranch,
  head_sha: record.headSha || null,
  before: null,
  head_ref: record.headRef,
  base_branch: record.baseBranch,
  from_fork: record.fromFork,
  message: null,
})

export const fromSeen = (seen: ForgeTruth['open'][number]): EventPullRequest => ({
  number: seen.number,
  title: seen.title,
  url: seen.url,
  author: seen.author || null,
  draft: seen.draft,
  head_branch: seen.headBranch,
  head_sha: seen.headSha,
  before: null,
  head_ref: seen.headRef,
  base_branch: seen.baseBranch,
  from_fork: seen.fromFork,
  message: null,
})
