// The tables as Kysely sees them; migrations/ are their definition. Times are epoch milliseconds, booleans 0 or 1,
// JSON is text that store functions parse themselves.

import type { Recipe } from '@berth/shared'
import type { Role } from '@berth/shared/api'
import type { Generated } from 'kysely'
import type { ArtifactsTable } from './schema-artifacts.ts'
import type { VariableChangesTable } from './schema-diagnostics.ts'
import type { AuditHeadTable, AuditTable, IdempotencyKeysTable } from './schema-doors.ts'
import type { HostsTable, OrganizationKeysTable } from './schema-environments.ts'
import type { AlertsTable } from './schema-live.ts'
import type {
  AccountsTable,
  BrowserSessionsTable,
  DeviceLoginsTable,
  InvitationsTable,
  LoginsTable,
  OrganizationsTable,
  RefreshTokensTable,
  TokensTable,
  UsersTable,
  VerificationsTable,
  WrongTriesTable,
} from './schema-people.ts'
import type {
  ApprovalsTable,
  DeliveriesTable,
  HostReportsTable,
  MailsTable,
  PullRequestsTable,
  RefusedDeliveriesTable,
} from './schema-rules.ts'
import type {
  SshAuthoritiesTable,
  SshAuthorityConfirmationsTable,
  SshCertificatesTable,
  SshHostCertificatesTable,
} from './schema-ssh.ts'

import type { AttemptStepsTable, AttemptsTable, TasksTable } from './schema-tasks.ts'
import type { ServerUsageTable, UsagePointsTable } from './schema-usage.ts'

export type Flag = 0 | 1

export interface Schema {
  replicas: ReplicasTable
  installation: InstallationTable
  organizations: OrganizationsTable
  users: UsersTable
  members: { organizationId: number; userId: number; role: Role; createdAt: number }
  tokens: TokensTable
  servers: ServersTable
  serverUsage: ServerUsageTable
  usagePoints: UsagePointsTable
  agents: AgentsTable
  agentCertificates: AgentCertificatesTable
  joinTokens: JoinTokensTable
  projects: ProjectsTable
  projectServers: { projectId: number; serverId: number }
  environments: EnvironmentsTable
  variables: VariablesTable
  tasks: TasksTable
  attempts: AttemptsTable
  attemptSteps: AttemptStepsTable
  agentEvents: AgentEventsTable
  events: EventsTable
  audit: AuditTable
  pullRequests: PullRequestsTable
  approvals: ApprovalsTable
  deliveries: DeliveriesTable
  refusedDeliveries: RefusedDeliveriesTable
  mails: MailsTable
  hostReports: HostReportsTable
  alerts: AlertsTable
  accounts: AccountsTable
  browserSessions: BrowserSessionsTable
  verifications: VerificationsTable
  wrongTries: WrongTriesTable
  invitations: InvitationsTable
  logins: LoginsTable
  refreshTokens: RefreshTokensTable
  deviceLogins: DeviceLoginsTable
  auditHead: AuditHeadTable
  idempotencyKeys: IdempotencyKeysTable
  variableChanges: VariableChangesTable
  sshAuthorities: SshAuthoritiesTable
  sshAuthorityConfirmations: SshAuthorityConfirmationsTable
  sshCertificates: SshCertificatesTable
  sshHostCertificates: SshHostCertificatesTable
  organizationKeys: OrganizationKeysTable
  hosts: HostsTable
  artifacts: ArtifactsTable
}

export interface InstallationTable {
  id: number
  installationId: string
  setupTokenHash: string | null
  setupDoneAt: number | null
  caCertificate: string
  caKeySealed: string
  createdAt: number
  /** Signs the cookies of browser sessions; null: not made yet. */
  cookieSecretSealed: string | null
}

export interface ServersTable {
  id: Generated<number>
  organizationId: number
  name: string
  hostname: string
  paused: Generated<Flag>
  /** What the agent said of its host, as JSON. */
  host: string | null
  createdAt: number
  sshPort: Generated<number>
  shellEnabled: Generated<Flag>
  /** JSON of what an environment may use on it at most. */
  ceilings: Generated<string>
  /** The row stays for its tasks; the name is free again. */
  removedAt: number | null
}

export interface AgentsTable {
  id: string
  serverId: number
  installId: string
  joinedAt: number
  revokedAt: number | null
  lockedAt: number | null
  lockReason: string | null
  sessionEpoch: Generated<number>
  sessionId: string | null
  replicaId: string | null
  instanceId: string | null
  journalId: string | null
  ackedEventSeq: Generated<number>
  connectedAt: number | null
  disconnectedAt: number | null
  lastSeenAt: number | null
  drainingAt: number | null
  version: string | null
  capabilities: Generated<string>
  /** Told by heartbeats; null: not yet. */
  diskFreeBytes: number | null
  /** Of the newest bundle of what it must trust and refuse; rises with every change. */
  trustGeneration: Generated<number>
  /** SHA-256 of that bundle's content. */
  trustDigest: Generated<string>
  /** The newest one that it confirmed. */
  trustApplied: Generated<number>
  /** Why the newest one is not in force; empty: it is, or nothing was said yet. */
  trustError: Generated<string>
}

export interface AgentCertificatesTable {
  fingerprint: string
  agentId: string
  generation: number
  notAfter: number
  firstSeenAt: number | null
  issuedAt: number
}

