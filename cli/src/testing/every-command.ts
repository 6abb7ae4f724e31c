// What every command prints and returns, for every.test.ts.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

import type { Row } from './command-row.ts'
import { ACCESS_ROWS } from './every-access-command.ts'
import { NOTICE_ROWS } from './every-notice-command.ts'
import { VARIABLE_ROWS } from './every-variable-command.ts'
import { type Peer, problem } from './peer.ts'
import { failedTask, SHA, task } from './samples.ts'

const HERE = ['-p', 'shop', '-e', 'pr-42']
const SHOP = ['-p', 'shop']
const REPO = ['--repo', 'git@github.com:acme/shop.git']
const STORAGE = [
  ...['--endpoint', 'https://s3.example.com', '--bucket', 'backups', '--prefix', 'berth'],
  ...['--access-key-id', 'AKIA1'],
]
const TASKS = '/api/environments/101/tasks'
const fails = (peer: Peer) => peer.script('GET /api/tasks/813', { json: failedTask({ id: 813 }) })
const runs = (peer: Peer) => peer.script('GET /api/tasks/813', { json: task('running') })
const LOG = { pipe: /^hello\nthere\n$/, shown: /hello/ }
const noLog = (peer: Peer) =>
  peer.script('GET /api/tasks/813/log', problem('log_expired', 'Its log is not kept any longer.'))

