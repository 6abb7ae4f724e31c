import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterAll, expect, test } from 'vitest'
import { ROWS } from '../settings/table.ts'
import { runCommand } from './commands.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-support-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('it says what is set up, and holds no secret', async () => {
  const secrets: Record<string, string> = {
    DATABASE_URL: 'postgres://berth:canary-database@127.0.0.1:1/none',
    BERTH_SMTP_URL: 'smtp://berth:canary%2Fmail@127.0.0.1:1',
    BERTH_LEGACY_WEBHOOK_SECRET: 'canary-webhook',
    BERTH_METRICS_TOKEN: 'canary-metrics-token',
    BERTH_OIDC_CLIENT_SECRET: 'canary-provider',
    BERTH_TRACES_HEADERS: 'authorization=canary-collector',
    BERTH_BACKUP_S3_SECRET_ACCESS_KEY: 'canary-storage',
  }
  const secret = ROWS.filter(([, row]) => row.secret).map(([, row]) => row.variable)
  expect(Object.keys(secrets).toSorted()).toEqual(secret.toSorted())
  const env = {
    ...secrets,
    BERTH_CONFIG_FILE: '',
    BERTH_DATA_DIR: folder,
    BERTH_MAIL_FROM: 'berth@example.com',
    BERTH_BACKUP_S3_ACCESS_KEY_ID: 'shown',
    BERTH_OIDC_ISSUER: 'https://accounts.example.com',
    BERTH_OIDC_CLIENT_ID: 'berth',
    BERTH_PORT: '0',
    BERTH_AGENT_PORT: '0',
  }
  const file = join(folder, 'bundle.tar.gz')
  const said: string[] = []
  const print = (text: string): void => void said.push(text)
  expect(await runCommand({ args: ['support-bundle', '--to', file], env, print })).toBe(0)
  expect(said.join('\n')).toContain(file)
  expect(statSync(file).mode & 0o777).toBe(0o600)

  const content = gunzipSync(readFileSync(file)).toString('latin1')
  expect(content).not.toContain('canary')
  const names = execFileSync('tar', ['-tzf', file], { encoding: 'utf8' }).trim().split('\n')
  expect(names).toEqual(['system.json', 'log.txt', 'settings.json', 'doctor.json'])
  const read = (name: string): string =>
    execFileSync('tar', ['-xzOf', file, name], { encoding: 'utf8' })
  expect(JSON.parse(read('system.json'))).toMatchObject({ database: 'postgres' })
  expect(read('settings.json')).toContain('BERTH_MAIL_FROM')
  expect(read('doctor.json')).toContain('database')
  // never over another file
  await expect(runCommand({ args: ['support-bundle', '--to', file], env, print })).rejects.toThrow(
    'EEXIST',
  )
})
