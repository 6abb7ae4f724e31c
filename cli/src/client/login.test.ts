import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../testing/berth.ts'
import { testIo } from '../testing/io.ts'
import { checkToken, findIdentity } from './login.ts'

const flags = { url: undefined, org: undefined, cacert: undefined, verbose: false }
const entry = (token: string, usedAt: string) => ({
  access_token: token,
  refresh_token: null,
  expires_at: null,
  user: { id: 7, name: 'Ada', email: 'ada@example.com' },
  used_at: usedAt,
})

function stored(): { folder: string; path: string } {
  const folder = temporaryFolder()
  const path = join(folder, 'credentials.json')
  const file = {
    'https://old.example.com': entry('old', '2026-01-01T00:00:00Z'),
    'https://new.example.com': entry('new', '2026-02-01T00:00:00Z'),
  }
  writeFileSync(path, JSON.stringify(file), { mode: 0o600 })
  return { folder, path }
}

describe('the token that is used', () => {
  const cases = [
    ['the entry used last', {}, undefined, 'https://new.example.com', 'new'],
    [
      'BERTH_URL names the entry',
      { BERTH_URL: 'https://old.example.com' },
      undefined,
      'https://old.example.com',
      'old',
    ],
    [
      '--url beats BERTH_URL',
      { BERTH_URL: 'https://old.example.com' },
      'https://new.example.com/',
      'https://new.example.com',
      'new',
    ],
    [
      'BERTH_TOKEN beats the file',
      { BERTH_TOKEN: 'given', BERTH_URL: 'https://old.example.com' },
      undefined,
      'https://old.example.com',
      'given',
    ],
  ] as const
  it.each(cases)('%s', async (_, env, url, baseUrl, token) => {
    const io = testIo({ env: { ...env, BERTH_CONFIG_DIR: stored().folder } })
    expect(await findIdentity({ ...flags, url }, io)).toMatchObject({
      baseUrl,
      token,
      stored: null,
    })
  })

  it('BERTH_TOKEN beats BERTH_TOKEN_FILE, which beats the file', async () => {
    const { folder } = stored()
    const file = join(folder, 'token')
    writeFileSync(file, ' from-file\n')
    const env = { BERTH_CONFIG_DIR: folder, BERTH_URL: 'https://x', BERTH_TOKEN_FILE: file }
    expect((await findIdentity(flags, testIo({ env }))).token).toBe('from-file')
    const both = testIo({ env: { ...env, BERTH_TOKEN: 'given' } })
    expect((await findIdentity(flags, both)).token).toBe('given')
  })

  it('BERTH_TOKEN is not sent to whatever server was used last', async () => {
    const io = testIo({ env: { BERTH_TOKEN: 'given', BERTH_CONFIG_DIR: stored().folder } })
    await expect(findIdentity(flags, io)).rejects.toMatchObject({
      exitCode: 2,
      hint: 'set BERTH_URL, or give --url',
    })
  })

  it('a stored token is not sent to another server', async () => {
    const io = testIo({ env: { BERTH_CONFIG_DIR: stored().folder } })
    const elsewhere = { ...flags, url: 'https://elsewhere.example.com' }
    await expect(findIdentity(elsewhere, io)).rejects.toMatchObject({
      exitCode: 4,
      message: expect.stringContaining('not logged in to https://elsewhere.example.com'),
    })
  })

  it('--url and BERTH_URL are for one command: the file stays as it was', async () => {
    const { folder, path } = stored()
    const before = readFileSync(path, 'utf8')
    const url = 'https://old.example.com'
    const io = testIo({ env: { BERTH_CONFIG_DIR: folder } })
    expect((await findIdentity({ ...flags, url }, io)).token).toBe('old')
    const named = testIo({ env: { BERTH_CONFIG_DIR: folder, BERTH_URL: url } })
    expect((await findIdentity(flags, named)).token).toBe('old')
    expect((await findIdentity(flags, io)).token).toBe('new')
    expect(readFileSync(path, 'utf8')).toBe(before)
  })

  it('a folder’s link chooses among known addresses, and never adds one', async () => {
    const { folder } = stored()
    const cwd = temporaryFolder()
    mkdirSync(join(cwd, '.berth'))
    const link = (url: string) =>
      writeFileSync(join(cwd, '.berth/project.json'), JSON.stringify({ project: 'shop', url }))
    const io = testIo({ cwd, env: { BERTH_CONFIG_DIR: folder } })
    link('https://old.example.com')
    expect((await findIdentity(flags, io)).token).toBe('old')
    const named = { ...flags, url: 'https://new.example.com' }
    expect((await findIdentity(named, io)).token).toBe('new')
    link('https://evil.example.com')
    await expect(findIdentity(flags, io)).rejects.toMatchObject({
      exitCode: 4,
      message: expect.stringContaining('not logged in to https://evil.example.com'),
    })
  })

  it('nobody is logged in', async () => {
    const io = testIo({ env: { BERTH_CONFIG_DIR: temporaryFolder() } })
    await expect(findIdentity(flags, io)).rejects.toMatchObject({ exitCode: 4 })
  })
})

it.each(['', 'two words', 'new\nline', 'ünicode', 'x'.repeat(513)])(
  '%j is no token, and is not repeated in the error',
  (text) => {
    expect(() => checkToken(text, 'stdin')).toThrow('stdin does not hold a token')
  },
)
