// Answers that follow the contract: every sample is parsed by the shared schema, so a test cannot use a contract that
// does not exist.
import {
  Action,
  Backup,
  BackupSettings,
  BackupStorage,
  Environment,
  EnvironmentCreated,
  ForgeConnection,
  ForgeHostKey,
  ForgeRepository,
  JoinToken,
  LogLine,
  Me,
  Phase,
  Project,
  ProjectDetail,
  ProjectForge,
  Registry,
  ScheduledRun,
  Server,
  Step,
  Task,
} from '@berth/shared/api'

export const SHA = 'c136499ec574e1034b24c5d306de9acda3005367'
const AT = '2026-11-15T09:12:30Z'

export const me = (more: object = {}): Me =>
  Me.parse({
    id: 7,
    name: 'Ada Lovelace',
    email: 'ada@example.com',
    avatar_url: null,
    is_platform_admin: false,
    created_at: AT,
    token: {
      id: 90,
      kind: 'personal',
      name: 'ci',
      scopes: ['read', 'deploy'],
      organization_id: null,
      expires_at: '2036-12-15T08:00:00Z',
    },
    current_organization_id: null,
    organizations: [
      {
        id: 1,
        name: 'Acme',
        slug: 'acme',
        role: 'admin',
        permissions: ['read', 'deploy'],
        project_count: 4,
      },
    ],
    ...more,
  })

const serverRef = { id: 2, name: 'fra-1', hostname: 'fra-1.example.com' }

export const project = (more: object = {}): Project =>
  Project.parse({
    id: 12,
    name: 'shop',
    repo_url: 'git@github.com:acme/shop.git',
    domain: 'shop.example.com',
    environment_count: 2,
    servers: [serverRef],
    ...more,
  })

const NO_LIMITS = { memory_bytes: null, cpus: null, pids: null, disk_bytes: null }

export const projectDetail = (more: object = {}): ProjectDetail =>
  ProjectDetail.parse({
    ...project(),
    organization_id: 1,
    status: 'active',
    owner: { id: 7, name: 'Ada Lovelace' },
    default_recipe: 'docker',
    default_branch: 'main',
    default_server_id: 2,
    environment_limit: 20,
    pull_request_environments: true,
    pull_request_bases: ['**'],
    deploy_drafts: true,
    fork_pull_requests: 'approve',
    auto_deploy: true,
    watch_paths: [],
    skip_marker: false,
    comment_on_pull_requests: false,
    custom_domains: [],
    lost_after_seconds: 600,
    limits: NO_LIMITS,
    basic_auth: { mode: 'off', enabled: false, username: null },
    webhook: {
      url: 'https://deploy.example.com/webhooks/12',
      secret_source: 'project',
      secret_rotated_at: AT,
      previous_accepted_until: null,
      last_delivery_at: null,
      last_delivery_secret: null,
    },
    repo_public_key: 'ssh-ed25519 AAAAC3NzaTEST shop@deploy.example.com',
    repository: {
      provider: null,
      external_id: null,
      renamed_to: null,
      reachable: null,
      checked_at: null,
      error: null,
    },
    host_token: { set: false, checked_at: null, error: null },
    forge: { connected: false, status: 'not_connected', checked_at: null },
    created_at: AT,
    updated_at: AT,
    ...more,
  })

export const environment = (more: object = {}): Environment =>
  Environment.parse({
    id: 101,
    project_id: 12,
    identifier: 'pr-42',
    title: 'Checkout v2',
    type: 'pull_request',
    recipe: 'docker',
    recipe_inherited: true,
    branch: 'checkout-v2',
    branch_missing: false,
    pull_request: null,
    commit_sha: SHA,
    target_sha: SHA,
    pinned: false,
    url: 'https://pr-42.shop.example.com',
    domain: 'pr-42.shop.example.com',
    server: serverRef,
    owner: { id: 7, name: 'Ada Lovelace' },
    protected: false,
    sticky: false,
    auto_deploy: true,
    basic_auth: { mode: 'inherit', enabled: false, username: null },
    status: 'running',
    status_reason: null,
    stopped: null,
    locked: false,
    locked_by: null,
    variables_changed: false,
    services: [
      {
        name: 'web',
        url: 'https://pr-42.shop.example.com',
        status: 'running',
        replicas: null,
        restarts: 0,
        image: null,
      },
    ],
    last_task: { id: 812, status: 'succeeded', finished_at: '2026-11-15T09:14:06Z' },
    deployed: {
      task_id: 812,
      commit_sha: 'c136499ec574e1034b24c5d306de9acda3005367',
      at: '2026-11-15T09:14:06Z',
    },
    may: ['deploy'],
    created_at: AT,
    updated_at: AT,
    ...more,
  })

