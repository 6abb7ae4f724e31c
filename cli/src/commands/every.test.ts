// Every command of the table: in a pipe, on a terminal, as JSON, and each exit code it can return. Fails for a command
// without a row.
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { run } from '../program/invoke.ts'
import { COMMANDS } from '../program/program.ts'
import { CLIENT_MAIN, temporaryFolder, testEnvironment } from '../testing/berth.ts'
import { type Everything, startEverything } from '../testing/everything.ts'
import { type TestIo, testIo, testSink } from '../testing/io.ts'
import { type Peer, problem } from '../testing/peer.ts'
import { failedTask, me, SHA, task } from '../testing/samples.ts'

interface Row {
  /** Words after the command's own. */
  args?: string[]
  /** stdout in a pipe. */
  pipe: RegExp
  /** Both streams on a terminal. */
  shown: RegExp
  /** `lines`: a stream, one document per line. `none`: the output is not data. */
  json?: 'lines' | 'none'
  /** Contacts no server. */
  offline?: true
  /** The change it makes; refused, it exits with 6. */
  changes?: string
  /** Other possible exit codes. */
  exits?: [code: number, args: string[], prepare?: (peer: Peer, env: Everything) => void][]
}

const HERE = ['-p', 'shop', '-e', 'pr-42']
const SHOP = ['-p', 'shop']
const TASKS = '/api/environments/101/tasks'
const fails = (peer: Peer) => peer.script('GET /api/tasks/813', { json: failedTask({ id: 813 }) })
const runs = (peer: Peer) => peer.script('GET /api/tasks/813', { json: task('running') })
const LOG = { pipe: /^hello\nthere\n$/, shown: /hello/ }
const noLog = (peer: Peer) =>
  peer.script('GET /api/tasks/813/log', problem('log_expired', 'Its log is not kept any longer.'))

