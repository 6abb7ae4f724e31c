import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { readConfig } from '../config.ts'
import { SETTINGS_FILE } from '../limits/installation.ts'
import { findFile } from './file.ts'
import { type ReadSettings, readSettings } from './read.ts'
import { ROWS, type SettingName } from './table.ts'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

function writeToml(text: string, mode = 0o640): string {
  const folder = mkdtempSync(join(tmpdir(), 'berth-settings-'))
  folders.push(folder)
  const path = join(folder, 'server.toml')
  writeFileSync(path, text)
  chmodSync(path, mode)
  return path
}

const NO_FILE = { BERTH_CONFIG_FILE: '' }
const fromFile = (text: string, env: NodeJS.ProcessEnv = {}): ReadSettings =>
  readSettings({ ...env, BERTH_CONFIG_FILE: writeToml(text) })
const sourceOf = ({ rows }: ReadSettings, name: SettingName) =>
  rows.find((row) => row.name === name)?.source
/** Without the folder, which differs in each run. */
const problemsOf = (text: string): string[] =>
  fromFile(text).problems.map((one) => one.replaceAll(/\S*\/server\.toml/g, 'server.toml'))

describe('the table', () => {
  test('names nothing twice, and describes everything in a sentence', () => {
    const variables = ROWS.map(([, row]) => row.variable)
    const keys = ROWS.flatMap(([, row]) => row.key ?? [])
    expect(new Set(variables).size).toBe(variables.length)
    expect(new Set(keys).size).toBe(keys.length)
    for (const key of keys) expect(key).toMatch(/^([a-z]+\.)?[a-z0-9_]+$/)
    for (const [name, row] of ROWS) expect(row.description, name).toMatch(/^[A-Z].*\.$/)
  })

  test('what may hold a password is secret', () => {
    const secrets = ROWS.filter(([, row]) => row.secret).map(([name]) => name)
    expect(secrets).toEqual([
      'databaseUrl',
      'smtpUrl',
      'legacyWebhookSecret',
      's3SecretAccessKey',
      'oidcClientSecret',
      'metricsToken',
      'tracesHeaders',
    ])
  })
})

describe('precedence', () => {
  test('environment over file over default', () => {
    const text = 'port = 1000\nhost = "10.0.0.1"\n'
    const read = fromFile(text, { BERTH_PORT: '2000' })
    expect(read.problems).toEqual([])
    expect(read.values).toMatchObject({ port: 2000, host: '10.0.0.1', agentPort: 7443 })
    expect(sourceOf(read, 'port')).toEqual({ kind: 'environment' })
    expect(sourceOf(read, 'host')).toEqual({ kind: 'file', path: read.file, line: 2 })
    expect(sourceOf(read, 'agentPort')).toEqual({ kind: 'default' })
  })

  test('an empty variable is not set', () => {
    expect(fromFile('port = 1000', { BERTH_PORT: '' }).values.port).toBe(1000)
    expect(readConfig({ ...NO_FILE, BERTH_PORT: '' }).port).toBe(7080)
  })

  test('every kind of value, with sections, lists and numbers as text', () => {
    const { values, problems, rows } = fromFile(`
url = "https://deploy.example.com/" # the slash goes
port = "0"
trusted_proxies = ["10.0.0.0/8", "::1"]
open_organizations = true
custom_domains = "listed"
private_git_hosts = "Git.example.com, other.example.com"

[database]
url = "postgres://berth:s3cret@db/berth"

[agents]
port = 8443
endpoints = ["deploy.example.com:8443", "[2001:db8::1]:8443"]

[mail]
smtp_url = "smtp://u:p@mail.example.com"
from = "Berth <berth@example.com>"

[limits]
servers_per_organization = 5
rate_factor = 0.5
`)
    expect(problems).toEqual([])
    expect(values).toMatchObject({
      baseUrl: 'https://deploy.example.com',
      port: 0,
      trustedProxies: ['10.0.0.0/8', '::1'],
      openOrganizations: true,
      customDomains: 'listed',
      agentPort: 8443,
      agentEndpoints: ['deploy.example.com:8443', '[2001:db8::1]:8443'],
      databaseUrl: 'postgres://berth:s3cret@db/berth',
      mailFrom: 'Berth <berth@example.com>',
      serversPerOrganization: 5,
      rateLimitFactor: 0.5,
    })
    const lines = rows.flatMap(({ source }) => (source.kind === 'file' ? [source.line] : []))
    expect(lines).toEqual([2, 3, 4, 5, 6, 7, 10, 13, 14, 17, 18, 21, 22])
  })

  test('the configuration that follows from it', () => {
    const config = readConfig({
      BERTH_CONFIG_FILE: writeToml('private_git_hosts = ["Git.Example.com"]\n[keys]\nfile = "/k"'),
      BERTH_DATA_DIR: '/data',
    })
    expect(config).toMatchObject({ privateGitHosts: ['git.example.com'], kekFile: '/k' })
    expect(config).toMatchObject({ createKek: false, mail: { kind: 'none' }, logLevel: 'info' })
    const bare = readConfig({ BERTH_DEV: '1', BERTH_DATA_DIR: '/data' })
    expect(bare).toMatchObject({ kekFile: '/data/kek', createKek: true, mail: { kind: 'files' } })
  })
})

