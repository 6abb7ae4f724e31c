// `berth-server doctor` against real things: a running control plane on both databases, a mail server, certificates, a
// taken port, a full and a read-only folder.
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Finding } from '@berth/shared/findings'
import { SMTPServer } from 'smtp-server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { examine } from '../../control-plane/src/commands/doctor/doctor.ts'
import { type Config, readConfig } from '../../control-plane/src/config.ts'
import {
  createAuthority,
  issueServerCertificate,
  loadAuthority,
} from '../../control-plane/src/keys/authority.ts'
import { createKek } from '../../control-plane/src/keys/secret-store.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { makeFullFolder } from '../fixtures/platform/full-folder.ts'
import { CONTROL_PLANE_MAIN } from '../fixtures/server/programs.ts'

const DOCTOR = new URL('../../control-plane/src/commands/doctor/doctor.ts', import.meta.url).href
const isRoot = process.getuid?.() === 0
const DAY = 86_400_000
const folder = mkdtempSync(join(tmpdir(), 'berth-doctor-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let made = 0
function newFolder(): string {
  const path = join(folder, String(++made))
  mkdirSync(path, { mode: 0o700 })
  return path
}

const plain = (env: Record<string, string> = {}): Config =>
  readConfig({ BERTH_CONFIG_FILE: '', BERTH_DATA_DIR: newFolder(), ...env })
const about = (findings: readonly Finding[], subject: string): string[] =>
  findings
    .filter((one) => one.subject.startsWith(subject))
    .map(({ status, message }) => `${status}: ${message}`)

describe.each(ENGINES)('an installation on %s', (engine) => {
  let cp: TestControlPlane
  let config: Config
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    const { running, url } = cp
    const port = Number(new URL(url).port)
    config = { ...running.ctx.config, port, agentPort: running.gateway.port, baseUrl: url }
  })
  afterAll(() => cp.close())

  test('that runs is fine', async () => {
    const findings = await examine(config)
    const other = findings.filter(({ status }) => status !== 'ok')
    expect(other.map(({ subject }) => subject)).toEqual([
      ...(engine === 'sqlite' ? ['clock'] : []), // on this machine, nothing else has a clock
      "agents' packages", // tests have none
    ])
    expect(about(findings, 'port of REST')[0]).toMatch(/^ok: this control plane listens at 127/)
    expect(about(findings, 'port of agents')[0]).toMatch(/^ok: this control plane listens at 127/)
    expect(about(findings, 'database')[0]).toMatch(/^ok: (SQLite|PostgreSQL) \d+\..*, up to date$/)
    expect(about(findings, 'key file')[0]).toMatch(/^ok: .*\/kek opens the database$/)
    expect(about(findings, "agents' authority")[0]).toMatch(/^ok: valid until 20\d\d-/)
    expect(about(findings, 'address')[0]).toMatch(/^ok: a control plane answers, version/)
    if (engine === 'postgres') {
      expect(about(findings, 'clock')).toEqual(['ok: it differs from that of the database by 0 s'])
    }
  })

  test('has no key, another key, or a key that others can read', async () => {
    const kekFile = join(newFolder(), 'kek')
    const check = async () => about(await examine({ ...config, kekFile }), 'key file')
    expect((await check())[0]).toMatch(/^problem: The key file .*\/kek does not exist$/)
    createKek(kekFile)
    expect((await check())[0]).toMatch(/^problem: the database was encrypted with another key/)
    chmodSync(kekFile, 0o444)
    expect((await check())[0]).toMatch(/^problem: The key file .* is open to other users/)
    writeFileSync(`${kekFile}.short`, 'short', { mode: 0o400 })
    const short = await examine({ ...config, kekFile: `${kekFile}.short` })
    expect(about(short, 'key file')[0]).toMatch(/^problem: The key file .* is too short/)
  })

  test('was written by a newer release', async () => {
    const { db } = cp.running.ctx
    const { sql } = await import('kysely')
    await sql`insert into migrations(name, applied_at) values ('9999-future', 1)`.execute(db)
    expect(about(await examine(config), 'database')).toEqual([
      expect.stringMatching(/^problem: .* was written by a newer Berth \(9999-future\)$/),
    ])
  })
})

