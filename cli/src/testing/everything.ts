// A peer that answers every request the client can send, for tests that go through all commands.
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Artifact, Diagnostics, EnvironmentMetrics } from '@berth/shared/api'
import { temporaryFolder } from './berth.ts'
import { startInstallation } from './installation.ts'
import type { Peer } from './peer.ts'
import {
  action,
  backup,
  backupSettings,
  backupStorage,
  environment,
  environmentCreated,
  failedTask,
  forgeConnection,
  forgeHostKey,
  forgeRepository,
  joinToken,
  logLine,
  projectDetail,
  projectForge,
  registry,
  rollout,
  scheduledRun,
  server,
  task,
} from './samples.ts'
import {
  channel,
  channelMade,
  notification,
  publicEvent,
  taskDiagnostics,
} from './samples-notices.ts'
import {
  certificate,
  delivery,
  invitation,
  levelPatched,
  liveAccess,
  member,
  organization,
  patched,
  projectVariable,
  pullRequest,
  repositoryCheck,
  token,
  tokenCreated,
  variable,
  variableChange,
} from './samples-people.ts'

const NDJSON = { 'content-type': 'application/x-ndjson' }
const AT = '2026-11-15T09:12:30Z'

function scriptEnvironment(peer: Peer): void {
  const path = '/api/environments/101'
  peer.script(`GET ${path}/tasks`, { json: [task('succeeded'), failedTask({ id: 809 })] })
  peer.script(`POST ${path}/tasks`, { status: 201, json: task('queued') })
  peer.script('GET /api/projects/12/tasks', { json: [task('succeeded')] })
  peer.script('GET /api/tasks/813', { json: task('succeeded') })
  const earlier = { id: 805, commit_sha: `0a1b2c3${'0'.repeat(33)}` }
  peer.script('GET /api/tasks/805', { json: task('succeeded', earlier) })
  peer.script('POST /api/tasks/813/cancel', { status: 202, json: task('running') })
  peer.script('GET /api/tasks/813/log', {
    text: `${logLine(1, 'hello')}\n${logLine(2, 'there')}\n`,
    headers: NDJSON,
  })
  peer.script(`GET ${path}/actions`, { json: [action('seed')] })
  peer.script(`GET ${path}/actions/seed/runs`, { json: [scheduledRun()] })
  const started = task('queued', { id: 830, type: 'action', action: 'seed' })
  peer.script(`POST ${path}/actions/seed/tasks`, { status: 201, json: started })
  peer.script('GET /api/tasks/830', { json: { ...started, status: 'succeeded' } })
  peer.script('GET /api/tasks/830/artifacts', { json: [ARTIFACT] })
  peer.script('GET /api/artifacts/3301/content', {
    text: 'hello\n',
    headers: {
      'content-length': '6',
      'repr-digest': `sha-256=:${Buffer.from(ARTIFACT.sha256, 'hex').toString('base64')}:`,
    },
  })
  const made = task('queued', { type: 'backup' })
  peer.script(`GET ${path}/backups`, { json: [backup()] })
  peer.script(`POST ${path}/backups`, { status: 201, json: made })
  peer.script('GET /api/projects/12/backups', { json: [backup()] })
  peer.script('GET /api/backups/12', { json: backup() })
  const restoring = task('queued', { type: 'restore' })
  peer.script('POST /api/backups/12/restore', { status: 201, json: restoring })
  peer.script(`GET ${path}/backup-settings`, { json: backupSettings() })
  peer.script(`PATCH ${path}/backup-settings`, { json: backupSettings() })
  peer.script(`GET ${path}/backup-runs`, { json: [scheduledRun()] })
  const storage = '/api/organizations/1/backup-storage'
  peer.script(`GET ${storage}`, { json: backupStorage() })
  peer.script(`PUT ${storage}`, { json: backupStorage() })
  peer.script(`DELETE ${storage}`, { status: 204, text: '' })
  for (const type of ['restart', 'stop', 'start']) {
    peer.script(`POST ${path}/${type}`, { status: 201, json: task('queued', { type }) })
  }
  peer.script(`GET ${path}/variables`, { json: [variable('APP_KEY')] })
  peer.script(`PATCH ${path}/variables`, { json: patched() })
  peer.script(`GET ${path}/variables/history`, { json: [variableChange()] })
  peer.script('GET /api/projects/12/variables', { json: [projectVariable('APP_KEY')] })
  peer.script('PATCH /api/projects/12/variables', { json: levelPatched() })
  peer.script('GET /api/projects/12/variables/history', { json: [variableChange()] })
  peer.script(`PATCH ${path}`, { json: environment() })
  peer.script(`DELETE ${path}`, { status: 202, json: task('queued', { type: 'destroy' }) })
  peer.script(`POST ${path}/reset`, { status: 201, json: task('queued', { reset: true }) })
  const nothing = Diagnostics.parse({
    environment_id: 101,
    status: 'none',
    task: null,
    failure: null,
    output: null,
    output_first_line: null,
    output_last_line: null,
    output_truncated: false,
    output_complete: true,
    hints: [],
    since_last_success: null,
    log_url: null,
    web_url: null,
    superseded_by: null,
  })
  peer.script(`GET ${path}/diagnostics`, { json: nothing })
  peer.script(`GET ${path}/metrics`, { json: METRICS })
  peer.script(`PUT ${path}/watch`, { json: { watching: true } })
}