export const environmentCreated = (more: object = {}): Environment & { task: Task | null } =>
  EnvironmentCreated.parse({ ...environment(), task: null, ...more })

export const step = (name: string, status: string, more: object = {}): Step =>
  Step.parse({
    name,
    title: name,
    status,
    message: null,
    started_at: AT,
    duration_ms: status === 'running' || status === 'pending' ? null : 1_800,
    first_line: null,
    last_line: null,
    exit_code: null,
    ...more,
  })

export const phase = (name: string, status: string, more: object = {}): Phase =>
  Phase.parse({
    name,
    title: name === 'checkout' ? 'Check out' : name[0]?.toUpperCase() + name.slice(1),
    status,
    started_at: status === 'pending' ? null : AT,
    duration_ms: status === 'running' || status === 'pending' ? null : 1_800,
    steps: [],
    ...more,
  })

export const task = (status: string, more: object = {}): Task =>
  Task.parse({
    id: 813,
    environment_id: 101,
    project_id: 12,
    type: 'deploy',
    reset: false,
    status,
    trigger: 'cli',
    triggered_by: { id: 7, name: 'Ada Lovelace' },
    delivery_id: null,
    message: null,
    branch: 'checkout-v2',
    commit_sha: SHA,
    commit_message: 'Fix totals',
    commit_author: 'Grace Hopper',
    recipe: 'docker',
    action: null,
    service: null,
    waiting_for: null,
    cancel_requested_at: null,
    cancel_reason: null,
    canceled_by: null,
    superseded_by: null,
    failure: null,
    warnings: [],
    unreachable_since: null,
    late_outcome: null,
    created_at: AT,
    started_at: status === 'queued' ? null : AT,
    live_at: null,
    finished_at: status === 'queued' || status === 'running' ? null : '2026-11-15T09:13:48Z',
    duration_ms: status === 'queued' || status === 'running' ? null : 78_000,
    url: 'https://deploy.example.com/tasks/813',
    log_url: 'https://deploy.example.com/api/tasks/813/log',
    log_lines: 2,
    log_complete: status !== 'queued' && status !== 'running',
    phases: [phase('checkout', status === 'queued' ? 'pending' : 'succeeded')],
    ...more,
  })

export const scheduledRun = (more: object = {}): ScheduledRun =>
  ScheduledRun.parse({
    outcome: 'started',
    reason: null,
    due_at: AT,
    last_due_at: AT,
    runs: 1,
    task_id: 830,
    task_status: 'succeeded',
    ...more,
  })

export const action = (name: string, more: object = {}): Action =>
  Action.parse({
    name,
    title: name,
    description: null,
    service: 'web',
    confirm: null,
    timeout_seconds: 600,
    artifact_paths: [],
    enabled: true,
    disabled_reason: null,
    synced_at: AT,
    ...more,
  })

export const buildFailure = {
  code: 'build_failed',
  phase: 'build',
  step: 'build:web',
  step_title: 'Build image web',
  message: '`RUN npm run build` exited with 1.',
  exit_code: 1,
  line: 396,
  is_platform_check: false,
}

export const failedTask = (more: object = {}): Task =>
  task('failed', {
    failure: buildFailure,
    log_lines: 397,
    phases: [
      phase('checkout', 'succeeded'),
      phase('build', 'failed', {
        duration_ms: 29_900,
        steps: [
          step('build:web', 'failed', {
            title: 'Build image web',
            first_line: 24,
            last_line: 397,
            exit_code: 1,
          }),
        ],
      }),
    ],
    ...more,
  })

export const server = (more: object = {}): Server =>
  Server.parse({
    ...serverRef,
    organization_id: 1,
    status: 'online',
    paused: false,
    agent_version: '1.15.0',
    agent_outdated: false,
    ssh_port: 22,
    shell_enabled: false,
    last_seen_at: AT,
    joined_at: AT,
    recipes: ['docker', 'manual'],
    facts: {
      os: 'Debian 13',
      arch: 'x64',
      cpus: 4,
      memory_bytes: 8_000_000_000,
      disk_bytes: 100_000_000_000,
      disk_free_bytes: 60_000_000_000,
      docker_version: '28.2',
    },
    parts: [],
    limits: NO_LIMITS,
    default_limits: null,
    environment_count: 3,
    shared_with: [{ id: 7, name: 'Guests', slug: 'guests' }],
    created_at: AT,
    ...more,
  })