test('a database that is away, or no database at all', async () => {
  const away = await examine(plain({ DATABASE_URL: 'postgres://u:hunter2@127.0.0.1:1/x' }))
  expect(about(away, 'database')).toEqual(['problem: PostgreSQL cannot be opened (ECONNREFUSED)'])
  expect(JSON.stringify(away)).not.toContain('hunter2')
  const broken = plain()
  writeFileSync(join(broken.dataDir, 'berth.db'), 'x'.repeat(5_000))
  const findings = await examine(broken)
  expect(about(findings, 'database')[0]).toMatch(/^problem: .*\(SQLITE_NOTADB\)$/)
  const fresh = plain()
  expect(about(await examine(fresh), 'database')[0]).toMatch(/^ok: .* will be created$/)
  expect(readdirSync(fresh.dataDir)).toEqual([]) // nothing was written
})

describe('ports', () => {
  test('one that another program has, and one of another machine', async () => {
    const taken = createServer((socket) => socket.destroy())
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
    const { port } = taken.address() as AddressInfo
    const config = { ...plain(), port, agentPort: port }
    const findings = await examine(config)
    expect(about(findings, 'port of REST')).toEqual([
      `problem: another program listens at 127.0.0.1:${port}`,
    ])
    expect(about(findings, 'port of agents')).toEqual([
      `problem: another program listens at 127.0.0.1:${port}`,
    ])
    expect(findings.find(({ subject }) => subject === 'port of agents')?.fix).toMatch(
      new RegExp(`sport = :${port}.*BERTH_AGENT_PORT`),
    )
    await new Promise((resolve) => taken.close(resolve))
    expect(about(await examine(config), 'port of REST')).toEqual([`ok: 127.0.0.1:${port} is free`])
    const elsewhere = await examine({ ...config, host: '192.0.2.1' })
    expect(about(elsewhere, 'port of REST')).toEqual([
      'problem: this machine does not have the address 192.0.2.1',
    ])
  })

  test('agents on other machines cannot reach loopback', async () => {
    const config = plain({ BERTH_AGENT_ENDPOINTS: '192.0.2.1:7443' })
    expect(about(await examine(config), 'port of agents').at(-1)).toMatch(
      /^warning: it listens only on 127\.0\.0\.1/,
    )
  })
})

test('names that lead nowhere', async () => {
  const findings = await examine(
    plain({ BERTH_URL: 'http://a.invalid', BERTH_AGENT_ENDPOINTS: 'b.invalid:7443,127.0.0.1:1' }),
  )
  expect(about(findings, 'name a.invalid')[0]).toMatch(/^problem: it leads nowhere \(E\w+\)$/)
  expect(about(findings, 'name b.invalid')[0]).toMatch(/^problem: it leads nowhere \(E\w+\)$/)
  expect(about(findings, 'name 127.0.0.1')).toEqual(['ok: an address, no name is looked up'])
  expect(about(findings, 'address http://a.invalid')[0]).toMatch(/^skipped: nothing answered/)
  expect(about(await examine(plain()), 'address')[0]).toMatch(/^warning: BERTH_URL is not set/)
})

describe('the data folder', () => {
  test('open to others, a file, below a file', async () => {
    const open = plain()
    chmodSync(open.dataDir, 0o755)
    const findings = await examine(open)
    expect(about(findings, 'data folder')[0]).toMatch(/^warning: other accounts can enter .*755/)
    const file = join(newFolder(), 'file')
    writeFileSync(file, '')
    for (const dataDir of [file, join(file, 'below')]) {
      const found = await examine({ ...open, dataDir, kekFile: join(dataDir, 'kek') })
      expect(about(found, 'data folder')).toEqual([`problem: ${file} is a file`])
    }
  })

  test.skipIf(!isRoot)('full, and read-only', async () => {
    const disk = makeFullFolder(16 * 1_048_576)
    try {
      disk.fill()
      const config = plain({ BERTH_DATA_DIR: disk.folder })
      expect(about(await examine(config), 'disk')).toEqual([
        'problem: 0 KiB of 16 MiB are free, so writes fail soon',
      ])
      execFileSync('mount', ['-o', 'remount,ro', disk.folder])
      expect(about(await examine(config), 'data folder')).toEqual([
        `problem: ${disk.folder} cannot be written (EROFS)`,
      ])
    } finally {
      disk.close()
    }
  })
})

