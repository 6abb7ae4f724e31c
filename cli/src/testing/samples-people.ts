// More answers that follow the contract: people, tokens, pull requests, deliveries, certificates. See samples.ts.
import {
  Delivery,
  Invitation,
  LiveSshAccess,
  Member,
  OrganizationDetail,
  ProjectVariable,
  ProjectVariablesPatched,
  PullRequest,
  RepositoryCheck,
  SshCertificate,
  Token,
  TokenCreated,
  Variable,
  VariableChange,
  VariablesPatched,
} from '@berth/shared/api'
import { SHA } from './samples.ts'

const AT = '2026-11-15T09:12:30Z'
const ada = { id: 7, name: 'Ada Lovelace' }

export const organization = (more: object = {}): OrganizationDetail =>
  OrganizationDetail.parse({
    id: 1,
    name: 'Acme',
    slug: 'acme',
    role: 'admin',
    permissions: ['read', 'deploy'],
    project_count: 4,
    member_count: 2,
    server_count: 1,
    created_at: AT,
    ...more,
  })

export const member = (more: object = {}): Member =>
  Member.parse({
    user: { ...ada, email: 'ada@example.com' },
    role: 'admin',
    joined_at: AT,
    last_active_at: AT,
    ...more,
  })

export const invitation = (more: object = {}): Invitation =>
  Invitation.parse({
    id: 31,
    email: 'grace@example.com',
    role: 'developer',
    invited_by: ada,
    created_at: AT,
    expires_at: '2036-11-22T09:12:30Z',
    status: 'pending',
    ...more,
  })

export const token = (more: object = {}): Token =>
  Token.parse({
    id: 17,
    kind: 'personal',
    name: 'ci',
    hint: 'x9Qz',
    scopes: ['read', 'deploy'],
    organization_id: null,
    created_at: AT,
    last_used_at: null,
    last_used_address: null,
    expires_at: '2036-11-15T09:12:30Z',
    ...more,
  })

export const tokenCreated = () => TokenCreated.parse({ ...token(), token: 'berth_pat_NEW' })

export const pullRequest = (more: object = {}): PullRequest =>
  PullRequest.parse({
    project_id: 12,
    number: 51,
    title: 'Add coupon',
    url: 'https://github.com/acme/shop/pull/51',
    author: 'mallory',
    state: 'open',
    draft: false,
    head_branch: 'coupon',
    base_branch: 'main',
    from_fork: true,
    head_sha: SHA,
    approved_sha: null,
    approved_by: null,
    environment_id: null,
    waiting_for: 'approval',
    waiting_since: AT,
    position: null,
    updated_at: AT,
    ...more,
  })

export const delivery = (more: object = {}): Delivery =>
  Delivery.parse({
    id: 5521,
    project_id: 12,
    provider: 'github',
    delivery_id: 'f5e5f430',
    event: 'pull_request.updated',
    received_at: AT,
    actor: 'ada',
    branch: 'checkout-v2',
    pull_request_number: 42,
    sha: SHA,
    signed_with: 'current',
    outcome: 'queued',
    rule: 'redeployed',
    reason: 'pr-42 is redeployed.',
    results: [],
    task_ids: [812],
    replay_of: null,
    tries: 1,
    response_status: 202,
    error: null,
    ...more,
  })

export const repositoryCheck = (more: object = {}): RepositoryCheck =>
  RepositoryCheck.parse({
    reachable: true,
    default_branch: 'main',
    branch_count: 3,
    service_file: { found: true, recipes: ['docker'], errors: [] },
    error: null,
    ...more,
  })

export const variable = (key: string): Variable =>
  Variable.parse({
    key,
    level: 'environment',
    shadows: ['project'],
    updated_at: AT,
    updated_by: ada,
    changed_since_deployment: true,
  })

export const projectVariable = (key: string): ProjectVariable =>
  ProjectVariable.parse({
    key,
    level: 'previews',
    forks: true,
    shadowed_by: [{ level: 'environment', environment: { id: 101, identifier: 'pr-42' } }],
    updated_at: AT,
    updated_by: ada,
  })

export const variableChange = (): VariableChange =>
  VariableChange.parse({
    id: 9,
    at: AT,
    by: { type: 'user', name: 'Ada Lovelace' },
    level: 'previews',
    environment: null,
    set: ['APP_KEY'],
    unset: ['OLD'],
    forks_on: ['APP_KEY'],
    forks_off: [],
  })

export const patched = (more: object = {}): VariablesPatched =>
  VariablesPatched.parse({
    set: ['APP_KEY'],
    unset: [],
    unchanged: [],
    missing: [],
    keys: ['APP_KEY'],
    variables_changed: true,
    hint: 'Variables changed since the last deployment',
    ...more,
  })

export const levelPatched = (more: object = {}): ProjectVariablesPatched =>
  ProjectVariablesPatched.parse({
    ...patched(),
    level: 'previews',
    forks: ['APP_KEY'],
    environments: [{ id: 101, identifier: 'pr-42', keys: ['APP_KEY'] }],
    ...more,
  })

export const certificate = (more: object = {}): SshCertificate =>
  SshCertificate.parse({
    certificate: 'ssh-ed25519-cert-v01@openssh.com AAAATEST',
    serial: '4711204938812345',
    key_id: 'user=7;env=101;server=2;jti=4711204938812345',
    principals: ['berth:server:2'],
    grant: { environment_id: 101, can: ['logs'] },
    extensions: ['grant@berth.dev'],
    valid_after: AT,
    valid_before: '2026-11-15T10:05:00Z',
    server: { id: 2, name: 'fra-1', hostname: 'fra-1.example.com' },
    host: 'fra-1.example.com',
    port: 22,
    user: 'berth-ssh',
    host_alias: 'server-2.berth.internal',
    host_ca: ['ssh-ed25519 AAAATEST'],
    ...more,
  })

export const liveAccess = (more: object = {}): LiveSshAccess =>
  LiveSshAccess.parse({
    ...certificate(),
    status: 'active',
    purpose: 'forward',
    grant: { environment_id: 101, can: ['forward'] },
    holder: ada,
    key_type: 'ssh-ed25519',
    fingerprint: `SHA256:${'A'.repeat(43)}`,
    address: '192.0.2.7',
    issued_at: AT,
    session_until: '2036-11-15T10:05:00Z',
    revoked_at: null,
    revoked_by: null,
    revoke_reason: null,
    environment: 'pr-42',
    sessions: [{ verb: 'forward db:5432', started_at: AT }],
    ...more,
  })
