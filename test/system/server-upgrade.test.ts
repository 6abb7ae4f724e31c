// `berth-server upgrade` with packages of real releases: a new version is ready afterwards, one that breaks is undone with
// the database, an upgrade that was killed ends at the next start, and what is not signed, older or damaged is refused.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  cpSync,
  createReadStream,
  existsSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { basename, join } from 'node:path'
import type { Server as BerthServer } from '@berth/shared/api'
import Sqlite from 'better-sqlite3'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { missing } from '../fixtures/platform/components.ts'
import { createDatabase } from '../fixtures/platform/postgres.ts'
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

function begin(
  platform: Upgradable,
  ...args: string[]
): { child: ChildProcess; ended: Promise<Said> } {
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

const buildBroken = (): BuiltRelease =>
  buildRelease({ from: 'tree', version: '1.90.3', counter: 3_000, changes: CRASHING_SERVER })

describe.skipIf(!isRoot || process.platform !== 'linux')('berth-server upgrade', () => {
  let old: BuiltRelease
  let next: BuiltRelease
  let broken: BuiltRelease
  let foreign: BuiltRelease
  let platform: Upgradable

  beforeAll(async () => {
    old = buildRelease({ from: 'tree', version: '1.90.0', counter: 1_000 })
    next = buildRelease({ from: 'tree', version: '1.90.1', counter: 2_000 })
    broken = buildBroken()
    platform = await Upgradable.open(old)
    foreign = signByStranger(next, join(platform.dir, 'foreign'))
  }, 900_000)
  afterAll(() => platform?.close(), 60_000)

  const upgrade = (...args: string[]): Promise<Said> => begin(platform, ...args).ended
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
    expect(await say('--from', deb)).toContain('not a Debian package')
    expect(files()).toEqual(before)
    expect(await version()).toBe('1.90.0')
  }, 120_000)

  test('returns by itself from a version that breaks, with the database', async () => {
    const server = await platform.post<BerthServer>('/api/servers', { name: 'kept', hostname: 'h' })
    const { code, text } = await upgrade('--from', broken.folder)
    expect([code, text]).toEqual([1, expect.stringContaining('had migrated the database')])
    expect(text).toContain('Version 1.90.0 answers again.')
    expect(await version()).toBe('1.90.0')
    expect(platform.currentOf()).toBe('1.90.0')
    expect(tables()).not.toContain('broken')
    expect(await platform.get<BerthServer>(`/api/servers/${server.id}`)).toMatchObject({
      name: 'kept',
    })
    expect(files()).not.toContain('upgrade.json')
  }, 180_000)

  test('an upgrade that is killed after the switch is undone if the version breaks', async () => {
    const { child, ended } = begin(platform, '--from', broken.folder)
    await until('the switch', () => platform.currentOf() === '1.90.3' || undefined)
    child.kill('SIGKILL')
    await ended
    await answers('1.90.0')
    expect(platform.currentOf()).toBe('1.90.0')
    expect(tables()).not.toContain('broken')
    expect(files()).not.toContain('upgrade.json')
  }, 180_000)

  test('an upgrade that is killed before the switch changes nothing', async () => {
    const { child, ended } = begin(platform, '--from', next.folder)
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

const isPossible = isRoot && process.platform === 'linux' && !missing('postgres')

describe.skipIf(!isPossible)('on PostgreSQL, from an address', () => {
  let platform: Upgradable
  let site: Server
  let address = ''
  const releases = new Map<string, BuiltRelease>()

  beforeAll(async () => {
    const old = buildRelease({ from: 'tree', version: '1.90.0', counter: 1_000 })
    const next = buildRelease({ from: 'tree', version: '1.90.1', counter: 2_000 })
    for (const release of [next, buildBroken()]) releases.set(release.version, release)
    platform = await Upgradable.open(old, { DATABASE_URL: await createDatabase() })
    site = createServer((asked, answer) => {
      const [, version = '', name = ''] = (asked.url ?? '').split('/')
      const file = join(releases.get(version)?.folder ?? '/none', basename(name))
      if (!existsSync(file)) return void answer.writeHead(404).end()
      createReadStream(file).pipe(answer)
    })
    await once(site.listen(0, '127.0.0.1'), 'listening')
    address = `http://127.0.0.1:${(site.address() as AddressInfo).port}`
  }, 900_000)
  afterAll(async () => {
    site?.close()
    await platform?.close()
  }, 60_000)

  const upgrade = (version: string): Promise<Said> =>
    begin(platform, '--from', `${address}/${version}/`).ended
  async function query(text: string): Promise<string[]> {
    const client = new pg.Client({ connectionString: platform.serverEnvironment.DATABASE_URL })
    await client.connect()
    try {
      return (await client.query({ text, rowMode: 'array' })).rows.flat()
    } finally {
      await client.end()
    }
  }

  test('what is not there is refused', async () => {
    const { code, text } = await upgrade('1.99.0')
    expect([code, text]).toEqual([1, expect.stringContaining('SHA256SUMS is missing')])
  }, 60_000)

  test('a version that breaks is undone with its migrated database, which stays beside it', async () => {
    const server = await platform.post<{ id: number }>('/api/servers', {
      name: 'kept',
      hostname: 'h',
    })
    const { code, text } = await upgrade('1.90.3')
    expect([code, text]).toEqual([1, expect.stringContaining('had migrated the database')])
    expect(await platform.get('/api/health')).toMatchObject({ version: '1.90.0' })
    expect(await platform.get(`/api/servers/${server.id}`)).toMatchObject({ name: 'kept' })
    const schemas = await query(
      "select table_schema from information_schema.tables where table_name = 'broken'",
    )
    expect(schemas).toEqual([expect.stringMatching(/^berth_undone_/)])
  }, 180_000)

  test('a good one is ready afterwards', async () => {
    const { code, text } = await upgrade('1.90.1')
    expect([code, text]).toEqual([0, expect.stringContaining('Version 1.90.1 is ready.')])
    expect(await platform.get('/api/health')).toMatchObject({ version: '1.90.1' })
  }, 180_000)

  test('beside another control plane the database stays as it is, and the old version works with it', async () => {
    const renew = () =>
      query(`insert into replicas (id, host, pid, address, started_at, version, lease_until)
        values ('other', 'elsewhere.example.com', 7, 'x', 1, '1.90.1',
          floor(extract(epoch from clock_timestamp()) * 1000) + 9000)
        on conflict (id) do update set lease_until = excluded.lease_until`)
    await renew()
    const renewing = setInterval(() => void renew(), 1_000)
    const { code, text } = await upgrade('1.90.3').finally(() => clearInterval(renewing))
    expect([code, text]).toEqual([
      1,
      expect.stringMatching(
        /neither saved nor restored: process 7 on elsewhere\.example\.com[\s\S]*Version 1\.90\.1 is back\. Other control planes/,
      ),
    ])
    expect(await platform.get('/api/health')).toMatchObject({ version: '1.90.1' })
    const found = await query("select kind from migrations where name = '9999-broken'")
    expect(found).toEqual(['expand'])
  }, 180_000)
})