export interface JoinTokensTable {
  id: string
  secretHash: string
  serverId: number
  createdAt: number
  expiresAt: number
  usedAt: number | null
  /** SHA-256 of the public key that used it: the same key may ask again for a while. */
  usedKeyHash: string | null
  agentId: string | null
  /** The answer, kept for as long as it may be repeated. It holds no secret. */
  response: string | null
}

export interface ProjectsTable {
  id: Generated<number>
  organizationId: number
  name: string
  repoUrl: string
  domain: string
  status: Generated<'active' | 'deleting'>
  ownerId: number
  defaultRecipe: Recipe
  defaultBranch: string
  defaultServerId: number | null
  environmentLimit: number
  autoDeploy: Generated<Flag>
  lostAfterMs: number
  deployKeyPublic: string
  deployKeySealed: string
  createdAt: number
  updatedAt: number
  /** The row stays for its tasks; the name is free again. */
  removedAt: number | null
  pullRequestEnvironments: Generated<Flag>
  /** JSON array of globs. */
  pullRequestBases: Generated<string>
  deployDrafts: Generated<Flag>
  forkPullRequests: Generated<'approve' | 'never'>
  /** JSON array of globs; empty: off. */
  watchPaths: Generated<string>
  skipMarker: Generated<Flag>
  commentOnPullRequests: Generated<Flag>
  /** JSON array of host names. */
  customDomains: Generated<string>
  /** Null: no Basic Auth of the project. */
  basicAuthUsername: string | null
  basicAuthHash: string | null
  webhookSecretSealed: string | null
  webhookSecretRotatedAt: number | null
  previousWebhookSecretSealed: string | null
  previousAcceptedUntil: number | null
  legacyWebhookSecretSealed: string | null
  lastDeliveryAt: number | null
  lastDeliverySecret: 'current' | 'previous' | 'legacy' | null
  provider: string | null
  externalId: string | null
  renamedTo: string | null
  reachable: Flag | null
  checkedAt: number | null
  repositoryError: string | null
  hostTokenSealed: string | null
  hostTokenCheckedAt: number | null
  hostTokenError: string | null
  deployKeyCreatedAt: number | null
  previousDeployKeyPublic: string | null
  /** A line of known_hosts; null: the first key that is seen. */
  trustedHostKey: string | null
  trustedHostKeyAt: number | null
  /** When the repository is looked at next. */
  reconcileAt: number | null
  reconciledAt: number | null
  /** When a person last asked for a round. */
  reconcileAskedAt: number | null
  /** JSON of what its environments may use at most. */
  ceilings: Generated<string>
}

export interface EnvironmentsTable {
  id: Generated<number>
  organizationId: number
  projectId: number
  identifier: string
  title: string
  type: 'pull_request' | 'manual'
  /** Null: inherited from the project. */
  recipe: Recipe | null
  branch: string
  domain: string
  serverId: number
  ownerId: number
  protected: Generated<Flag>
  sticky: Generated<Flag>
  autoDeploy: Generated<Flag>
  /** The newest fence given out, and the one whose deployment serves. */
  fence: Generated<number>
  deployedFence: Generated<number>
  commitSha: string | null
  targetSha: string | null
  services: Generated<string>
  actions: Generated<string>
  actionsSyncedAt: number | null
  variablesRevision: Generated<number>
  deployedVariablesRevision: number | null
  degradedReason: string | null
  removingAt: number | null
  /** The newest task: found without looking through history. */
  lastTaskId: number | null
  createdAt: number
  updatedAt: number
  removedAt: number | null
  basicAuthMode: Generated<'inherit' | 'own' | 'off'>
  basicAuthUsername: string | null
  basicAuthHash: string | null
  branchMissing: Generated<Flag>
  pullRequestNumber: number | null
  fromFork: Generated<Flag>
  /** Still holds the copy of before the move; destroyed after the first success on the new one. */
  formerServerId: number | null
  /** The newest commit an event told of. */
  headSha: string | null
  /** Waits for a server that never joined. */
  deployOnJoin: Generated<Flag>
  /** What a push skipped, compared with which served commit, and by which rule. */
  skippedSha: string | null
  skippedFrom: string | null
  skippedRule: 'skip_marker' | 'paths_unchanged' | null
  /** Rises with each change of what the edge must know (Basic Auth). */
  edgeRevision: Generated<number>
  /** JSON of domain/environments/observation.ts: what its server last saw of it. */
  observed: string | null
  /** JSON: the commits its branch had when somebody chose another one; null: it follows its branch. */
  pinnedFrom: string | null
}

export interface VariablesTable {
  environmentId: number
  key: string
  sealed: string
  revision: number
  updatedAt: number
  updatedBy: number
  /** Says whether a value is the same, without the value. */
  fingerprint: string | null
  /** Length of the value; the set as a whole is limited. */
  bytes: Generated<number>
}

export interface AgentEventsTable {
  agentId: string
  journalId: string
  seq: number
  attemptId: string
  kind: string
  body: string
  receivedAt: number
}

export interface EventsTable {
  seq: Generated<number>
  organizationId: number
  projectId: number | null
  environmentId: number | null
  taskId: number | null
  kind: string
  body: string
  at: number
}

export interface ReplicasTable {
  /** Random per start. */
  id: string
  host: string
  pid: number
  address: string
  startedAt: number
}
