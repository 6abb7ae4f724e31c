// The tables of pull requests, webhook deliveries and what goes out to mail and repository hosts.
import type { Generated } from 'kysely'
import type { Flag } from './schema.ts'

export interface PullRequestsTable {
  id: Generated<number>
  organizationId: number
  projectId: number
  number: number
  title: string
  url: string
  author: string
  state: 'open' | 'merged' | 'closed' | 'presumed_closed'
  draft: Flag
  headBranch: string
  baseBranch: string
  fromFork: Flag
  headSha: string
  /** Where the head stands in the base repository; null: only as its branch. */
  headRef: string | null
  environmentId: number | null
  waitingFor: 'approval' | 'environment_limit' | 'server_not_ready' | 'environment_removing' | null
  waitingSince: number | null
  branchMissingSince: number | null
  presumedClosedAt: number | null
  /** The host's time of the newest event that was applied. */
  happenedAt: number
  createdAt: number
  updatedAt: number
}

export interface ApprovalsTable {
  projectId: number
  number: number
  sha: string
  userId: number
  at: number
}

export interface DeliveriesTable {
  id: Generated<number>
  organizationId: number
  projectId: number
  provider: string
  deliveryId: string
  event: string
  receivedAt: number
  /** Null: the row is the queue, somebody still has to decide it. */
  decidedAt: number | null
  actor: string | null
  branch: string | null
  pullRequestNumber: number | null
  sha: string | null
  /** none: nobody's delivery, a look of our own. */
  signedWith: 'current' | 'previous' | 'legacy' | 'none'
  outcome: string
  rule: string | null
  reason: string | null
  /** JSON: one entry per environment. */
  results: Generated<string>
  replayOf: number | null
  tries: Generated<number>
  responseStatus: number
  error: string | null
  /** JSON, without credentials. */
  headers: string
  /** JSON of the normalised event. */
  normalised: string | null
  bodySha256: string
  bodyBytes: number
  /** Compressed, base64; gone after its retention. */
  body: string | null
}

export interface RefusedDeliveriesTable {
  id: Generated<number>
  projectId: number
  at: number
  address: string
  provider: string | null
  reason: string
}

/** The text is sealed: it may hold a one-use link. */
export interface MailsTable {
  id: Generated<number>
  kind: string
  recipient: string
  subject: string
  sealed: string
  createdAt: number
  tries: Generated<number>
  /** Null: sent or given up. */
  nextAt: number | null
  sentAt: number | null
  error: string | null
  /** Somebody is sending it until then. */
  leaseUntil: number | null
  givenUpAt: number | null
}

/** Commit statuses and comments on their way to a repository host. */
export interface HostReportsTable {
  id: Generated<number>
  organizationId: number
  projectId: number
  environmentId: number | null
  taskId: number | null
  kind: string
  /** What it is about at the host: a commit, a pull request. */
  subject: string
  /** JSON. */
  body: string
  /** What the host calls it, once known. */
  externalId: string | null
  createdAt: number
  tries: Generated<number>
  nextAt: number | null
  doneAt: number | null
  error: string | null
}