const METRICS = EnvironmentMetrics.parse({
  range: 'hour',
  step_seconds: 60,
  latest: {
    at: '2026-11-15T09:14:00Z',
    cpu_percent: 3.5,
    memory_bytes: 268_435_456,
    services: [{ name: 'web', cpu_percent: 3.5, memory_bytes: 268_435_456 }],
  },
  totals: {
    requests: 1_204,
    status_2xx: 1_180,
    status_3xx: 12,
    status_4xx: 10,
    status_5xx: 2,
    p50_ms: 18,
    p95_ms: 140,
  },
  points: [],
})

/** 'hello\n', as an action left it. */
const ARTIFACT = Artifact.parse({
  id: 3301,
  file_id: '0b6f2c1e-5d7a-4e0b-9c51-7f3a2d8e6b40',
  task_id: 830,
  path: 'exports/orders.csv',
  name: 'orders.csv',
  size_bytes: 6,
  sha256: '5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03',
  collected_at: AT,
  expires_at: '2036-11-22T10:02:00Z',
  url: 'https://deploy.example.com/api/artifacts/3301/content',
})

function scriptSetUp(peer: Peer): void {
  peer.script('POST /api/projects', { status: 201, json: projectDetail() })
  peer.script('PATCH /api/projects/12', { json: projectDetail() })
  peer.script('DELETE /api/projects/12', { status: 202, json: projectDetail() })
  const created = environmentCreated({ identifier: 'demo' })
  peer.script('POST /api/projects/12/environments', { status: 201, json: created })
  const waits = pullRequest()
  peer.script('GET /api/projects/12/pull_requests', { json: [waits] })
  const approved = { ...waits, waiting_for: null, task: task('queued') }
  peer.script('POST /api/projects/12/pull_requests/51/approve', { json: approved })
  peer.script('GET /api/projects/12/deliveries', { json: [delivery()] })
  peer.script('GET /api/projects/12/refused_deliveries', { json: [] })
  peer.script('POST /api/projects/12/repository_check', { json: repositoryCheck() })
  const secret = { secret: 'whsec_NEW', previous_accepted_until: null }
  peer.script('GET /api/projects/12/host_key', { json: forgeHostKey() })
  peer.script('POST /api/projects/12/host_key', { json: forgeHostKey({ trust: 'trusted' }) })
  peer.script('GET /api/projects/12/forge', { json: projectForge() })
  peer.script('PUT /api/projects/12/forge', { json: projectForge() })
  peer.script('DELETE /api/projects/12/forge', {
    json: { removed: ['webhook', 'deploy_key'], left: [] },
  })
  peer.script('GET /api/organizations/1/forges', { json: [forgeConnection()] })
  peer.script('GET /api/forges/3/repositories', { json: [forgeRepository()] })
  peer.script('GET /api/projects/12/registries', { json: [registry()] })
  peer.script('PUT /api/projects/12/registries/ghcr.io', { json: registry() })
  peer.script('DELETE /api/projects/12/registries/ghcr.io', { status: 204 })
  peer.script('PUT /api/organizations/1/registries/ghcr.io', {
    json: registry({ from: 'organization' }),
  })
  const channels = '/api/organizations/1/channels'
  peer.script(`GET ${channels}`, { json: [channel()] })
  peer.script(`POST ${channels}`, { status: 201, json: channelMade() })
  peer.script('PATCH /api/channels/4', { json: channel() })
  peer.script('DELETE /api/channels/4', { status: 204 })
  peer.script('POST /api/channels/4/test', { json: [notification({ happening: 'test' })] })
  peer.script('POST /api/channels/4/rotate_secret', {
    json: channelMade({ secret: 'whsec_AAAA', previous_secret_until: '2026-11-16T09:12:30Z' }),
  })
  peer.script('GET /api/channels/4/notifications', { json: [notification()] })
  peer.script('POST /api/notifications/41/replay', {
    status: 202,
    json: notification({ id: 42, status: 'waiting', replay_of: 41 }),
  })
  peer.script('GET /api/events', {
    json: [publicEvent()],
    headers: { 'berth-last-event-id': '8231' },
  })
  peer.script('GET /api/tasks/813/diagnostics', { json: taskDiagnostics() })
  peer.script('POST /api/projects/12/webhook_secret', { status: 201, json: secret })
  peer.script('POST /api/deliveries/5521/redeliver', { status: 202, json: delivery({ id: 5522 }) })
  peer.script('POST /api/servers', { status: 201, json: server({ status: 'pending' }) })
  peer.script('POST /api/servers/2/join_token', { status: 201, json: joinToken() })
  peer.script('POST /api/servers/2/upgrade', { status: 202, json: rollout() })
  peer.script('PATCH /api/servers/2', { json: server() })
  peer.script('POST /api/servers/2/shares', { json: server() })
  peer.script('DELETE /api/servers/2/shares/7', { json: server({ shared_with: [] }) })
  peer.script('DELETE /api/servers/2', { status: 204 })
  peer.script('POST /api/servers/2/ssh', { status: 201, json: certificate() })
  const logs = { text: `\n${JSON.stringify(RECORD)}\n`, headers: NDJSON }
  peer.script('GET /api/environments/101/service_logs', logs)
  const requests = [REQUEST, PAGE].map((record) => `${JSON.stringify(record)}\n`).join('')
  peer.script('GET /api/environments/101/log_lines', { text: requests, headers: NDJSON })
  peer.script('GET /api/ssh/sessions', { json: [liveAccess()] })
  const { serial } = liveAccess()
  peer.script(`DELETE /api/servers/2/ssh/${serial}`, { status: 202, json: liveAccess() })
}

