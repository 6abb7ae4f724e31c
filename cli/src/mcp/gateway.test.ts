// The login and installation of a call: looked up for each call, but never at another installation.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../testing/berth.ts'
import { testIo } from '../testing/io.ts'
import { createGateway } from './gateway.ts'

const entry = (token: string, usedAt: string) => ({
  access_token: token,
  refresh_token: null,
  expires_at: '2036-01-01T00:00:00Z',
  user: { id: 7, name: 'Ada', email: 'ada@example.com' },
  used_at: usedAt,
})
const FLAGS = { url: undefined, org: undefined, cacert: undefined, verbose: false }

test('a login takes effect at the next call; a later one elsewhere leads nowhere else', async () => {
  const folder = temporaryFolder()
  const file = join(folder, 'credentials.json')
  const store = (entries: object) => writeFileSync(file, JSON.stringify(entries), { mode: 0o600 })
  const gateway = createGateway(FLAGS, testIo({ env: { BERTH_CONFIG_DIR: folder } }))
  const open = () => gateway.open(new AbortController().signal)
  await expect(open()).rejects.toMatchObject({ exitCode: 4, message: 'not logged in' })
  expect(gateway.baseUrl).toBeUndefined()

  const first = entry('berth_one', '2026-11-15T09:00:00Z')
  store({ 'https://one.example.com': first })
  expect((await open()).api.baseUrl).toBe('https://one.example.com')
  store({
    'https://one.example.com': first,
    'https://two.example.com': entry('berth_two', '2026-11-15T10:00:00Z'),
  })
  expect((await open()).api.baseUrl).toBe('https://one.example.com')
  store({ 'https://two.example.com': entry('berth_two', '2026-11-15T10:00:00Z') })
  await expect(open()).rejects.toMatchObject({ exitCode: 4 })
})

test('what a call writes goes to stderr, and it ends with the call', async () => {
  const env = { BERTH_URL: 'https://one.example.com', BERTH_TOKEN: 'berth_one' }
  const io = testIo({ env })
  const stop = new AbortController()
  const opened = await createGateway(FLAGS, io).open(stop.signal)
  expect(opened.io.stdout).toBe(io.stderr)
  const asleep = opened.io.sleep(60_000)
  stop.abort()
  await expect(asleep).rejects.toMatchObject({ exitCode: 130 })
})