export const ROWS: Record<string, Row> = {
  ...ACCESS_ROWS,
  ...NOTICE_ROWS,
  ...VARIABLE_ROWS,
  login: {
    args: ['--with-token'],
    pipe: /^$/,
    shown: /Logged in to .* as Ada Lovelace/,
    exits: [[2, ['--with-token', '--scope', 'admin']]],
  },
  logout: { pipe: /^$/, shown: /Nothing to do: not logged in/, offline: true },
  whoami: {
    pipe: /^7\tAda Lovelace\tada@example\.com\t/,
    shown: /Ada Lovelace <ada@example.com> {2}at/,
  },
  up: {
    args: [...HERE, ...REPO],
    pipe: /^https:\/\/pr-42\.shop\.example\.com\n$/,
    shown: /Repository +git@github\.com:acme\/shop\.git +\(named by --repo/,
    changes: `POST ${TASKS}`,
    exits: [
      [0, [...HERE, ...REPO, '--dry-run']],
      [3, [...HERE, ...REPO], fails],
      [7, [...HERE, ...REPO, '--timeout', '1s'], runs],
      [2, [...HERE, ...REPO, '--recipe', 'manual']], // the file has no such section
      [6, ['-p', 'shop', '--repo', 'https://git.example.com/other.git']],
    ],
  },
  'context list': {
    pipe: /^$/,
    shown: /Not logged in anywhere/,
    offline: true,
  },
  'context use': {
    args: ['deploy.example.com'],
    pipe: /^$/,
    shown: /no context 'deploy\.example\.com'/,
    offline: true,
  },
  'context remove': {
    args: ['deploy.example.com'],
    pipe: /^$/,
    shown: /no context 'deploy\.example\.com'/,
    offline: true,
  },
  deploy: {
    args: HERE,
    pipe: new RegExp(`^813\tqueued\tshop\tpr-42\t${SHA}\t-\n$`),
    shown: /Task 813 {2}shop \/ pr-42/,
    changes: `POST ${TASKS}`,
    exits: [
      [0, [...HERE, '--wait']],
      [3, [...HERE, '--wait'], fails],
      [7, [...HERE, '--wait', '--timeout', '1s'], runs],
      [1, HERE, (peer) => peer.script(`POST ${TASKS}`, { status: 500, text: 'no' })],
    ],
  },
  rollback: {
    args: [...HERE, '805'],
    pipe: new RegExp(`^813\tqueued\tshop\tpr-42\t${SHA}\t-\n$`),
    shown: /Rolling back to 0a1b2c3 of deployment 805/,
    changes: `POST ${TASKS}`,
    exits: [
      [0, [...HERE, '805', '--wait']],
      [3, [...HERE, '805', '--wait'], fails],
      [2, [...HERE, 'v1']],
      [6, HERE], // no other commit was deployed
      [6, [...HERE, '813'], fails],
    ],
  },
  restart: {
    args: HERE,
    pipe: new RegExp(`^813\tqueued\tshop\tpr-42\t${SHA}\t-\n$`),
    shown: /restart of checkout-v2/,
    changes: 'POST /api/environments/101/restart',
    exits: [
      [0, [...HERE, '--wait']],
      [3, [...HERE, '--wait'], fails],
      [2, [...HERE, '--timeout', '1s']],
    ],
  },
  stop: {
    args: HERE,
    pipe: new RegExp(`^813\tqueued\tshop\tpr-42\t${SHA}\t-\n$`),
    shown: /stop of checkout-v2/,
    changes: 'POST /api/environments/101/stop',
  },
  start: {
    args: HERE,
    pipe: new RegExp(`^813\tqueued\tshop\tpr-42\t${SHA}\t-\n$`),
    shown: /start of checkout-v2/,
    changes: 'POST /api/environments/101/start',
  },
  'backup create': {
    args: HERE,
    pipe: new RegExp(`^813\tqueued\tshop\tpr-42\t${SHA}\t-\n$`),
    shown: /backup of checkout-v2/,
    changes: 'POST /api/environments/101/backups',
    exits: [
      [0, [...HERE, '--wait', '--live', '--to', 'server']],
      [3, [...HERE, '--wait'], fails],
    ],
  },
  'backup list': {
    args: HERE,
    pipe: /^12\tpr-42\tcomplete\t2026-11-15T09:12:30Z\t2048\tdata\tserver\t813\n$/,
    shown: /ID .*\n.*pr-42 .*2\.0 kB.* data /,
    exits: [[0, [...SHOP, '--all']]],
  },
  'backup restore': {
    args: ['12', '--yes'],
    pipe: new RegExp(`^813\tqueued\tshop\tpr-42\t${SHA}\t-\n$`),
    shown: /restore of checkout-v2/,
    changes: 'POST /api/backups/12/restore',
    exits: [
      [0, ['12', ...HERE, '--confirm', 'pr-42', '--wait']],
      [2, ['12']],
      [2, ['newest', '--yes']],
    ],
  },
  'backup settings': {
    args: [...HERE, '--schedule', '0 3 * * *', '--keep', '7', '--keep-days', '30'],
    pipe: /^0 3 \* \* \* \(UTC\)\t7\t30\tserver\n$/,
    shown: /Keep {6}7 backups, none older than 30 days/,
    changes: 'PATCH /api/environments/101/backup-settings',
    exits: [
      [0, HERE],
      [2, [...HERE, '--keep', 'all']],
      [2, [...HERE, '--timezone', 'UTC']],
    ],
  },
  'backup history': { args: HERE, pipe: /\t/, shown: /DUE .*\n/ },
  'backup storage': {
    pipe: /^s3:\/\/backups\/berth\thttps:\/\/s3\.example\.com\t/,
    shown: /the secret key is never shown/,
  },
  'backup set-storage': {
    args: [...STORAGE, '--secret-stdin'],
    pipe: /^s3:\/\/backups\/berth\n$/,
    shown: /Acme keeps backups at s3:\/\/backups\/berth/,
    changes: 'PUT /api/organizations/1/backup-storage',
    exits: [[2, STORAGE]],
  },
  'backup remove-storage': {
    args: ['--yes'],
    pipe: /^Acme\n$/,
    shown: /Removed the storage of Acme/,
    changes: 'DELETE /api/organizations/1/backup-storage',
    exits: [[2, []]],
  },
  'projects list': { pipe: /^12\tshop\t/, shown: /PROJECT .*\n.*shop/ },
  'projects show': { args: ['shop'], pipe: /^id\t12\n/, shown: /deploy key/ },
  'projects create': {
    args: ['shop', '--repo', 'git@h:a/b.git', '--domain', 'shop.example.com', '--server', 'fra-1'],
    pipe: /^12\tshop\tssh-ed25519/,
    shown: /1\. Add this deploy key/,
    changes: 'POST /api/projects',
  },
  'projects edit': {
    args: ['shop', '--branch', 'main'],
    pipe: /^$/,
    shown: /Saved shop/,
    changes: 'PATCH /api/projects/12',
  },
  'projects set': {
    args: [...SHOP, 'auto_deploy=false', 'servers=fra-1'],
    pipe: /^$/,
    shown: /Saved shop/,
    changes: 'PATCH /api/projects/12',
    exits: [[2, [...SHOP, 'colour=red']]],
  },
  'projects check': {
    args: ['shop'],
    pipe: /^(failed|ok)\tagent of fra-1\t/,
    shown: /✓ repository: /,
    exits: [[6, ['shop']]],
  },
  'projects webhook': {
    args: ['shop'],
    pipe: /^url\thttps:/,
    shown: /5521 .*pull_request\.updated/,
    changes: 'POST /api/projects/12/webhook_secret',
    exits: [[0, ['shop', '--redeliver', '5521']]],
  },
  'projects trust-host-key': {
    args: ['shop', '--yes'],
    pipe: /^\[git\.example\.com\]:2222\tSHA256:B{43}\n$/,
    shown: /SHA256:A{43}[\s\S]*SHA256:B{43}[\s\S]*is trusted/,
    changes: 'POST /api/projects/12/host_key',
    exits: [
      [2, ['shop']],
      [2, ['shop', '--fingerprint', 'md5']],
      [6, ['shop', '--yes', '--fingerprint', `SHA256:${'C'.repeat(43)}`]],
    ],
  },
  'projects connect': {
    args: ['shop', '--with-token'],
    pipe: /^ok\twebhook\tThe webhook sends pushes\.\t-\n$/,
    shown: /webhook: The webhook sends pushes[\s\S]*shop is connected to acme\/shop at gitea/,
    changes: 'PUT /api/projects/12/forge',
    exits: [
      [0, ['shop']],
      [0, ['shop', '--connection', '3']],
      [2, ['shop', '--forge', 'svn']],
      [2, ['shop', '--forge', 'gitea']],
      [2, ['shop', '--connection', '3', '--with-token']],
    ],
  },
  'projects disconnect': {
    args: ['shop', '--yes'],
    pipe: /^webhook\tdeploy_key\n$/,
    shown: /Disconnected shop/,
    changes: 'DELETE /api/projects/12/forge',
    exits: [[2, ['shop']]],
  },
  repos: {
    args: ['shop'],
    pipe: /^acme\/shop\tgitea\tmain\t/,
    shown: /acme\/shop +gitea +main/,
    exits: [[5, ['shop', '--connection', '9']]],
  },
  'registry list': {
    args: SHOP,
    pipe: /^ghcr\.io\tada\tproject\t/,
    shown: /ghcr\.io +ada +this project/,
  },
  'registry add': {
    args: ['https://GHCR.io/', ...SHOP, '--username', 'ada', '--password-stdin'],
    pipe: /^ghcr\.io\n$/,
    shown: /ghcr\.io as ada for shop, from the next deployment on/,
    changes: 'PUT /api/projects/12/registries/ghcr.io',
    exits: [
      [2, ['ghcr.io', ...SHOP, '--username', 'ada']],
      [0, ['ghcr.io', '--all-projects', '--username', 'ada', '--password-stdin']],
    ],
  },
  'registry remove': {
    args: ['ghcr.io', ...SHOP, '--yes'],
    pipe: /^ghcr\.io\n$/,
    shown: /Removed ghcr\.io from shop/,
    changes: 'DELETE /api/projects/12/registries/ghcr.io',
  },
  'projects delete': {
    args: ['shop', '--confirm', 'shop'],
    pipe: /^$/,
    shown: /goes when the last/,
    changes: 'DELETE /api/projects/12',
    exits: [[2, ['shop']]],
  },
  'envs list': { args: SHOP, pipe: /^7\tstaging\t/, shown: /Waiting: PR #51 coupon, from a fork/ },
  'envs show': { args: HERE, pipe: /^id\t101\n/, shown: /shop \/ pr-42/ },
  'envs create': {
    args: ['demo', ...SHOP, '--branch', 'main'],
    pipe: /^101\tdemo\t/,
    shown: /Environment shop \/ demo/,
    changes: 'POST /api/projects/12/environments',
    exits: [[2, ['demo', ...SHOP, '--branch', 'main', '--auth', 'ada']]],
  },
  'envs edit': {
    args: [...HERE, '--sticky'],
    pipe: /^$/,
    shown: /Saved shop \/ pr-42/,
    changes: 'PATCH /api/environments/101',
  },
  'envs watch': {
    args: HERE,
    pipe: /^$/,
    shown: /a mail when shop \/ pr-42 is degraded/,
    changes: 'PUT /api/environments/101/watch',
  },
  'envs set': {
    args: [...HERE, 'sticky=true', 'recipe=inherit'],
    pipe: /^$/,
    shown: /Saved shop \/ pr-42/,
    changes: 'PATCH /api/environments/101',
  },
  'envs delete': {
    args: [...HERE, '--yes'],
    pipe: /^813\tqueued\n$/,
    shown: /is being removed/,
    changes: 'DELETE /api/environments/101',
    exits: [[2, HERE]],
  },
  'envs reset': {
    args: [...HERE, '--confirm', 'pr-42'],
    pipe: /^813\tqueued\n$/,
    shown: /is reset/,
    changes: 'POST /api/environments/101/reset',
    exits: [[2, HERE]],
  },
  'orgs list': { pipe: /^1\tacme\tAcme\tadmin\t/, shown: /ORG .*\n.*acme/ },
  'orgs use': { args: ['acme'], pipe: /^$/, shown: /set BERTH_ORG/, json: 'none' },
  link: { args: SHOP, pipe: /^shop\t-\n$/, shown: /Linked to shop/ },
  unlink: { pipe: /^$/, shown: /not linked/, offline: true },
  open: { args: HERE, pipe: /^https:\/\/pr-42\.shop\.example\.com\n$/, shown: /https:/ },
  'prs list': { args: SHOP, pipe: /^51\topen\tcoupon\t/, shown: /from a fork, needs/ },
  'prs approve': {
    args: ['51', ...SHOP, '--commit', SHA],
    pipe: new RegExp(`^51\t${SHA}\t813\n$`),
    shown: /Approved #51 at c136499/,
    changes: 'POST /api/projects/12/pull_requests/51/approve',
    exits: [
      [0, ['51', ...SHOP, '--commit', SHA.slice(0, 7)]],
      [2, ['51', ...SHOP, '--commit', '0000000']], // not the head
      [2, ['51', ...SHOP]],
      [5, ['52', ...SHOP]],
    ],
  },
  'user list': { pipe: /^7\tAda Lovelace\t/, shown: /ada@example\.com/ },
  'user invite': {
    args: ['grace@example.com', '--role', 'developer'],
    pipe: /^31\tgrace@example\.com\tdeveloper\n$/,
    shown: /Invited grace@example\.com to Acme/,
    changes: 'POST /api/organizations/1/invitations',
    exits: [[2, ['nobody', '--role', 'developer']]],
  },
  'token list': { pipe: /^17\tci\tpersonal\t/, shown: /…x9Qz/ },
  'token create': {
    args: ['ci', '--scope', 'read,deploy', '--expires', '90d'],
    pipe: /^17\tci\tberth_pat_NEW\t/,
    shown: /shown this once:\nberth_pat_NEW|berth_pat_NEW[\s\S]*shown this once/,
    changes: 'POST /api/tokens',
    exits: [[2, ['ci', '--scope', 'all', '--expires', '90d']]],
  },
  'token revoke': {
    args: ['17', '--yes'],
    pipe: /^17\n$/,
    shown: /Revoked ci/,
    changes: 'DELETE /api/tokens/17',
    exits: [
      [2, ['17']],
      [5, ['18', '--yes']],
    ],
  },
  'mcp serve': { pipe: /^$/, shown: /mcp install/, json: 'none', offline: true },
  'mcp install': {
    args: ['--client', 'cursor'],
    pipe: /"mcp"/,
    shown: /"mcp"/,
    offline: true,
  },
  'tasks list': { args: HERE, pipe: /^813\tsucceeded\t/, shown: /✓ succeeded/, exits: [[0, SHOP]] },
  'tasks show': { args: ['813'], pipe: /^task\t813\n/, shown: /PHASE/ },
  'tasks cancel': {
    args: ['813'],
    pipe: /^813\trunning\n$/,
    shown: /asked to stop/,
    changes: 'POST /api/tasks/813/cancel',
  },
  'tasks log': { args: ['813'], ...LOG, exits: [[1, ['813'], noLog]] },
  log: { args: ['813'], ...LOG, exits: [[1, ['813'], noLog]] },
  'actions list': { args: HERE, pipe: /^seed\tseed\t/, shown: /NAME .*\nseed/ },
  'actions history': {
    args: ['seed', ...HERE],
    pipe: /^2026-\S+Z\t2026-\S+Z\tstarted\tsucceeded\t1\t830\t-\n$/,
    shown: /DUE .*\n2026-\S+Z +✓ succeeded +1 +830/,
    exits: [[5, ['Sede', ...HERE]]],
  },
  'actions run': {
    args: ['seed', ...HERE],
    pipe: /^830\tqueued\t/,
    shown: /Task 830 {2}shop \/ pr-42/,
    changes: 'POST /api/environments/101/actions/seed/tasks',
    exits: [
      [5, ['sede', ...HERE]],
      [
        3,
        ['seed', ...HERE, '--wait'],
        (peer) =>
          peer.script('GET /api/tasks/830', {
            json: failedTask({ id: 830, type: 'action', action: 'seed' }),
          }),
      ],
      [
        7,
        ['seed', ...HERE, '--wait', '--timeout', '1s'],
        (peer) =>
          peer.script('GET /api/tasks/830', {
            json: task('running', { id: 830, type: 'action', action: 'seed' }),
          }),
      ],
    ],
  },
  'artifacts list': { args: ['830'], pipe: /^exports\/orders\.csv\t6\t/, shown: /6 B/ },
  'artifacts download': {
    args: ['830', '-d', '{folder}/out', '--force'],
    pipe: /^\S+\/out\/exports\/orders\.csv\n$/,
    shown: /orders\.csv/,
    changes: 'POST /api/servers/2/ssh',
    exits: [
      [5, ['830', 'nothing.csv', '-d', '{folder}/out']],
      [0, ['830', '-d', '{folder}/out'], (_, { env }) => Object.assign(env, { FAKE_SSH: '255' })],
      [
        1,
        ['830', '--direct', '-d', '{folder}/out'],
        (_, { env }) => Object.assign(env, { FAKE_SSH: '255' }),
      ],
      [1, ['830', '-d', '{folder}/out'], (_, { env }) => Object.assign(env, { FAKE_SSH: '44' })],
      [6, ['830', '-d', '{folder}/out'], (_, { env }) => Object.assign(env, { FAKE_SSH: '77' })],
      [
        1,
        ['830', '-d', '{folder}/out'],
        (_, { env }) => Object.assign(env, { FAKE_SHA: 'f'.repeat(64) }),
      ],
    ],
  },
  logs: {
    args: HERE,
    pipe: /^2026-11-15T09:12:30Z web {2}GET \/cart 200\n$/,
    shown: /GET \/cart 200/,
    json: 'lines',
    changes: 'POST /api/servers/2/ssh',
    exits: [
      [6, HERE, (_, one) => Object.assign(one.env, { FAKE_SSH: '77' })],
      [1, HERE, (_, one) => Object.assign(one.env, { FAKE_SSH: '44' })],
      [1, HERE, (_, one) => Object.assign(one.env, { FAKE_SSH: '69' })],
      [0, HERE, (_, one) => Object.assign(one.env, { FAKE_SSH: '255' })],
      [
        1,
        HERE,
        (peer, one) => {
          Object.assign(one.env, { FAKE_SSH: '255' })
          const offline = problem('server_offline', 'The server is offline.')
          peer.script('GET /api/environments/101/service_logs', offline)
        },
      ],
      [2, [...HERE, '--since', 'yesterday']],
    ],
  },
  requests: {
    args: HERE,
    pipe: /^2026-11-15T09:12:30Z 200 GET pr-42\.shop\.example\.com\/cart 12\.4ms 5120B 203\.0\.113\.7\n$/,
    shown: /GET pr-42\.shop\.example\.com\/cart/,
    json: 'lines',
    exits: [
      [
        1,
        HERE,
        (peer) => {
          const offline = problem('server_offline', 'The server is offline.')
          peer.script('GET /api/environments/101/log_lines', offline)
        },
      ],
      [2, [...HERE, '--status', '200']],
      [2, [...HERE, '-f', '--until', '1h']],
    ],
  },
  'ssh shell': {
    args: HERE,
    pipe: /^$/,
    shown: /Connecting to shop \/ pr-42 on fra-1 \(certificate 4711204938812345, valid 5 min\)/,
    json: 'none',
    changes: 'POST /api/servers/2/ssh',
    exits: [
      [6, HERE, (_, one) => Object.assign(one.env, { FAKE_SSH: '77' })],
      [1, HERE, (_, one) => Object.assign(one.env, { FAKE_SSH: '255' })],
      [9, [...HERE, '--', 'false'], (_, one) => Object.assign(one.env, { FAKE_SSH: '9' })],
    ],
  },
  'ssh cert': {
    args: [...HERE, '--server', 'fra-1', '--public-key', '{folder}/key.pub'],
    pipe: /^ssh-ed25519-cert-v01@openssh\.com AAAATEST\n$/,
    shown: /serial 4711204938812345/,
    changes: 'POST /api/servers/2/ssh',
    exits: [[2, [...HERE, '--server', 'fra-1', '--public-key', '/nonexistent']]],
  },
  metrics: {
    args: HERE,
    pipe: /^processor\t3\.5%\nmemory\t268 MB\nrequests\t1204\n/,
    shown: /Requests +1,204 in the last hour/,
    exits: [
      [0, [...HERE, '--range', 'week']],
      [2, [...HERE, '--range', 'year']],
    ],
  },
  diagnose: {
    args: HERE,
    pipe: /^No deployment of pr-42 has failed\.\n$/,
    shown: /No deployment/,
    exits: [
      [0, ['--task', '813']],
      [2, ['--task', 'newest']],
    ],
  },
  'server list': { pipe: /^2\tfra-1\tonline\t/, shown: /● online/ },
  'server show': { args: ['fra-1'], pipe: /^id\t2\n/, shown: /Debian 13/ },
  'server add': {
    args: ['fra-1', '--hostname', 'fra-1.example.com', '--no-wait'],
    pipe: /^2\tfra-1\tcurl /,
    shown: /Run this on fra-1 as root/,
    changes: 'POST /api/servers',
  },
  'server join-token': {
    args: ['fra-1', '--no-wait'],
    pipe: /^2\tfra-1\tcurl /,
    shown: /Run this on fra-1 as root/,
    changes: 'POST /api/servers/2/join_token',
  },
  'server set': {
    args: ['fra-1', '--build-memory', '8g', '--build-cpus', '1.5', '--task-slots', 'default'],
    pipe: /^$/,
    shown: /Saved fra-1/,
    changes: 'PATCH /api/servers/2',
    exits: [
      [2, ['fra-1']],
      [2, ['fra-1', '--build-memory', '8']],
      [2, ['fra-1', '--build-memory', '1m']],
      [2, ['fra-1', '--build-cpus', 'all']],
      [2, ['fra-1', '--build-timeout', '9h']],
      [2, ['fra-1', '--build-slots', '0']],
    ],
  },
  'server upgrade': {
    args: ['fra-1'],
    pipe: /^3\t1\.16\.0\trunning\n$/,
    shown: /0 of 1 server runs 1\.16\.0, 1 being upgraded/,
    changes: 'POST /api/servers/2/upgrade',
    exits: [
      [2, []],
      [2, ['fra-1', '--all']],
    ],
  },
  'server share': {
    args: ['fra-1', '--with', 'guests'],
    pipe: /^$/,
    shown: /fra-1 is shared with guests/,
    changes: 'POST /api/servers/2/shares',
    exits: [[2, ['fra-1']]],
  },
  'server unshare': {
    args: ['fra-1', '--with', 'guests'],
    pipe: /^$/,
    shown: /fra-1 is not shared with guests any more/,
    changes: 'DELETE /api/servers/2/shares/7',
    exits: [
      [2, ['fra-1']],
      [2, ['fra-1', '--with', 'strangers']],
    ],
  },
  'server remove': {
    args: ['fra-1', '--confirm', 'fra-1'],
    pipe: /^2\tfra-1\n$/,
    shown: /fra-1 is forgotten/,
    changes: 'DELETE /api/servers/2',
    exits: [[2, ['fra-1']]],
  },
  'config init': {
    args: ['--force'],
    pipe: /^/,
    shown: /\.service\.yml/,
    offline: true,
    exits: [[2, []]],
  },
  'config validate': {
    pipe: /^/,
    shown: /\.service\.yml/,
    offline: true,
    exits: [
      [2, ['bad.yml'], (_, { folder }) => writeFileSync(join(folder, 'bad.yml'), 'version: 9\n')],
    ],
  },
  'config schema': { pipe: /^\{/, shown: /\$schema/, offline: true },
  api: {
    args: ['me'],
    pipe: /"Ada Lovelace"/,
    shown: /"Ada Lovelace"/,
    exits: [[2, ['me', '-X', 'BREW']]],
  },
  completion: { args: ['bash'], pipe: /_berth/, shown: /_berth/, json: 'none', offline: true },
}
