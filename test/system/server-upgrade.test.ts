// `berth-server upgrade` with packages of real releases: a new version is ready afterwards, one that breaks is undone with
// the database, an upgrade that was killed ends at the next start, and what is not signed, older or damaged is refused.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Server } from '@berth/shared/api'
import Sqlite from 'better-sqlite3'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../fixtures/server/installation.ts'
import {
  type BuiltRelease,
  buildRelease,
  CRASHING_SERVER,
  signByStranger,
} from '../fixtures/server/releases.ts'
import { Upgradable } from '../fixtures/server/upgradable.ts'

const isRoot = process.getuid?.() === 0

interface Said {
  code: number | null
  text: string
}

describe.skipIf(!isRoot || process.platform !== 'linux')('berth-server upgrade', () => {
  let old: BuiltRelease
  let next: BuiltRelease
  let broken: BuiltRelease
  let foreign: BuiltRelease
  let platform: Upgradable

  beforeAll(async () => {
    old = buildRelease({ from: 'tree', version: '1.90.0', counter: 1_000 })
    next = buildRelease({ from: 'tree', version: '1.90.1', counter: 2_000 })
    broken = buildRelease({
      from: 'tree',
      version: '1.90.3',
      counter: 3_000,
      changes: CRASHING_SERVER,
    })
    platform = await Upgradable.open(old)
    foreign = signByStranger(next, join(platform.dir, 'foreign'))
  }, 900_000)
  afterAll(() => platform?.close(), 60_000)

  function begin(...args: string[]): { child: ChildProcess; ended: Promise<Said> } {
    const program = join(platform.serverOpt, 'current/bin/berth-server')
    const child = spawn(program, ['upgrade', ...args], {
      env: platform.serverEnvironment,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let text = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk) => {
        text += chunk
      })
    }
    return { child, ended: once(child, 'close').then(([code]) => ({ code, text })) }
  }
  const upgrade = (...args: string[]): Promise<Said> => begin(...args).ended
  const version = async (): Promise<string> =>
    (await platform.get<{ version: string }>('/api/health')).version
  const answers = (wanted: string): Promise<true> =>
    until(`version ${wanted}`, async () => (await version()) === wanted || undefined)
  const tables = (): string[] => {
    const db = new Sqlite(join(platform.dataDir, 'berth.db'), { readonly: true })
    try {
      const rows = db.prepare("select name from sqlite_master where type = 'table'").all()
      return rows.map((row) => (row as { name: string }).name)
    } finally {
      db.close()
    }
  }
  /** What must be as before after a refusal. */
  const files = (): string[] => readdirSync(platform.serverOpt).toSorted()

  test('refuses what is not signed by the right key, damaged, or not newer', async () => {
    const before = files()
    const say = async (...args: string[]): Promise<string> => {
      const { code, text } = await upgrade(...args)
      expect(code).toBe(1)
      return text
    }
    expect(await say()).toContain('Name the release')
    expect(await say('--from', join(platform.dir, 'nothing'))).toContain('SHA256SUMS is missing')
    expect(await say('--from', foreign.folder)).toContain('not signed with the key')
    expect(await say('--from', old.folder)).toContain('Version 1.90.0 runs already.')
    const copy = join(platform.dir, 'damaged')
    cpSync(next.folder, copy, { recursive: true })
    const archive = `berth-server-1.90.1-linux-${process.arch}.tar.gz`
    appendFileSync(join(copy, archive), 'x')
    expect(await say('--from', copy)).toContain('is damaged or was changed')
    const sums = readFileSync(join(next.folder, 'SHA256SUMS'), 'utf8')
    writeFileSync(join(copy, 'SHA256SUMS'), sums.replace('1.90.1', '1.99.1'))
    expect(await say('--from', copy)).toContain('not signed with the key')
    const deb = join(copy, 'berth-server_1.90.1_amd64.deb')
    writeFileSync(deb, '')
    expect(await say('--from', deb)).toContain('Take the archive')
    expect(files()).toEqual(before)
    expect(await version()).toBe('1.90.0')
  }, 120_000)

  test('returns by itself from a version that breaks, with the database', async () => {
    const server = await platform.post<Server>('/api/servers', { name: 'kept', hostname: 'h' })
    const { code, text } = await upgrade('--from', broken.folder)
    expect([code, text]).toEqual([1, expect.stringContaining('had migrated the database')])
    expect(text).toContain('Version 1.90.0 answers again.')
    expect(await version()).toBe('1.90.0')
    expect(platform.currentOf()).toBe('1.90.0')
    expect(tables()).not.toContain('broken')
    expect(await platform.get<Server>(`/api/servers/${server.id}`)).toMatchObject({ name: 'kept' })
    expect(files()).not.toContain('upgrade.json')
  }, 180_000)

  test('an upgrade that is killed after the switch is undone if the version breaks', async () => {
    const { child, ended } = begin('--from', broken.folder)
    await until('the switch', () => platform.currentOf() === '1.90.3' || undefined)
    child.kill('SIGKILL')
    await ended
    await answers('1.90.0')
    expect(platform.currentOf()).toBe('1.90.0')
    expect(tables()).not.toContain('broken')
    expect(files()).not.toContain('upgrade.json')
  }, 180_000)

  test('an upgrade that is killed before the switch changes nothing', async () => {
    const { child, ended } = begin('--from', next.folder)
    await until(
      'the upgrade',
      () => existsSync(join(platform.serverOpt, 'upgrade.json')) || undefined,
    )
    child.kill('SIGKILL')
    await ended
    const left = platform.currentOf()
    await answers(left)
    expect(files()).not.toContain('hold')
  }, 180_000)

  test('installs the new version and keeps the old one for a way back', async () => {
    if ((await version()) !== '1.90.1') {
      const { code, text } = await upgrade('--from', next.folder)
      expect([code, text]).toEqual([0, expect.stringContaining('Version 1.90.1 is ready.')])
    }
    expect(await version()).toBe('1.90.1')
    expect(files()).toEqual(expect.arrayContaining(['1.90.0', '1.90.1', 'current', 'previous']))
    expect(existsSync(join(platform.dataDir, 'upgrades/before-1.90.1.tar.gz'))).toBe(true)
    const { code, text } = await upgrade('--from', old.folder)
    expect([code, text]).toEqual([1, expect.stringContaining('is older than 1.90.1')])
  }, 180_000)
})
