// Adds what SQL does not say about a column: a narrower type, and a note for readers. `npm run gen` writes both to
// ../schema.ts. The key `$` is a note on the table itself.

export interface ColumnFacts {
  type?: string
  note?: string
}

export const COLUMN_FACTS: Record<string, Record<string, ColumnFacts>> = {
  replicas: {
    id: { note: 'Random per start.' },
    peerAddress: { note: 'Where other replicas reach it; null on SQLite.' },
    leaseUntil: { note: 'By the clock of the database; null on SQLite.' },
  },
  duties: {
    $: { note: 'Work that one replica does for all.' },
  },
  agentWakes: {
    $: { note: 'Wake-ups of agents, for replicas that missed the hint.' },
    isTrust: { type: 'Flag' },
  },
  rateLimits: {
    $: { note: 'One window of a minute; only with PostgreSQL, which loses it in a crash.' },
  },
  oneUseCodes: {
    kind: { type: "'download' | 'renewal' | 'setup'" },
    holder: { note: 'Who may use it: a user, the fingerprint of a certificate, or the console.' },
  },
  domainChecks: {
    result: { note: 'JSON of what the last look found.' },
  },
  installation: {
    era: {
      note: 'Begins when the first replica starts; settings of a later era outrank all earlier ones.',
    },
    cookieSecretSealed: { note: 'Signs the cookies of browser sessions; null: not made yet.' },
  },
  organizations: {
    removedAt: { note: 'The row stays for tasks and audit; the slug is free again.' },
    secondFactorSince: { note: 'Members need a second factor; null: they do not.' },
  },
  users: {
    isPlatformAdmin: { type: 'Flag' },
    secondFactorAt: { note: 'When the first factor was added; null without one.' },
  },
  browserSessions: {
    method: { type: "'password' | 'provider' | 'passkey'" },
    awaitsFactor: {
      type: 'Flag',
      note: '1: the second factor is missing, so it opens nothing yet.',
    },
    verifiedAt: { note: 'When the user last proved who they are.' },
  },
  totpFactors: {
    lastStep: { note: 'The newest time step whose code was used; no code works twice.' },
  },
  passkeyChallenges: {
    purpose: { type: "'sign-in' | 'add' | 'confirm'" },
  },
  oneTimeSecrets: {
    $: { note: 'Shown to its user until the user confirms it.' },
    subject: {
      note: 'What the secret opens, such as token:7; the row goes with it. Null: nothing ends it early.',
    },
  },
  tokens: {
    kind: { type: "'login' | 'personal'" },
    loginId: { note: 'The login this access token belongs to; null: a personal token.' },
  },
  servers: {
    paused: { type: 'Flag' },
    pausedBy: { note: 'Null: not paused, or paused before this was kept.' },
    host: { note: 'What the agent said of its host, as JSON.' },
    shellEnabled: { type: 'Flag' },
    ceilings: { note: 'JSON of what an environment may use on it at most.' },
    settings: { note: 'JSON of what builds may use, and of the numbers of slots.' },
    removedAt: { note: 'The row stays for its tasks; the name is free again.' },
  },
  serverUsage: {
    dockerOk: { type: 'Flag' },
    proxyOk: { type: 'Flag' },
    environments: { note: 'JSON of store/servers/usage.ts EnvironmentUsage[].' },
    requestsUntil: {
      note: 'Requests before this time are counted; null: the server keeps no access log.',
    },
  },
  environmentMetrics: {
    span: { type: "'hour' | 'day' | 'week'", note: 'Whose steps it has.' },
    slot: { note: 'The step, counted from 1970, modulo the length of the ring.' },
    at: { note: 'When this step began.' },
    samples: { note: 'Processor and memory are averages of so many measurements.' },
    latencies: { note: 'Counts by LATENCY_BOUNDS_MS, separated by spaces.' },
  },
  usagePoints: {
    span: { type: "'minute' | 'hour'" },
    slot: { note: 'The minute or hour, counted from 1970, modulo the length of the ring.' },
    at: { note: 'When this minute or hour began.' },
    samples: { note: 'Averages of so many measurements.' },
  },
  agents: {
    takeovers: { note: 'JSON: which copy of the agent took the session lately; null: one copy.' },
    diskFreeBytes: { note: 'From heartbeats; null before the first.' },
    trustGeneration: {
      note: 'Of the newest bundle of what it must trust and refuse; rises with every change.',
    },
    trustDigest: { note: "SHA-256 of that bundle's content." },
    trustApplied: { note: 'The newest one that it confirmed.' },
    trustError: {
      note: 'Why the newest one is not in force; empty: it is, or nothing was said yet.',
    },
  },
  joinTokens: {
    usedKeyHash: {
      note: 'SHA-256 of the public key that used it: the same key may ask again for a while.',
    },
    response: { note: 'The answer, kept for as long as it may be repeated. It holds no secret.' },
  },
  projects: {
    status: { type: "'active' | 'deleting'" },
    defaultRecipe: { type: 'Recipe' },
    autoDeploy: { type: 'Flag' },
    removedAt: { note: 'The row stays for its tasks; the name is free again.' },
    pullRequestEnvironments: { type: 'Flag' },
    pullRequestBases: { note: 'JSON array of globs.' },
    deployDrafts: { type: 'Flag' },
    forkPullRequests: { type: "'approve' | 'never'" },
    watchPaths: { note: 'JSON array of globs; empty: off.' },
    skipMarker: { type: 'Flag' },
    commentOnPullRequests: { type: 'Flag' },
    customDomains: { note: 'JSON array of host names.' },
    basicAuthUsername: { note: 'Null: no Basic Auth of the project.' },
    lastDeliverySecret: { type: "'current' | 'previous' | 'legacy'" },
    reachable: { type: 'Flag' },
    trustedHostKey: { note: 'A line of known_hosts; null: the first key that is seen.' },
    reconcileAt: { note: 'When the repository is looked at next.' },
    reconcileAskedAt: { note: 'When a person last asked for a round.' },
    ceilings: { note: 'JSON of what its environments may use at most.' },
  },
  environments: {
    type: { type: "'pull_request' | 'manual'" },
    recipe: { type: 'Recipe', note: 'Null: inherited from the project.' },
    protected: { type: 'Flag' },
    sticky: { type: 'Flag' },
    autoDeploy: { type: 'Flag' },
    fence: { note: 'The newest fence given out, and the one whose deployment serves.' },
    lastTaskId: { note: 'The newest task: found without looking through history.' },
    basicAuthMode: { type: "'inherit' | 'own' | 'off'" },
    branchMissing: { type: 'Flag' },
    fromFork: { type: 'Flag' },
    formerServerId: {
      note: 'Still holds the copy of before the move; destroyed after the first success on the new one.',
    },
    headSha: { note: 'The newest commit that an event named.' },
    deployOnJoin: { type: 'Flag', note: 'Waits for a server that never joined.' },
    skippedSha: {
      note: 'What a push skipped, compared with which served commit, and by which rule.',
    },
    skippedRule: { type: "'skip_marker' | 'paths_unchanged'" },
    edgeRevision: { note: 'Rises with each change of what the edge must know (Basic Auth).' },
    observed: {
      note: 'JSON of domain/environments/observation.ts: what its server last saw of it.',
    },
    pinnedFrom: {
      note: 'JSON of the commits that the branch had when a user pinned another one; null while it follows its branch.',
    },
  },
  variables: {
    fingerprint: { note: 'Says whether a value is the same, without the value.' },
    bytes: { note: 'Length of the value; the set as a whole is limited.' },
  },
  projectVariables: {
    level: { type: "'project' | 'previews' | 'manual'" },
    fingerprint: { note: 'Says whether a value is the same, without the value.' },
    bytes: { note: 'Length of the value.' },
    forks: { type: 'Flag', note: 'Environments of forks get it too; never for manual ones.' },
  },
  tasks: {
    type: { type: 'TaskType' },
    reset: { type: 'Flag' },
    noCache: { type: 'Flag' },
    status: { type: 'TaskStatus' },
    triggerBy: { type: 'Trigger' },
    recipe: { type: 'Recipe' },
    askedSha: { note: "The commit that was asked for; null: the branch's head." },
    commitSha: { note: 'The commit that was checked out.' },
    cancelReason: { type: "'user' | 'superseded' | 'environment_removed'" },
    skipSteps: { type: 'Flag' },
    reuseRelease: { type: 'Flag' },
    serviceFileSha: { note: 'Of the .service.yml it read.' },
    canceledBy: { note: 'The name of the user or the event that canceled it.' },
    images: { note: 'JSON: name, image and digest of each service that it started.' },
    formerCopy: {
      type: 'Flag',
      note: 'Removes the copy on a former server; the environment itself stays and is not locked.',
    },
  },
  attempts: {
    platformCheck: { type: 'Flag' },
    finalLogSeq: {
      note: 'Set with the terminal state: the log is complete when this record is stored.',
    },
    logGap: {
      type: 'Flag',
      note: "The stored log has a gap that the agent's digest does not know.",
    },
    logTruncated: { type: 'Flag' },
    waitingPlace: { note: 'Among those that wait for a build slot; 1 is next.' },
    waitedMs: { note: 'How long it has waited for build slots, without the current wait.' },
    logSessionId: { note: 'The session whose stream feeds the log; only with PostgreSQL.' },
    releasedAt: { note: 'The agent has deleted everything of it but its tombstone.' },
  },
  audit: {
    actorType: { type: "'user' | 'agent' | 'webhook' | 'system'" },
    seq: { note: 'Place in the chain; null: written before there was one.' },
  },
  pullRequests: {
    state: { type: "'open' | 'merged' | 'closed' | 'presumed_closed'" },
    draft: { type: 'Flag' },
    fromFork: { type: 'Flag' },
    headRef: {
      note: 'The ref of the head in the base repository; null if only its branch has it.',
    },
    waitingFor: {
      type: "'approval' | 'environment_limit' | 'server_not_ready' | 'environment_removing'",
    },
    happenedAt: { note: "The host's time of the newest event that was applied." },
  },
  deliveries: {
    decidedAt: { note: 'Null until it is decided; such rows are the queue.' },
    signedWith: {
      type: "'current' | 'previous' | 'legacy' | 'none'",
      note: '`none` for rows that reconciling wrote, not a forge.',
    },
    results: { note: 'JSON: one entry per environment.' },
    headers: { note: 'JSON, without credentials.' },
    normalised: { note: 'JSON of the normalised event.' },
    body: { note: 'Compressed, base64; gone after its retention.' },
  },
  mails: {
    $: { note: 'The text is sealed: it may hold a one-use link.' },
    nextAt: { note: 'Null: sent or given up.' },
    leaseUntil: { note: 'A sender holds it until then.' },
  },
  noticeChannels: {
    kind: { type: 'ChannelKind' },
    target: { note: 'The host of the receiver, as it may be shown; null for e-mail.' },
    urlSealed: { note: 'The address of the receiver, which is a secret; null for e-mail.' },
    secretSealed: { note: 'Signs the requests to a webhook.' },
    previousSecretUntil: { note: 'The former secret signs too until then.' },
    recipients: { note: 'JSON array of addresses.' },
    refused: { note: 'Notices in a row that the receiver refused for good.' },
    brokenAt: { note: 'Nothing is sent since then.' },
  },
  noticeRules: {
    projectId: { note: 'Null: of every project, and of servers.' },
    environmentType: { type: 'NoticeEnvironment' },
    happenings: { note: 'JSON array of words.' },
  },
  notices: {
    $: {
      note: 'What was or will be sent: one row for each channel, of e-mail for each recipient.',
    },
    recipient: { note: 'Empty unless it is a mail.' },
    happening: { type: "Happening | 'test'" },
    messageId: { note: 'The same for every try and replay.' },
    body: { note: 'JSON of domain/notices/notice.ts Notice.' },
    complete: {
      type: 'Flag',
      note: 'Its body is what is sent; before, the log may still add to it.',
    },
    status: { type: 'NotificationStatus' },
    nextAt: { note: 'Null: it is over.' },
  },
  hostReports: {
    $: { note: 'Commit statuses and comments on their way to a repository host.' },
    subject: { note: 'What it is about at the host: a commit, a pull request.' },
    body: { note: 'JSON.' },
    externalId: { note: 'What the host calls it, once known.' },
  },
  alerts: {
    kind: { type: 'AlertKind' },
    subjectId: { note: 'The server, project or environment, by its kind.' },
    endedAt: { note: 'Null: it lasts.' },
  },
  accounts: {
    $: { note: 'How a user proves who they are; today always by password.' },
  },
  verifications: {
    $: {
      note: 'One-use links of password resets: the identifier is a hash, the value says for whom.',
    },
  },
  wrongTries: {
    since: { note: 'Of the last try that was counted; later ones do not prolong the lock.' },
  },
  invitations: {
    role: { type: 'Role' },
  },
  logins: {
    $: { note: 'A client that logged in as a user: the family of its tokens.' },
  },
  refreshTokens: {
    repeatedAt: { note: 'The one repetition a lost reply may have.' },
  },
  deviceLogins: {
    status: { type: "'pending' | 'approved' | 'denied' | 'spent'" },
  },
  auditHead: {
    seq: { note: "The newest row of the chain and its hash; 0 and '' before the first." },
    firstSeq: { note: 'The oldest row that is kept, and the hash that the one before it had.' },
    legacyId: { note: 'Rows up to here were written before there was a chain.' },
    mac: { note: 'Over all of the above: who edits the head without the key is noticed.' },
  },
  idempotencyKeys: {
    fingerprint: {
      note: 'Keyed hash of query, organization and body; the body itself is never stored.',
    },
    status: { note: 'Null: still running, or its reply was lost.' },
    effectAt: { note: 'When its first change was committed; the key is not free from then on.' },
    body: { note: 'Null with a status: not kept, because it showed a secret.' },
  },
  sshAuthorities: {
    kind: { type: "'user' | 'host'" },
    phase: { type: 'AuthorityPhase' },
    keySealed: { note: 'Null once it is retired, so that it never signs again.' },
  },
  sshAuthorityConfirmations: {
    $: { note: 'The agent said that it trusts this authority.' },
  },
  sshCertificates: {
    purpose: { type: 'SshPurpose' },
    permission: {
      type: 'Permission',
      note: 'The permission that its holder needs; a holder who loses it loses the certificate.',
    },
    can: { note: 'JSON array.' },
    account: { type: 'SshAccount' },
    address: { note: 'Where the request came from.' },
    sessionUntil: { note: 'The latest end of a session that it opened.' },
    signedAt: {
      note: 'Null if it was never signed, so that no client has it.',
    },
    revokedBy: { note: 'Null: the platform, because the access ended.' },
  },
  sshSessions: {
    $: { note: 'An open session, as the agent reported it; the row goes when it ends.' },
    sessionId: { note: 'Of the agent; unique with the certificate.' },
  },
  sshHostCertificates: {
    $: { note: 'The newest host certificate of each server.' },
  },
  organizationKeys: {
    organizationId: { note: "Null: the installation's own." },
    purpose: { type: "'data' | 'fingerprint'" },
    wrapped: { note: 'Sealed to this very row; opened in memory alone.' },
    retiredAt: { note: 'Still opens what it sealed; seals nothing new.' },
  },
  hosts: {
    $: { note: "A host name beside the environment's own domain." },
    fence: {
      note: "Of the attempt that claimed it, or the newest one when the name was the environment's domain.",
    },
  },
  schedules: {
    nextRunAt: { note: 'Null: it never runs, or its action is disabled.' },
    problem: { note: 'Why this control plane cannot follow it.' },
  },
  scheduleRuns: {
    outcome: { type: "'started' | 'skipped' | 'missed'" },
    runs: { note: 'From due_at to last_due_at, if they did not start for the same reason.' },
  },
  backups: {
    uuid: { note: "Its name on the server's disk and in the bucket." },
    place: { type: "'server' | 'bucket'" },
    location: { note: 's3://bucket/folder; empty: on the disk of the server.' },
    live: { type: 'Flag' },
    parts: { note: 'JSON of store/environments/backups.ts StoredPart[]; null: not complete.' },
    removedAt: { note: 'Retention ended it, or it went with its environment.' },
  },
  backupSettings: {
    place: { type: "'server' | 'bucket'" },
    keepDays: { note: 'Null: any age.' },
  },
  backupStorages: {
    recipient: { note: 'Public key of age; the secret one is in identity_sealed.' },
  },
  forgeConnections: {
    provider: { type: 'Provider' },
    apiUrl: { note: 'Base address of its API, without a trailing slash.' },
    account: { note: "Name of the token's account; empty: it has none." },
    error: { note: 'Why the token failed last.' },
  },
  forgeSetups: {
    $: { note: 'What Berth made in the repository of a connected project.' },
    repository: { note: 'Its path at the forge: acme/shop.' },
    keyId: { note: "The forge's id of the deploy key." },
    webhookId: { note: "The forge's id of the webhook." },
    checks: { note: 'JSON of domain/forges/setup.ts ForgeCheck[].' },
    broken: { type: 'Flag' },
    installDue: {
      type: 'Flag',
      note: 'Key, secret or repository changed: the forge must learn it.',
    },
  },
  forgeRemovals: {
    $: { note: 'Keys and webhooks that must be removed at a forge.' },
  },
  artifacts: {
    fileId: { note: "Its name in the agent's store, and in the SSH verb." },
    serverId: { note: 'Where the bytes are.' },
  },
  members: {
    role: { type: 'Role' },
  },
}