export const forgeHostKey = (more: object = {}) =>
  ForgeHostKey.parse({
    host: '[git.example.com]:2222',
    trust: 'first_use',
    trusted_at: null,
    known: [{ type: 'ssh-ed25519', fingerprint: `SHA256:${'A'.repeat(43)}` }],
    offered: [{ type: 'ssh-ed25519', fingerprint: `SHA256:${'B'.repeat(43)}` }],
    changed: true,
    error: null,
    ...more,
  })

export const forgeConnection = (more: object = {}) =>
  ForgeConnection.parse({
    id: 3,
    organization_id: 1,
    provider: 'gitea',
    api_url: 'https://git.example.com/api/v1',
    account: 'berth-bot',
    project_count: 1,
    created_at: AT,
    created_by: { id: 1, name: 'Ada Lovelace' },
    checked_at: AT,
    error: null,
    ...more,
  })

export const projectForge = (more: object = {}) =>
  ProjectForge.parse({
    connected: true,
    connection: forgeConnection(),
    repository: 'acme/shop',
    status: 'ok',
    checked_at: AT,
    next_check_at: AT,
    checks: [
      { name: 'webhook', status: 'ok', message: 'The webhook sends pushes.', permission: null },
    ],
    ...more,
  })

export const forgeRepository = (more: object = {}) =>
  ForgeRepository.parse({
    full_name: 'acme/shop',
    description: 'The web shop',
    private: true,
    archived: false,
    default_branch: 'main',
    web_url: 'https://git.example.com/acme/shop',
    ssh_url: 'git@git.example.com:acme/shop.git',
    https_url: 'https://git.example.com/acme/shop.git',
    can_admin: true,
    updated_at: AT,
    project_ids: [12],
    ...more,
  })

export const registry = (more: object = {}) =>
  Registry.parse({
    host: 'ghcr.io',
    username: 'ada',
    from: 'project',
    updated_at: AT,
    updated_by: { id: 1, name: 'Ada Lovelace' },
    ...more,
  })

export const rollout = (more: object = {}) => ({
  id: 3,
  organization_id: 1,
  version: '1.16.0',
  state: 'running',
  reason: null,
  wave: 1,
  servers: { waiting: 0, offered: 1, kept: 0, failed: 0, skipped: 0 },
  started_at: '2026-11-14T08:00:00Z',
  finished_at: null,
  ...more,
})

export const joinToken = (more: object = {}) =>
  JoinToken.parse({
    token: 'berth_join_TEST',
    expires_at: '2036-11-15T09:27:30Z',
    command:
      'curl -fsSLO https://deploy.example.com/install.sh && sh install.sh --token berth_join_TEST',
    ...more,
  })

/** A piece of a log; a whole line ends with its line ending. */
export const logRecord = (n: number, text: string): string =>
  JSON.stringify(LogLine.parse({ n, t: AT, s: 'out', phase: 'build', step: 'build:web', text }))

export const logLine = (n: number, text: string): string => logRecord(n, `${text}\n`)

export const backup = (more: object = {}): Backup =>
  Backup.parse({
    id: 12,
    uuid: '0b6f2c1e-5d7a-4e0b-9c51-7f3a2d8e6b40',
    project_id: 12,
    environment_id: 101,
    environment: 'pr-42',
    server_id: 2,
    task_id: 813,
    status: 'complete',
    place: 'server',
    location: null,
    live: false,
    recipe: 'docker',
    commit_sha: SHA,
    triggered_by: { id: 7, name: 'Ada Lovelace' },
    size_bytes: 2_048,
    content_bytes: 8_192,
    parts: [
      {
        file: 'volume-data.tar.gz',
        kind: 'volume',
        name: 'data',
        size_bytes: 2_048,
        content_bytes: 8_192,
        sha256: '0'.repeat(64),
      },
    ],
    created_at: AT,
    completed_at: AT,
    ...more,
  })

export const backupSettings = (more: object = {}): BackupSettings =>
  BackupSettings.parse({
    schedule: {
      cron: '0 3 * * *',
      timezone: 'UTC',
      next_run_at: AT,
      paused_reason: null,
      last_run: null,
    },
    keep_count: 7,
    keep_days: 30,
    place: 'server',
    ...more,
  })

export const backupStorage = (): BackupStorage =>
  BackupStorage.parse({
    endpoint: 'https://s3.example.com',
    region: 'us-east-1',
    bucket: 'backups',
    prefix: 'berth',
    access_key_id: 'AKIA1',
    recipient: 'age1abc',
    updated_at: AT,
    updated_by: { id: 7, name: 'Ada Lovelace' },
  })
