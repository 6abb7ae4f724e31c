// Generated from the migrations by `npm run gen`. Do not edit: narrow a column in engine/column-facts.ts.
// Times are epoch milliseconds, booleans 0 or 1, JSON is text that store functions parse themselves.
import type {
  AlertKind,
  ChannelKind,
  Happening,
  NoticeEnvironment,
  NotificationStatus,
  Provider,
  Recipe,
  SshAccount,
  TaskStatus,
  TaskType,
  Trigger,
} from '@berth/shared'
import type { Permission, Role, SshPurpose } from '@berth/shared/api'
import type { Generated } from 'kysely'

export type Flag = 0 | 1
export type AuthorityPhase = 'announced' | 'signing' | 'retiring' | 'retired'

export interface Schema {
  accounts: AccountsTable
  agentCertificates: AgentCertificatesTable
  agentEvents: AgentEventsTable
  agentRollouts: AgentRolloutsTable
  agentUpdates: AgentUpdatesTable
  agentWakes: AgentWakesTable
  agents: AgentsTable
  alerts: AlertsTable
  approvals: ApprovalsTable
  artifacts: ArtifactsTable
  attemptSteps: AttemptStepsTable
  attempts: AttemptsTable
  audit: AuditTable
  auditHead: AuditHeadTable
  backupRuns: BackupRunsTable
  backupSettings: BackupSettingsTable
  backupStorages: BackupStoragesTable
  backups: BackupsTable
  browserSessions: BrowserSessionsTable
  deliveries: DeliveriesTable
  deviceLogins: DeviceLoginsTable
  domainChecks: DomainChecksTable
  duties: DutiesTable
  environmentMetrics: EnvironmentMetricsTable
  environmentWatchers: EnvironmentWatchersTable
  environments: EnvironmentsTable
  events: EventsTable
  forgeConnections: ForgeConnectionsTable
  forgeRemovals: ForgeRemovalsTable
  forgeSetups: ForgeSetupsTable
  hostReports: HostReportsTable
  hosts: HostsTable
  idempotencyKeys: IdempotencyKeysTable
  installation: InstallationTable
  invitations: InvitationsTable
  joinTokens: JoinTokensTable
  logins: LoginsTable
  mails: MailsTable
  members: MembersTable
  migrations: MigrationsTable
  noticeChannels: NoticeChannelsTable
  noticeRules: NoticeRulesTable
  notices: NoticesTable
  oneTimeSecrets: OneTimeSecretsTable
  oneUseCodes: OneUseCodesTable
  organizationKeys: OrganizationKeysTable
  organizations: OrganizationsTable
  passkeyChallenges: PasskeyChallengesTable
  passkeys: PasskeysTable
  projectServers: ProjectServersTable
  projectVariables: ProjectVariablesTable
  projects: ProjectsTable
  pullRequests: PullRequestsTable
  rateLimits: RateLimitsTable
  recoveryCodes: RecoveryCodesTable
  refreshTokens: RefreshTokensTable
  refusedDeliveries: RefusedDeliveriesTable
  registries: RegistriesTable
  replicas: ReplicasTable
  scheduleRuns: ScheduleRunsTable
  schedules: SchedulesTable
  serverShares: ServerSharesTable
  serverUsage: ServerUsageTable
  servers: ServersTable
  sshAuthorities: SshAuthoritiesTable
  sshAuthorityConfirmations: SshAuthorityConfirmationsTable
  sshCertificates: SshCertificatesTable
  sshHostCertificates: SshHostCertificatesTable
  sshSessions: SshSessionsTable
  tasks: TasksTable
  tokens: TokensTable
  totpFactors: TotpFactorsTable
  usagePoints: UsagePointsTable
  users: UsersTable
  variableChanges: VariableChangesTable
  variables: VariablesTable
  verifications: VerificationsTable
  wrongTries: WrongTriesTable
}