describe('the mail server', () => {
  const server = new SMTPServer({
    authOptional: true,
    allowInsecureAuth: true,
    disabledCommands: ['STARTTLS'],
    onAuth: ({ username, password }, _session, done) =>
      username === 'berth' && password === 'p@ss'
        ? done(null, { user: username })
        : done(new Error('no')),
  })
  let port = 0
  beforeAll(async () => {
    server.on('error', () => {}) // clients that disconnect in the middle
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    port = (server.server.address() as AddressInfo).port
  })
  afterAll(() => new Promise<void>((resolve) => server.close(() => resolve())))
  const check = async (url: string): Promise<string> => {
    const env = { BERTH_SMTP_URL: url, BERTH_MAIL_FROM: 'b@example.com' }
    const findings = await examine(plain(env))
    expect(JSON.stringify(findings)).not.toContain('hunter2')
    return about(findings, 'mail')[0] ?? ''
  }

  test('accepts us, with and without a password', async () => {
    expect(await check(`smtp://127.0.0.1:${port}`)).toBe('ok: the mail server accepts us')
    expect(await check(`smtp://berth:p%40ss@127.0.0.1:${port}`)).toBe(
      'ok: the mail server accepts us and the password',
    )
  })

  test('refuses the password, is away, or has no name', async () => {
    expect(await check(`smtp://berth:hunter2@127.0.0.1:${port}`)).toMatch(
      /^problem: the mail server refuses user or password, answer 535$/,
    )
    expect(await check('smtp://berth:hunter2@127.0.0.1:1')).toMatch(
      /^problem: the mail server does not answer as one \((?:ECONNREFUSED|ESOCKET)\)$/,
    )
    expect(await check('smtp://berth:hunter2@mail.invalid')).toMatch(
      /^problem: the name of the mail server leads nowhere$/,
    )
  })
})

test('packages and dashboard', async () => {
  const packages = newFolder()
  const config = { ...plain(), agentPackages: packages, dashboardDir: newFolder() }
  expect(about(await examine(config), 'dashboard')[0]).toMatch(/^problem: .* does not hold it/)
  writeFileSync(join(config.dashboardDir, 'index.html'), '<!doctype html>')
  writeFileSync(join(packages, 'berth-agent-linux-x64.tar.gz'), 'x')
  const findings = await examine(config)
  expect(about(findings, 'dashboard')[0]).toMatch(/^ok: /)
  expect(about(findings, "agents' packages")[0]).toMatch(
    /^warning: .* has linux-x64, and none for linux-arm64$/,
  )
  writeFileSync(join(packages, 'berth-agent-linux-arm64.tar.gz'), 'x')
  expect(about(await examine(config), "agents' packages")[0]).toMatch(/^ok: linux-arm64, linux-x64/)
})

/** The packaged program, as an operator calls it; beside this process, which serves what it asks. */
function run(
  env: Record<string, string>,
  ...args: string[]
): Promise<{ status: unknown; stdout: string }> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [CONTROL_PLANE_MAIN, 'doctor', ...args],
      { env: { PATH: process.env.PATH ?? '', BERTH_CONFIG_FILE: '', ...env } },
      (error, stdout) => resolve({ status: error?.code ?? 0, stdout }),
    )
  })
}