const REQUEST = {
  t: AT,
  method: 'GET',
  host: 'pr-42.shop.example.com',
  path: '/cart',
  status: 200,
  duration_ms: 12.4,
  size: 5120,
  client: '203.0.113.7',
  service: 'web',
}
const PAGE = { kind: 'page', older: null, newer: 'x', is_last: true, searched_to: null }
const RECORD = { t: AT, s: 'out', service: 'web', task: 7, text: 'GET /cart 200' }

function scriptPeople(peer: Peer): void {
  peer.script('GET /api/organizations', { json: [organization()] })
  peer.script('GET /api/organizations/1/members', { json: [member()] })
  peer.script('POST /api/organizations/1/invitations', { status: 201, json: invitation() })
  peer.script('POST /api/organizations', { status: 201, json: organization() })
  peer.script('PATCH /api/organizations/1', { json: organization() })
  peer.script('DELETE /api/organizations/1', { status: 204 })
  peer.script('PATCH /api/organizations/1/members/7', { json: member() })
  peer.script('DELETE /api/organizations/1/members/7', { status: 204 })
  peer.script('GET /api/organizations/1/invitations', { json: [invitation()] })
  peer.script('DELETE /api/organizations/1/invitations/31', { status: 204 })
  peer.script('GET /api/tokens', { json: [token()] })
  peer.script('POST /api/tokens', { status: 201, json: tokenCreated() })
  peer.script('DELETE /api/tokens/17', { status: 204 })
}

/** In place of ssh: one record for `logs`; FAKE_SSH sets its exit code. */
const FAKE_SSH = `#!/bin/sh
for last; do :; done
[ -n "$FAKE_SSH" ] && { echo 'berth: no' >&2; exit "$FAKE_SSH"; }
case "$*" in
  *' logs '*) echo '${JSON.stringify(RECORD)}' ;;
  *' forward '*) echo ready >&2; echo 'berth: Your access was ended.' >&2; exit 77 ;;
  *' copy '*' from '*) cd "\${TMPDIR}" && tar -cf - ./key.pub ;;
  *' copy '*) cat >/dev/null ;;
  *' artifacts '*) read -r ids; echo "size=6 sha256=$FAKE_SHA"; echo hello ;;
  *' artifact '*) echo "size=6 sha256=$FAKE_SHA" >&2; echo hello ;;
esac
`

const SERVICE_FILE = `# yaml-language-server: $schema=https://deploy.example.com/schemas/service.v1.json
docker:
  services:
    web:
      build: .
      port: 3000
`

export interface Everything {
  peer: Peer
  env: Record<string, string>
  /** Holds a key.pub and a vars file; commands run in it. */
  folder: string
}

export async function startEverything(): Promise<Everything> {
  const { peer, env } = await startInstallation()
  scriptEnvironment(peer)
  scriptSetUp(peer)
  scriptPeople(peer)
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'ssh'), FAKE_SSH)
  chmodSync(join(folder, 'ssh'), 0o755)
  writeFileSync(join(folder, 'key.pub'), 'ssh-ed25519 AAAATEST ada\n')
  writeFileSync(join(folder, 'vars'), 'APP_KEY=s3cret\n')
  writeFileSync(join(folder, '.service.yml'), SERVICE_FILE)
  // as small as git takes it
  for (const name of ['objects', 'refs/heads']) {
    mkdirSync(join(folder, '.git', name), { recursive: true })
  }
  writeFileSync(join(folder, '.git/HEAD'), 'ref: refs/heads/checkout-v2\n')
  const PATH = `${folder}:${process.env.PATH}`
  return {
    peer,
    env: { ...env, PATH, TMPDIR: folder, BERTH_POLL_MS: '1', FAKE_SHA: ARTIFACT.sha256 },
    folder,
  }
}