/** How a user proves who they are; today always by password. */
export interface AccountsTable {
  id: Generated<number>
  userId: number
  provider: string
  subject: string
  passwordHash: string | null
  createdAt: number
  updatedAt: number
}

export interface AgentCertificatesTable {
  fingerprint: string
  agentId: string
  generation: number
  notAfter: number
  firstSeenAt: number | null
  issuedAt: number
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

export interface AgentRolloutsTable {
  id: Generated<number>
  organizationId: number | null
  version: string
  counter: number
  state: string
  reason: Generated<string>
  startedBy: number | null
  startedAt: number
  finishedAt: number | null
}

export interface AgentUpdatesTable {
  id: string
  rolloutId: number
  serverId: number
  state: string
  reason: Generated<string>
  fromVersion: string | null
  offeredAt: number | null
  finishedAt: number | null
}

/** Wake-ups of agents, for replicas that missed the hint. */
export interface AgentWakesTable {
  id: Generated<number>
  agentId: string
  isTrust: Flag
  at: number
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
  /** From heartbeats; null before the first. */
  diskFreeBytes: number | null
  /** Of the newest bundle of what it must trust and refuse; rises with every change. */
  trustGeneration: Generated<number>
  /** SHA-256 of that bundle's content. */
  trustDigest: Generated<string>
  /** The newest one that it confirmed. */
  trustApplied: Generated<number>
  /** Why the newest one is not in force; empty: it is, or nothing was said yet. */
  trustError: Generated<string>
  leftAt: number | null
  /** JSON: which copy of the agent took the session lately; null: one copy. */
  takeovers: string | null
}

export interface AlertsTable {
  id: Generated<number>
  organizationId: number
  kind: AlertKind
  /** The server, project or environment, by its kind. */
  subjectId: number
  begunAt: number
  /** Null: it lasts. */
  endedAt: number | null
}

export interface ApprovalsTable {
  projectId: number
  number: number
  sha: string
  userId: number
  at: number
}

export interface ArtifactsTable {
  id: Generated<number>
  /** Its name in the agent's store, and in the SSH verb. */
  fileId: string
  taskId: number
  /** Where the bytes are. */
  serverId: number
  path: string
  sizeBytes: number
  sha256: string
  collectedAt: number
  expiresAt: number
}

export interface AttemptStepsTable {
  attemptId: string
  stepIndex: number
  phase: string
  phaseTitle: string
  stepId: string
  title: string
  state: Generated<number>
  exitCode: number | null
  message: Generated<string>
  firstLogSeq: number | null
  lastLogSeq: number | null
  startedAt: number | null
  durationMs: number | null
}

export interface AttemptsTable {
  id: string
  taskId: number
  number: number
  agentId: string
  environmentId: number
  fence: number
  state: number
  desired: number
  variablesRevision: number
  waitingFor: string | null
  createdAt: number
  acceptedAt: number | null
  startedAt: number | null
  finishedAt: number | null
  code: Generated<number>
  message: Generated<string>
  failedStepId: Generated<string>
  exitCode: number | null
  platformCheck: Generated<Flag>
  /** Set with the terminal state: the log is complete when this record is stored. */
  finalLogSeq: number | null
  logSha256: string | null
  logDropped: Generated<number>
  ackedLogSeq: Generated<number>
  logBytes: Generated<number>
  logLines: Generated<number>
  /** The stored log has a gap that the agent's digest does not know. */
  logGap: Generated<Flag>
  logCompleteAt: number | null
  logTruncated: Generated<Flag>
  logExpiredAt: number | null
  unreachableSince: number | null
  lateOutcome: string | null
  /** The agent has deleted everything of it but its tombstone. */
  releasedAt: number | null
  /** Among those that wait for a build slot; 1 is next. */
  waitingPlace: number | null
  waitingSince: number | null
  /** How long it has waited for build slots, without the current wait. */
  waitedMs: Generated<number>
  /** The session whose stream feeds the log; only with PostgreSQL. */
  logSessionId: string | null
}

export interface AuditTable {
  id: Generated<number>
  at: number
  organizationId: number | null
  actorType: 'user' | 'agent' | 'webhook' | 'system'
  actorId: string | null
  verb: string
  subjectType: string
  subjectId: string | null
  details: string
  actorName: string | null
  tokenId: number | null
  address: string | null
  requestId: string | null
  subjectName: string | null
  /** Place in the chain; null: written before there was one. */
  seq: number | null
  previousHash: string | null
  hash: string | null
}

export interface AuditHeadTable {
  id: number
  /** The newest row of the chain and its hash; 0 and '' before the first. */
  seq: number
  hash: string
  /** The oldest row that is kept, and the hash that the one before it had. */
  firstSeq: number
  firstPrevious: string
  /** Rows up to here were written before there was a chain. */
  legacyId: number
  /** Over all of the above: who edits the head without the key is noticed. */
  mac: string
}

export interface BackupRunsTable {
  id: Generated<number>
  startedAt: number
  finishedAt: number | null
  place: string
  name: string | null
  bytes: number | null
  error: string | null
}

export interface BackupSettingsTable {
  environmentId: number
  keepCount: number
  /** Null: any age. */
  keepDays: number | null
  place: 'server' | 'bucket'
  updatedAt: number
  updatedBy: number
}

export interface BackupStoragesTable {
  organizationId: number
  endpoint: string
  region: string
  bucket: string
  prefix: string
  accessKeyId: string
  secretSealed: string
  /** Public key of age; the secret one is in identity_sealed. */
  recipient: string
  identitySealed: string
  updatedAt: number
  updatedBy: number
}

export interface BackupsTable {
  id: Generated<number>
  /** Its name on the server's disk and in the bucket. */
  uuid: string
  organizationId: number
  projectId: number
  environmentId: number
  serverId: number
  taskId: number
  place: 'server' | 'bucket'
  /** s3://bucket/folder; empty: on the disk of the server. */
  location: string
  live: Flag
  /** JSON of store/environments/backups.ts StoredPart[]; null: not complete. */
  parts: string | null
  sizeBytes: number
  contentBytes: number
  createdAt: number
  completedAt: number | null
  /** Retention ended it, or it went with its environment. */
  removedAt: number | null
}

export interface BrowserSessionsTable {
  id: Generated<number>
  userId: number
  tokenHash: string
  address: string | null
  userAgent: string | null
  expiresAt: number
  createdAt: number
  updatedAt: number
  method: Generated<'password' | 'provider' | 'passkey'>
  /** 1: the second factor is missing, so it opens nothing yet. */
  awaitsFactor: Generated<Flag>
  /** When the user last proved who they are. */
  verifiedAt: Generated<number>
  lastUsedAt: number | null
}

export interface DeliveriesTable {
  id: Generated<number>
  organizationId: number
  projectId: number
  provider: string
  deliveryId: string
  event: string
  receivedAt: number
  /** Null until it is decided; such rows are the queue. */
  decidedAt: number | null
  actor: string | null
  branch: string | null
  pullRequestNumber: number | null
  sha: string | null
  /** `none` for rows that reconciling wrote, not a forge. */
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

export interface DeviceLoginsTable {
  id: Generated<number>
  deviceCodeHash: string
  userCode: string
  clientId: string
  deviceName: string
  scopes: string
  address: string
  status: 'pending' | 'approved' | 'denied' | 'spent'
  userId: number | null
  intervalMs: number
  polledAt: number | null
  createdAt: number
  expiresAt: number
}

export interface DomainChecksTable {
  host: string
  serverId: number
  /** JSON of what the last look found. */
  result: string
  checkedAt: number
}

/** Work that one replica does for all. */
export interface DutiesTable {
  name: string
  replicaId: string
  leaseUntil: number
}

export interface EnvironmentMetricsTable {
  environmentId: number
  /** Whose steps it has. */
  span: 'hour' | 'day' | 'week'
  /** The step, counted from 1970, modulo the length of the ring. */
  slot: number
  /** When this step began. */
  at: number
  /** Processor and memory are averages of so many measurements. */
  samples: number
  cpuPermille: number
  memoryBytes: number
  requests: number
  status2xx: number
  status3xx: number
  status4xx: number
  status5xx: number
  /** Counts by LATENCY_BOUNDS_MS, separated by spaces. */
  latencies: string
}

export interface EnvironmentWatchersTable {
  environmentId: number
  userId: number
  createdAt: number
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
  /** The newest commit that an event named. */
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
  /** JSON of the commits that the branch had when a user pinned another one; null while it follows its branch. */
  pinnedFrom: string | null
  actionsSyncedAt: number | null
  stopped: string | null
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

export interface ForgeConnectionsTable {
  id: Generated<number>
  organizationId: number
  provider: Provider
  /** Base address of its API, without a trailing slash. */
  apiUrl: string
  /** Name of the token's account; empty: it has none. */
  account: string
  tokenSealed: string
  createdAt: number
  createdBy: number
  checkedAt: number | null
  /** Why the token failed last. */
  error: string | null
}

/** Keys and webhooks that must be removed at a forge. */
export interface ForgeRemovalsTable {
  id: Generated<number>
  connectionId: number
  repository: string
  keyId: string | null
  webhookId: string | null
  tries: number
  nextAt: number
}

/** What Berth made in the repository of a connected project. */
export interface ForgeSetupsTable {
  projectId: number
  /** Its path at the forge: acme/shop. */
  repository: string
  /** The forge's id of the deploy key. */
  keyId: string | null
  /** The forge's id of the webhook. */
  webhookId: string | null
  /** JSON of domain/forges/setup.ts ForgeCheck[]. */
  checks: string
  broken: Flag
  /** Key, secret or repository changed: the forge must learn it. */
  installDue: Flag
  checkedAt: number | null
  nextCheckAt: number
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

/** A host name beside the environment's own domain. */
export interface HostsTable {
  host: string
  environmentId: number
  /** Of the attempt that claimed it, or the newest one when the name was the environment's domain. */
  fence: number
  claimedAt: number
}

export interface IdempotencyKeysTable {
  id: Generated<number>
  userId: number
  method: string
  path: string
  key: string
  /** Keyed hash of query, organization and body; the body itself is never stored. */
  fingerprint: string
  startedAt: number
  /** Null: still running, or its reply was lost. */
  status: number | null
  contentType: string | null
  location: string | null
  /** Null with a status: not kept, because it showed a secret. */
  body: string | null
  madeId: number | null
  replicaId: string | null
  /** When its first change was committed; the key is not free from then on. */
  effectAt: number | null
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
  /** Begins when the first replica starts; settings of a later era outrank all earlier ones. */
  era: Generated<number>
}

export interface InvitationsTable {
  id: Generated<number>
  organizationId: number
  email: string
  role: Role
  tokenHash: string
  invitedBy: number
  createdAt: number
  expiresAt: number
  acceptedAt: number | null
  acceptedBy: number | null
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

/** A client that logged in as a user: the family of its tokens. */
export interface LoginsTable {
  id: Generated<number>
  userId: number
  clientId: string
  name: string
  scopes: string
  createdAt: number
  revokedAt: number | null
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
  /** A sender holds it until then. */
  leaseUntil: number | null
  givenUpAt: number | null
}

export interface MembersTable {
  organizationId: number
  userId: number
  role: Role
  createdAt: number
}

export interface MigrationsTable {
  name: string
  appliedAt: number
  kind: string | null
}

export interface NoticeChannelsTable {
  id: Generated<number>
  organizationId: number
  name: string
  kind: ChannelKind
  /** The host of the receiver, as it may be shown; null for e-mail. */
  target: string | null
  /** The address of the receiver, which is a secret; null for e-mail. */
  urlSealed: string | null
  /** Signs the requests to a webhook. */
  secretSealed: string | null
  previousSecretSealed: string | null
  /** The former secret signs too until then. */
  previousSecretUntil: number | null
  /** JSON array of addresses. */
  recipients: string
  failingSince: number | null
  /** Notices in a row that the receiver refused for good. */
  refused: Generated<number>
  /** Nothing is sent since then. */
  brokenAt: number | null
  error: string | null
  lastDeliveredAt: number | null
  createdAt: number
  updatedAt: number
  updatedBy: number
}

export interface NoticeRulesTable {
  id: Generated<number>
  organizationId: number
  channelId: number
  /** Null: of every project, and of servers. */
  projectId: number | null
  environmentType: NoticeEnvironment | null
  /** JSON array of words. */
  happenings: string
}

/** What was or will be sent: one row for each channel, of e-mail for each recipient. */
export interface NoticesTable {
  id: Generated<number>
  organizationId: number
  channelId: number
  /** Empty unless it is a mail. */
  recipient: string
  happening: Happening | 'test'
  /** The same for every try and replay. */
  messageId: string
  projectId: number | null
  environmentId: number | null
  taskId: number | null
  /** JSON of domain/notices/notice.ts Notice. */
  body: string
  /** Its body is what is sent; before, the log may still add to it. */
  complete: Flag
  status: NotificationStatus
  tries: Generated<number>
  /** Null: it is over. */
  nextAt: number | null
  answerStatus: number | null
  answer: string | null
  error: string | null
  replayOf: number | null
  createdAt: number
  finishedAt: number | null
}

/** Shown to its user until the user confirms it. */
export interface OneTimeSecretsTable {
  id: string
  userId: number
  organizationId: number | null
  /** What the secret opens, such as token:7; the row goes with it. Null: nothing ends it early. */
  subject: string | null
  sealed: string
  createdAt: number
  expiresAt: number
}

export interface OneUseCodesTable {
  hash: string
  kind: 'download' | 'renewal' | 'setup'
  /** Who may use it: a user, the fingerprint of a certificate, or the console. */
  holder: string
  body: string
  expiresAt: number
}

export interface OrganizationKeysTable {
  id: Generated<number>
  /** Null: the installation's own. */
  organizationId: number | null
  purpose: 'data' | 'fingerprint'
  /** Sealed to this very row; opened in memory alone. */
  wrapped: string
  createdAt: number
  /** Still opens what it sealed; seals nothing new. */
  retiredAt: number | null
}

export interface OrganizationsTable {
  id: Generated<number>
  name: string
  slug: string
  createdAt: number
  /** The row stays for tasks and audit; the slug is free again. */
  removedAt: number | null
  /** Members need a second factor; null: they do not. */
  secondFactorSince: number | null
}

export interface PasskeyChallengesTable {
  hash: string
  purpose: 'sign-in' | 'add' | 'confirm'
  userId: number | null
  expiresAt: number
}

export interface PasskeysTable {
  id: Generated<number>
  userId: number
  name: string
  credentialId: string
  publicKey: string
  counter: number
  transports: string
  createdAt: number
  lastUsedAt: number | null
}

export interface ProjectServersTable {
  projectId: number
  serverId: number
}

export interface ProjectVariablesTable {
  projectId: number
  level: 'project' | 'previews' | 'manual'
  key: string
  sealed: string
  /** Says whether a value is the same, without the value. */
  fingerprint: string
  /** Length of the value. */
  bytes: number
  /** Environments of forks get it too; never for manual ones. */
  forks: Generated<Flag>
  updatedAt: number
  updatedBy: number
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
  /** When the repository is looked at next. */
  reconcileAt: number | null
  reconciledAt: number | null
  /** When a person last asked for a round. */
  reconcileAskedAt: number | null
  /** JSON of what its environments may use at most. */
  ceilings: Generated<string>
  /** A line of known_hosts; null: the first key that is seen. */
  trustedHostKey: string | null
  trustedHostKeyAt: number | null
  forgeConnectionId: number | null
}

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
  /** The ref of the head in the base repository; null if only its branch has it. */
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

/** One window of a minute; only with PostgreSQL, which loses it in a crash. */
export interface RateLimitsTable {
  name: string
  key: string
  since: number
  count: number
}

export interface RecoveryCodesTable {
  id: Generated<number>
  userId: number
  hash: string
  usedAt: number | null
}

export interface RefreshTokensTable {
  id: Generated<number>
  loginId: number
  hash: string
  createdAt: number
  expiresAt: number
  spentAt: number | null
  /** The one repetition a lost reply may have. */
  repeatedAt: number | null
}

export interface RefusedDeliveriesTable {
  id: Generated<number>
  projectId: number
  at: number
  address: string
  provider: string | null
  reason: string
}

export interface RegistriesTable {
  organizationId: number
  projectId: number
  host: string
  username: string
  sealed: string
  updatedAt: number
  updatedBy: number
}

export interface ReplicasTable {
  /** Random per start. */
  id: string
  host: string
  pid: number
  address: string
  startedAt: number
  version: string | null
  /** Where other replicas reach it; null on SQLite. */
  peerAddress: string | null
  /** By the clock of the database; null on SQLite. */
  leaseUntil: number | null
  drainingAt: number | null
}

export interface ScheduleRunsTable {
  id: Generated<number>
  environmentId: number
  action: string
  outcome: 'started' | 'skipped' | 'missed'
  reason: string | null
  dueAt: number
  lastDueAt: number
  /** From due_at to last_due_at, if they did not start for the same reason. */
  runs: number
  taskId: number | null
}

export interface SchedulesTable {
  environmentId: number
  action: string
  cron: string
  timezone: string
  /** Null: it never runs, or its action is disabled. */
  nextRunAt: number | null
  /** Why this control plane cannot follow it. */
  problem: string | null
}

export interface ServerSharesTable {
  serverId: number
  organizationId: number
  createdAt: number
}

export interface ServerUsageTable {
  serverId: number
  at: number
  cpuPermille: number
  memoryUsedBytes: number
  memoryBytes: number
  diskUsedBytes: number
  diskBytes: number
  loadHundredths: number
  dockerOk: Flag
  proxyOk: Flag
  /** JSON of store/servers/usage.ts EnvironmentUsage[]. */
  environments: string
  /** Requests before this time are counted; null: the server keeps no access log. */
  requestsUntil: number | null
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
  /** The row stays for its tasks; the name is free again. */
  removedAt: number | null
  /** JSON of what an environment may use on it at most. */
  ceilings: Generated<string>
  /** JSON of what builds may use, and of the numbers of slots. */
  settings: Generated<string>
  /** Null: not paused, or paused before this was kept. */
  pausedBy: number | null
  pausedAt: number | null
}

export interface SshAuthoritiesTable {
  id: Generated<number>
  kind: 'user' | 'host'
  phase: AuthorityPhase
  publicKey: string
  fingerprint: string
  /** Null once it is retired, so that it never signs again. */
  keySealed: string | null
  createdAt: number
  signingAt: number | null
  retiringAt: number | null
  retiredAt: number | null
}

/** The agent said that it trusts this authority. */
export interface SshAuthorityConfirmationsTable {
  authorityId: number
  agentId: string
  confirmedAt: number
}

export interface SshCertificatesTable {
  id: Generated<number>
  serial: string
  organizationId: number
  serverId: number
  environmentId: number | null
  userId: number
  authorityId: number
  purpose: SshPurpose
  /** The permission that its holder needs; a holder who loses it loses the certificate. */
  permission: Permission
  /** JSON array. */
  can: string
  account: SshAccount
  principal: string
  keyId: string
  keyType: string
  fingerprint: string
  /** Where the request came from. */
  address: string
  issuedAt: number
  validAfter: number
  validBefore: number
  /** The latest end of a session that it opened. */
  sessionUntil: number
  /** Null if it was never signed, so that no client has it. */
  signedAt: number | null
  revokedAt: number | null
  /** Null: the platform, because the access ended. */
  revokedBy: number | null
  revokeReason: string | null
}

/** The newest host certificate of each server. */
export interface SshHostCertificatesTable {
  serverId: number
  authorityId: number
  serial: string
  fingerprint: string
  issuedAt: number
  validBefore: number
}

/** An open session, as the agent reported it; the row goes when it ends. */
export interface SshSessionsTable {
  certificateId: number
  /** Of the agent; unique with the certificate. */
  sessionId: string
  verb: string
  startedAt: number
}

export interface TasksTable {
  id: Generated<number>
  organizationId: number
  projectId: number
  environmentId: number
  serverId: number
  type: TaskType
  reset: Generated<Flag>
  noCache: Generated<Flag>
  status: TaskStatus
  triggerBy: Trigger
  userId: number | null
  triggeredBy: string
  message: string | null
  branch: string
  recipe: Recipe
  /** The commit that was asked for; null: the branch's head. */
  askedSha: string | null
  /** The commit that was checked out. */
  commitSha: string | null
  commitMessage: string | null
  cancelRequestedAt: number | null
  cancelReason: 'user' | 'superseded' | 'environment_removed' | null
  supersededBy: number | null
  failure: string | null
  warnings: Generated<string>
  lateOutcome: string | null
  createdAt: number
  startedAt: number | null
  liveAt: number | null
  finishedAt: number | null
  deliveryId: number | null
  skipSteps: Generated<Flag>
  /** Removes the copy on a former server; the environment itself stays and is not locked. */
  formerCopy: Generated<Flag>
  /** Of the .service.yml it read. */
  serviceFileSha: string | null
  action: string | null
  service: string | null
  reuseRelease: Generated<Flag>
  backupId: number | null
  requestId: string | null
  commitAuthor: string | null
  /** The name of the user or the event that canceled it. */
  canceledBy: string | null
  /** JSON: name, image and digest of each service that it started. */
  images: string | null
}

export interface TokensTable {
  id: Generated<number>
  userId: number
  kind: 'login' | 'personal'
  name: string
  hash: string
  hint: string
  scopes: string
  organizationId: number | null
  expiresAt: number | null
  revokedAt: number | null
  lastUsedAt: number | null
  createdAt: number
  lastUsedAddress: string | null
  /** The login this access token belongs to; null: a personal token. */
  loginId: number | null
}

export interface TotpFactorsTable {
  userId: number
  secretSealed: string
  createdAt: number
  confirmedAt: number | null
  /** The newest time step whose code was used; no code works twice. */
  lastStep: Generated<number>
}

export interface UsagePointsTable {
  serverId: number
  span: 'minute' | 'hour'
  /** The minute or hour, counted from 1970, modulo the length of the ring. */
  slot: number
  /** When this minute or hour began. */
  at: number
  /** Averages of so many measurements. */
  samples: number
  cpuPermille: number
  memoryUsedBytes: number
  diskUsedBytes: number
}

export interface UsersTable {
  id: Generated<number>
  name: string
  email: string
  isPlatformAdmin: Generated<Flag>
  disabledAt: number | null
  createdAt: number
  lastActiveAt: number | null
  /** When the first factor was added; null without one. */
  secondFactorAt: number | null
}

export interface VariableChangesTable {
  environmentId: number
  revision: number
  key: string
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

/** One-use links of password resets: the identifier is a hash, the value says for whom. */
export interface VerificationsTable {
  id: Generated<number>
  identifier: string
  value: string
  expiresAt: number
  createdAt: number
  updatedAt: number
}

export interface WrongTriesTable {
  key: string
  count: number
  /** Of the last try that was counted; later ones do not prolong the lock. */
  since: number
}
