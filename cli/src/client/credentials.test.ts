import {
  chmodSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../testing/berth.ts'
import { testIo } from '../testing/io.ts'
import {
  credentialsPath,
  type Entry,
  normalizeBaseUrl,
  readCredentials,
  updateCredentials,
} from './credentials.ts'

const entry = (token: string): Entry => ({
  access_token: token,
  refresh_token: null,
  expires_at: null,
  user: { id: 7, name: 'Ada', email: 'ada@example.com' },
  used_at: '2026-11-15T10:00:00Z',
})
/** Real waiting, because the lock concerns other processes. */
const io = () =>
  testIo({ now: Date.now, sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)) })

describe('where it is', () => {
  it.each([
    [{ BERTH_CONFIG_DIR: '/a', XDG_CONFIG_HOME: '/b', HOME: '/h' }, 'linux', '/a/credentials.json'],
    [{ XDG_CONFIG_HOME: '/b', HOME: '/h' }, 'linux', '/b/berth/credentials.json'],
    [{ HOME: '/h' }, 'darwin', '/h/.config/berth/credentials.json'],
    [{ APPDATA: '/r', HOME: '/h' }, 'win32', '/r/berth/credentials.json'],
  ])('%j on %s', (env, platform, path) => {
    expect(credentialsPath(env, platform)).toBe(path)
  })
})

describe('addresses', () => {
  it.each([
    ['https://Deploy.Example.com/', 'https://deploy.example.com'],
    ['https://example.com:443/berth/', 'https://example.com/berth'],
    ['http://localhost:3000', 'http://localhost:3000'],
    ['http://127.0.0.1:3000/', 'http://127.0.0.1:3000'],
    ['http://[::1]:3000', 'http://[::1]:3000'],
    ['http://berth.localhost', 'http://berth.localhost'],
  ])('%s is %s', (text, url) => expect(normalizeBaseUrl(text)).toBe(url))

  it.each([
    'http://deploy.example.com',
    'http://127.example.com',
    'http://localhost.example.com',
    'deploy.example.com',
    'ftp://deploy.example.com',
    'https://user:secret@deploy.example.com',
    'https://deploy.example.com/?x=1',
    '',
  ])('%s is refused', (text) => {
    expect(() => normalizeBaseUrl(text)).toThrow(expect.objectContaining({ exitCode: 2 }))
  })

  it('a password in the address is not repeated', () => {
    expect(() => normalizeBaseUrl('https://u:hunter2@h')).not.toThrow(/hunter2/)
  })
})

describe('the file', () => {
  it('is written with mode 0600 in a folder of mode 0700, whatever the umask', async () => {
    const path = join(temporaryFolder(), 'berth', 'credentials.json')
    const umask = process.umask(0)
    try {
      await updateCredentials(path, io(), () => ({ 'https://a': entry('one') }))
    } finally {
      process.umask(umask)
    }
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(statSync(join(path, '..')).mode & 0o777).toBe(0o700)
    expect(readdirSync(join(path, '..'))).toEqual(['credentials.json'])
    expect((await readCredentials(path))['https://a']?.access_token).toBe('one')
  })

  it.each([0o644, 0o640, 0o604, 0o620])(
    'of mode %o is refused, with what to type',
    async (mode) => {
      const path = join(temporaryFolder(), 'credentials.json')
      writeFileSync(path, JSON.stringify({ 'https://a': entry('one') }))
      chmodSync(path, mode)
      await expect(readCredentials(path)).rejects.toMatchObject({
        exitCode: 4,
        hint: expect.stringContaining(`chmod 600 '${path}'`),
      })
      await expect(updateCredentials(path, io(), () => ({}))).rejects.toMatchObject({ exitCode: 4 })
    },
  )

  it('that is something else is left alone', async () => {
    const path = join(temporaryFolder(), 'credentials.json')
    writeFileSync(path, '{"a":', { mode: 0o600 })
    await expect(updateCredentials(path, io(), () => ({}))).rejects.toMatchObject({ exitCode: 4 })
    expect(readFileSync(path, 'utf8')).toBe('{"a":')
    expect(existsSync(join(path, '..', 'credentials.lock'))).toBe(false)
  })

  it('keeps what a newer client put into an entry', async () => {
    const path = join(temporaryFolder(), 'credentials.json')
    const newer = { ...entry('one'), device: 'laptop' }
    writeFileSync(path, JSON.stringify({ 'https://a': newer }), { mode: 0o600 })
    await updateCredentials(path, io(), (before) => ({ ...before, 'https://b': entry('two') }))
    expect(JSON.parse(readFileSync(path, 'utf8'))['https://a']).toEqual(newer)
  })

  it('loses no entry to forty writers at once', async () => {
    const path = join(temporaryFolder(), 'credentials.json')
    const urls = Array.from({ length: 40 }, (_, i) => `https://host-${i}`)
    await Promise.all(
      urls.map((url) =>
        updateCredentials(path, io(), (before) => ({ ...before, [url]: entry(url) })),
      ),
    )
    expect(Object.keys(await readCredentials(path)).sort()).toEqual(urls.sort())
    expect(readdirSync(join(path, '..'))).toEqual(['credentials.json'])
  })

  it('is not blocked for ever by a command that was killed', async () => {
    const path = join(temporaryFolder(), 'credentials.json')
    const lock = join(path, '..', 'credentials.lock')
    writeFileSync(lock, '')
    utimesSync(lock, new Date(Date.now() - 11_000), new Date(Date.now() - 11_000))
    await updateCredentials(path, io(), () => ({ 'https://a': entry('one') }))
    expect(readdirSync(join(path, '..'))).toEqual(['credentials.json'])
  })

  it('is not written while another command holds the lock', async () => {
    const path = join(temporaryFolder(), 'credentials.json')
    writeFileSync(join(path, '..', 'credentials.lock'), '')
    const waiting = testIo() // time passes only here, so the lock stays fresh
    await expect(
      updateCredentials(path, waiting, () => ({ 'https://a': entry('one') })),
    ).rejects.toThrow(/another berth command holds/)
    expect(existsSync(path)).toBe(false)
  })
})