describe('which file', () => {
  test('the standard place counts only outside of development', () => {
    expect(findFile({})).toEqual({ path: SETTINGS_FILE.path, isNamed: false })
    expect(findFile({ BERTH_DEV: '1' })).toBeUndefined()
    expect(findFile({ BERTH_CONFIG_FILE: '' })).toBeUndefined()
    const named = { path: '/x.toml', isNamed: true }
    expect(findFile({ BERTH_DEV: '1', BERTH_CONFIG_FILE: '/x.toml' })).toEqual(named)
  })

  test('a named file must exist and be readable', () => {
    expect(readSettings({ BERTH_CONFIG_FILE: '/nowhere/server.toml' }).problems).toEqual([
      '/nowhere/server.toml does not exist. Create it, or correct BERTH_CONFIG_FILE.',
    ])
    expect(readSettings({ BERTH_CONFIG_FILE: tmpdir() }).problems).toEqual([
      `${tmpdir()} cannot be read (EISDIR).`,
    ])
    expect(problemsOf('#'.repeat(SETTINGS_FILE.bytes + 1))).toEqual([
      'server.toml is too large: a settings file has at most 65536 bytes.',
    ])
  })

  test('a file with a secret warns when others may read it', () => {
    const secret = '[mail]\nsmtp_url = "smtp://u:hunter2@127.0.0.1"\nfrom = "b@example.com"\n'
    const warningsOf = (text: string, mode: number): string[] =>
      readSettings({ BERTH_CONFIG_FILE: writeToml(text, mode) }).warnings
    expect(warningsOf(secret, 0o640)).toEqual([])
    expect(warningsOf('port = 80', 0o644)).toEqual([])
    expect(warningsOf(secret, 0o644)).toEqual([
      expect.stringMatching(/holds mail\.smtp_url, .* can read it\. Run `chmod o-rwx /),
    ])
  })
})

describe('problems', () => {
  test.each([
    ['BERTH_PORT', '70000', 'must be a port from 0 to 65535, got "70000".'],
    ['BERTH_PORT', 'http', 'must be a port from 0 to 65535, got "http".'],
    ['BERTH_AGENT_PORT', ' ', 'must be a port from 0 to 65535, got " ".'],
    ['BERTH_URL', 'deploy.example.com', 'must be an address such as https://deploy.example.com'],
    ['BERTH_URL', 'deploy.example.com:80', 'must be an address such as'],
    ['BERTH_TRUSTED_PROXY', '10.0.0.0/33', 'must be addresses or networks such as'],
    ['BERTH_TRUSTED_PROXY', '10.0.0.0/8/8', 'must be addresses or networks such as'],
    ['BERTH_AGENT_ENDPOINTS', 'deploy.example.com', 'must be host:port, such as'],
    ['BERTH_AGENT_ENDPOINTS', 'https://a:1', 'must be host:port, such as'],
    ['BERTH_LOG', 'loud', 'must be one of trace, debug, info, warn, error, fatal, silent'],
    ['BERTH_OPEN_ORGANIZATIONS', 'yes', 'must be true or false, got "yes".'],
    ['BERTH_CUSTOM_DOMAINS', 'none', 'must be one of any, listed'],
    ['BERTH_RATE_LIMIT_FACTOR', '0', 'must be a number from 0.01 to 1000000, got "0".'],
    ['BERTH_SERVERS_PER_ORGANIZATION', '1.5', 'must be a whole number from 1 to 1000000'],
    ['BERTH_MAIL_FROM', 'nobody', 'must be an address such as Berth <berth@example.com>'],
  ])('%s=%s', (variable, value, message) => {
    const { problems } = readSettings({ ...NO_FILE, [variable]: value })
    expect(problems).toEqual([expect.stringContaining(`${variable} ${message}`)])
  })

  test.each([
    ['DATABASE_URL', 'mysql://u:hunter2@db/x', 'must be postgres://user:password@host/name.'],
    ['BERTH_SMTP_URL', 'http://u:hunter2@mail', 'must be smtp://user:password@host:587 or'],
    ['BERTH_SMTP_URL', 'smtp://u:hunter2%@mail', 'must be an address with a percent-encoded'],
  ])('a bad %s is not shown', (variable, value, message) => {
    const { problems } = readSettings({ ...NO_FILE, [variable]: value })
    expect(problems[0]).toContain(`${variable} ${message}`)
    expect(problems.join()).not.toContain('hunter2')
  })

  test('in the file: all of them, with their lines', () => {
    const text = `port = 70000
hostt = "x"
[mail]
smtp_url = "smtp://u:hunter2@127.0.0.1"
form = "b@example.com"
[agents]
endpoints = [1]
host = 5
`
    expect(problemsOf(text)).toEqual([
      'server.toml:1: port must be a port from 0 to 65535, got "70000".',
      'server.toml:8: agents.host must be text in double quotes, such as "text".',
      'server.toml:7: agents.endpoints must be a list of texts, such as ["one", "two"].',
      'server.toml:2: there is no setting hostt; did you mean host?',
      'server.toml:5: there is no setting mail.form; did you mean mail.from?',
      expect.stringMatching(/^BERTH_MAIL_FROM \(mail\.from\) must be set with a mail server/),
    ])
    const path = writeToml(text)
    expect(() => readConfig({ BERTH_CONFIG_FILE: path })).toThrow(/70000[\s\S]*hostt/)
  })

  test.each([
    ['BERTH_PORT = 80', 'server.toml:1: there is no setting BERTH_PORT; did you mean port?'],
    ['smtp_url = "x"', 'server.toml:1: there is no setting smtp_url; did you mean mail.smtp_url?'],
    ['[mial]\nfrom = "x"', 'server.toml:2: there is no setting mial.from; did you mean mail.from?'],
    ['colour = 1', 'server.toml:1: there is no setting colour; run `berth-server config check`'],
    ['port = { at = 80 }', 'server.toml: there is no setting port.at; '],
    ['port = 2026-01-01', 'server.toml:1: port must be a number.'],
    ['open_organizations = 1', 'server.toml:1: open_organizations must be true or false.'],
  ])('%s', (text, problem) => {
    expect(problemsOf(text)).toEqual([expect.stringContaining(problem)])
  })

  test('a file that is no TOML names the place and shows nothing of it', () => {
    const [problem = ''] = problemsOf('port = 80\n[mail]\nsmtp_url = smtp://u:hunter2@mail\n')
    expect(problem).toMatch(/^server\.toml:3:\d+: .*Write one `key = value` in a line/)
    expect(problem).not.toContain('hunter2')
  })
})