describe('the HTTPS certificate', () => {
  test.each([
    ['trusted', 0, true, /^ok +HTTPS certificate of localhost: valid until 20/m],
    ['of an unknown authority', 0, false, /^problem +HTTPS .*: this machine does not trust it \(/m],
    ['nearly expired', 356, true, /^warning +HTTPS .*: it expires on 20/m],
    ['expired', 400, true, /^problem +HTTPS .*: it expired on 20/m],
  ])('%s', async (_name, ageDays, isTrusted, line) => {
    const authority = await loadAuthority(await createAuthority(new Date()))
    const names = ['localhost']
    const now = new Date(Date.now() - ageDays * DAY)
    const issued = await issueServerCertificate(authority, { names, now })
    const ca = join(newFolder(), 'ca.pem')
    writeFileSync(ca, authority.certificatePem)
    const options = { key: issued.keyPem, cert: issued.certificatePem }
    const server = createHttpsServer(options, (_request, response) => {
      response.writeHead(404).end()
    })
    await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve))
    const { port } = server.address() as AddressInfo
    const env: Record<string, string> = {
      BERTH_DATA_DIR: newFolder(),
      BERTH_URL: `https://localhost:${port}`,
      ...(isTrusted ? { NODE_EXTRA_CA_CERTS: ca } : {}),
    }
    const { stdout } = await run(env)
    expect(stdout).toMatch(line)
    if (isTrusted && ageDays < 365) {
      expect(stdout).toMatch(/^problem +address https:.*: something else answers/m)
    }
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
})

describe('the command', () => {
  test('shows what to do, as text and as JSON, and ends with 1 on a problem', async () => {
    const env = { BERTH_DATA_DIR: newFolder(), BERTH_URL: 'http://a.invalid' }
    const { status, stdout } = await run(env)
    expect(status).toBe(1)
    expect(stdout).toMatch(/^problem +name a\.invalid: .*\n +→ Create an A or AAAA record/m)
    expect(stdout).toMatch(/^not checked +clock: /m)
    expect(stdout).toMatch(/\nProblems: \d+, warnings: \d+\.\n$/)
    const json = JSON.parse((await run(env, '--json')).stdout)
    expect(json.problems).toBeGreaterThan(0)
    expect(json.findings).toContainEqual({
      subject: 'name a.invalid',
      status: 'problem',
      message: expect.stringContaining('leads nowhere'),
      fix: expect.stringContaining('a.invalid'),
    })
  })

  test('wrong settings are the only finding', async () => {
    const { status, stdout } = await run({ BERTH_PORT: 'x', BERTH_DATA_DIR: newFolder() })
    expect(status).toBe(1)
    expect(stdout).toMatch(/^problem +settings: BERTH_PORT must be a port/)
    expect(stdout).toMatch(/^not checked +everything else: it depends on the settings$/m)
  })

  test.skipIf(!isRoot)('a folder that root gives to a container through a group is fine', () => {
    const dataDir = newFolder()
    chmodSync(folder, 0o711)
    chownSync(dataDir, 0, 65_534)
    chmodSync(dataDir, 0o2777)
    const kek = join(newFolder(), 'kek')
    createKek(kek)
    // the account may not read a checkout, so what it imports is loaded before
    const source = `
      const { doctor } = await import(${JSON.stringify(DOCTOR)})
      process.setgroups([65534]); process.setgid(65534); process.setuid(65534)
      await doctor({ args: [], env: process.env, print: console.log })`
    const env = { BERTH_CONFIG_FILE: '', BERTH_DATA_DIR: dataDir, BERTH_KEK_FILE: kek }
    const args = ['--input-type=module', '--eval', source]
    const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8', env })
    expect(stdout).toMatch(/^ok +data folder: .*, mode 777, given by uid 0$/m)
    expect(stdout).not.toMatch(/^\w+ +account: /m)
  })

  test.skipIf(!isRoot)('root sees what the owner of the data folder sees', async () => {
    const dataDir = newFolder()
    chmodSync(folder, 0o711)
    const kek = join(newFolder(), 'kek')
    createKek(kek) // of root, mode 0400
    chownSync(dataDir, 65_534, 65_534)
    const { stdout } = await run({ BERTH_DATA_DIR: dataDir, BERTH_KEK_FILE: kek })
    expect(stdout).toMatch(/^ok +account: checked as uid 65534, the owner of the data folder$/m)
    expect(stdout).toMatch(/^problem +key file: .* cannot be read \(EACCES\)$/m)
    expect(existsSync(join(dataDir, 'berth.db'))).toBe(false)
  })
})