const ROWS: Record<string, Row> = {
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
  'vars list': { args: HERE, pipe: /^APP_KEY\t/, shown: /values are never shown/ },
  'vars set': {
    args: [...HERE, 'APP_KEY=s3cret'],
    pipe: /^$/,
    shown: /Set APP_KEY[\s\S]*Variables changed since the last deployment/,
    changes: 'PATCH /api/environments/101/variables',
    exits: [[2, [...HERE, 'APP_KEY']]],
  },
  'vars unset': {
    args: [...HERE, 'APP_KEY'],
    pipe: /^$/,
    shown: /Variables changed since the last deployment/,
    changes: 'PATCH /api/environments/101/variables',
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
      [1, HERE, (_, one) => Object.assign(one.env, { FAKE_SSH: '255' })],
      [2, [...HERE, '--since', 'yesterday']],
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
  diagnose: { args: HERE, pipe: /^No deployment of pr-42 has failed\.\n$/, shown: /No deployment/ },
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

interface Ran {
  io: TestIo
  code: number
}

async function call(
  path: string,
  args: readonly string[],
  { env, folder }: Pick<Everything, 'env' | 'folder'>,
  how: { terminal?: boolean; interrupted?: boolean } = {},
): Promise<Ran> {
  const sink = () => testSink(how.terminal ? { isTTY: true, columns: 100 } : {})
  const stdin = {
    isTTY: path === 'mcp serve',
    read: async () => 'berth_pat_test\n',
    readLine: async () => null,
    readSecret: async () => null,
  }
  const io = testIo({ env, cwd: folder, stdin, stdout: sink(), stderr: sink() })
  if (how.interrupted) io.interrupt()
  const words = args.map((word) => word.replace('{folder}', folder))
  const own = path === 'ssh shell' ? ['ssh'] : path.split(' ')
  return { io, code: await run([...own, ...words], io) }
}

/** Colours may stay on a terminal, but no other sequence that a terminal obeys. */
const withoutColours = (text: string) =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  text.replace(/\u001b\[[0-9;]*[mAJ]/g, '')
const CONTROL = /[^\P{Cc}\n\t\r]/u

it('every command has a row', () => {
  expect(Object.keys(ROWS).sort()).toEqual(COMMANDS.map((spec) => spec.path).sort())
})

/** Commands whose usual exit code here is not 0. */
const USUAL: Record<string, number> = { 'mcp serve': 2, 'orgs use': 2, 'projects check': 6 }

describe.each(Object.entries(ROWS))('berth %s', (path, row) => {
  const args = row.args ?? []
  const usual = USUAL[path] ?? 0

  it('in a pipe, on a terminal, as JSON', async () => {
    const all = await startEverything()
    const piped = await call(path, args, all)
    expect(piped.code, piped.io.stderr.text).toBe(usual)
    expect(piped.io.stdout.text).toMatch(row.pipe)
    expect(piped.io.stdout.text + piped.io.stderr.text).not.toMatch(CONTROL)
    const shown = await call(path, args, all, { terminal: true })
    const both = withoutColours(shown.io.stdout.text + shown.io.stderr.text)
    expect(shown.code, both).toBe(usual)
    expect(both).toMatch(row.shown)
    expect(both).not.toMatch(CONTROL)
    if (row.json === 'none') return
    const { io, code } = await call(path, [...args, '--json'], all)
    expect(code, io.stderr.text).toBe(usual)
    const documents = row.json === 'lines' ? io.stdout.text.trim().split('\n') : [io.stdout.text]
    for (const text of documents) expect(() => JSON.parse(text), text).not.toThrow()
  })

  it('each exit code', async () => {
    const all = await startEverything()
    const end = async (words: readonly string[], env = all.env, interrupted = false) =>
      (await call(path, words, { ...all, env }, { interrupted })).code
    expect(await end([...args, '--bogus'])).toBe(2)
    if (!row.offline && usual === 0) {
      const nowhere = { ...all.env, BERTH_URL: 'http://127.0.0.1:9' }
      const token = path === 'login' ? 1 : 4
      const { BERTH_TOKEN: _, ...anonymous } = all.env
      expect(await end(args, nowhere), 'no contact').toBe(1)
      if (path !== 'login') expect(await end(args, anonymous), 'not logged in').toBe(token)
      expect(await end(args, all.env, true), 'Ctrl-C').toBe(130)
    }
    if (row.changes) {
      all.peer.script(row.changes, problem('permission_denied', 'You may not.'))
      const words = path === 'projects webhook' ? [...args, '--rotate-secret', '--yes'] : args
      expect(await end(words), 'refused').toBe(6)
    }
    for (const [code, words, prepare] of row.exits ?? []) {
      const fresh = await startEverything()
      prepare?.(fresh.peer, fresh)
      const ran = await call(path, words, fresh)
      expect(ran.code, `${words.join(' ')}: ${ran.io.stderr.text}`).toBe(code)
    }
  })
})

it('what is not there: 5', async () => {
  const all = await startEverything()
  for (const [path, words] of [
    ['deploy', ['-p', 'shop', '-e', 'nope']],
    ['envs show', ['-p', 'nope', '-e', 'pr-42']],
    ['server show', ['nope']],
    ['tasks show', ['99']],
    ['logs', ['-p', 'shop', '-e', 'nope']],
    ['ssh shell', ['--server', 'nope']],
    ['api', ['nothing/here']],
  ] as const) {
    const { code, io } = await call(path, words, { ...all, folder: temporaryFolder() })
    expect(code, `${path}: ${io.stderr.text}`).toBe(5)
  }
})

const root = fileURLToPath(new URL('../../..', import.meta.url))
/** The oldest supported Node.js, a package of the tests. */
const OLDEST = join(root, `test/node_modules/node18-linux-${process.arch}/bin/node`)

const isBundled = CLIENT_MAIN.endsWith('.cjs')

describe.skipIf(!isBundled || !existsSync(OLDEST))(
  'the bundled client under the oldest Node',
  () => {
    async function old(args: string[], all: Everything, input: string, flags: string[] = []) {
      const child = spawn(OLDEST, [...flags, CLIENT_MAIN, ...args], {
        cwd: all.folder,
        env: testEnvironment(all.env),
      })
      const said = { out: '', err: '', code: -1 }
      child.stdout.on('data', (chunk) => {
        said.out += chunk
      })
      child.stderr.on('data', (chunk) => {
        said.err += chunk
      })
      child.stdin.on('error', () => {}) // most read nothing
      child.stdin.end(input)
      said.code = await new Promise((resolve) => child.once('close', (code) => resolve(code ?? -1)))
      return said
    }

    it.each(Object.entries(ROWS))('berth %s', async (path, row) => {
      const all = await startEverything()
      const words = (row.args ?? []).map((word) => word.replace('{folder}', all.folder))
      const own = path === 'ssh shell' ? ['ssh'] : path.split(' ')
      if (path === 'mcp serve') {
        const client = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: NAMED }
        const asked = { jsonrpc: '2.0', id: 1, method: 'initialize', params: client }
        const { out, code, err } = await old(own, all, `${JSON.stringify(asked)}\n`)
        expect([code, err, JSON.parse(out)]).toMatchObject([0, '', { result: SERVED }])
        return
      }
      const { out, err, code } = await old([...own, ...words], all, 'berth_pat_test\n')
      expect(code, err).toBe(USUAL[path] ?? 0)
      expect(out).toMatch(row.pipe)
    })
    const NAMED = { name: 'test', version: '1' }
    const SERVED = { serverInfo: { name: 'berth' } }

    it('colours are its own', async () => {
      const all = await startEverything()
      Object.assign(all.env, { FORCE_COLOR: '1' })
      const { err } = await old(['server', 'show', 'nope'], all, '')
      expect(err).toContain('\u001b[31m')
    })

    it('an authority is trusted with --cacert', async () => {
      const all = await startEverything()
      const [key, cert] = [join(all.folder, 'key.pem'), join(all.folder, 'cert.pem')]
      const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost']
      const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
      const files = ['-keyout', key, '-out', cert]
      execFileSync('openssl', ['req', '-x509', ...newKey, ...files, ...subject], { stdio: 'pipe' })
      const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (_, res) =>
        res.setHeader('content-type', 'application/json').end(JSON.stringify(me())),
      )
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      const { port } = server.address() as AddressInfo
      Object.assign(all.env, { BERTH_URL: `https://localhost:${port}` })
      expect((await old(['whoami'], all, '')).err).toContain('is not trusted')
      expect(await old(['whoami', '--cacert', cert], all, '')).toMatchObject({ code: 0, err: '' })
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    })

    it('one that is too old is told which it needs', async () => {
      const all = await startEverything()
      const older = join(all.folder, 'older.cjs')
      writeFileSync(
        older,
        "Object.defineProperty(process.versions, 'node', { value: '16.20.2' })\n",
      )
      const { code, out, err } = await old(['--version'], all, '', ['--require', older])
      const sentence = 'berth: Node.js 18 or newer is needed; this is 16.20.2.\n'
      expect([code, out, err]).toEqual([1, '', sentence])
    })
  },
)
