import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { ROWS } from '../settings/table.ts'
import { runCommand } from './commands.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-check-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function check(env: NodeJS.ProcessEnv, ...args: string[]) {
  const said: string[] = []
  const print = (text: string): void => void said.push(text)
  const code = await runCommand({ args: ['config', 'check', ...args], env, print })
  return { code, said: said.join('\n') }
}

function write(text: string): string {
  const file = join(folder, 'server.toml')
  writeFileSync(file, text, { mode: 0o640 })
  return file
}

const SECRETS = {
  DATABASE_URL: 'postgres://berth:hunter2@db/berth',
  BERTH_LEGACY_WEBHOOK_SECRET: 'hunter2',
}

test('shows every setting with its value and its source, and no secret', async () => {
  const file = write('port = 8080\n[mail]\nsmtp_url = "smtp://u:hunter2@m"\nfrom = "b@example.com"')
  const env = { ...SECRETS, BERTH_CONFIG_FILE: file, BERTH_DATA_DIR: '/data', BERTH_HOST: '::1' }
  const { code, said } = await check(env)
  expect(code).toBe(0)
  for (const [, { key, variable }] of ROWS) expect(said).toContain(`\n${key ?? variable} `)
  expect(said).toMatch(new RegExp(`^port +8080 +${file}:1$`, 'm'))
  expect(said).toMatch(/^host +::1 +environment, BERTH_HOST$/m)
  expect(said).toMatch(/^agents\.port +7443 +default$/m)
  expect(said).toMatch(/^keys\.file +\/data\/kek +default$/m)
  expect(said).toMatch(new RegExp(`^mail\\.smtp_url +set +${file}:3$`, 'm'))
  expect(said).toMatch(/^database\.url +set +environment, DATABASE_URL$/m)
  expect(said).not.toContain('hunter2')
  const { said: json } = await check(env, '--json')
  expect(json).not.toContain('hunter2')
  const { settings, ...rest } = JSON.parse(json)
  expect(rest).toEqual({ file, problems: [], warnings: [] })
  expect(settings).toContainEqual({
    key: 'mail.smtp_url',
    variable: 'BERTH_SMTP_URL',
    value: 'set',
    secret: true,
    source: 'file',
    file,
    line: 3,
  })
})

test('reports everything that is wrong at once, and ends with 1', async () => {
  const file = write('prot = 1\nlog = "loud"\n')
  const env = { BERTH_CONFIG_FILE: file, BERTH_PORT: '-1', BERTH_HOTS: 'x' }
  const { code, said } = await check(env)
  expect(code).toBe(1)
  expect(said.split('\n').slice(-5)).toEqual([
    'warning: BERTH_HOTS is no setting of the control plane; did you mean BERTH_HOST?',
    'problem: BERTH_PORT must be a port from 0 to 65535, got "-1".',
    expect.stringMatching(/^problem: \S+:2: log must be one of trace, .*, got "loud"\.$/),
    expect.stringMatching(/^problem: \S+:1: there is no setting prot; did you mean port\?$/),
    'The control plane does not start with these settings: 3 problems.',
  ])
  expect(said).toMatch(/^port +wrong +environment, BERTH_PORT$/m)
  const json = JSON.parse((await check(env, '--json')).said)
  expect([json.problems.length, json.warnings.length]).toEqual([3, 1])
  await expect(check({}, '--yaml')).rejects.toThrow('There is no option --yaml; there is --json.')
})
