// Backups in a bucket and on a schedule: parts of an upload, retention, alerts when backups fail and work again.
import { randomBytes } from 'node:crypto'
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { BUCKETS } from '@berth/shared'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { nameBackup } from '../../control-plane/src/backup/names.ts'
import { openPlace } from '../../control-plane/src/backup/places.ts'
import { readConfig } from '../../control-plane/src/config.ts'
import { listMails } from '../fixtures/people/people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { type S3Server, startS3 } from '../fixtures/platform/s3.ts'
import { installationEnv, runServerCommand } from '../fixtures/platform/server-command.ts'
import { until } from '../fixtures/server/installation.ts'

const root = mkdtempSync(join(tmpdir(), 'berth-places-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))
const fresh = (): string => mkdtempSync(join(root, 'x'))

describe('a bucket', () => {
  let s3: S3Server
  beforeAll(async () => {
    s3 = await startS3('backups')
  })
  afterAll(() => s3.close())

  test('holds a backup in several parts, lists, gives and removes it', async () => {
    const { backup } = readConfig(s3.env)
    const place = openPlace('s3://backups/some/folder', backup.s3)
    const content = randomBytes(2 * BUCKETS.uploadBytes + 12_345)
    const name = nameBackup(Date.UTC(2026, 0, 2, 3, 4, 5, 6), true)
    const pieces = function* () {
      for (let at = 0; at < content.length; at += 100_000) yield content.subarray(at, at + 100_000)
    }
    expect(await place.write(name, Readable.from(pieces()))).toBe(content.length)
    expect(await place.list()).toEqual([
      { name, bytes: content.length, takenAt: Date.UTC(2026, 0, 2, 3, 4, 5, 6) },
    ])
    const chunks: Buffer[] = []
    for await (const chunk of await place.read(name)) chunks.push(chunk)
    expect(Buffer.concat(chunks).equals(content)).toBe(true)
    await place.remove(name)
    expect(await place.list()).toEqual([])
  })

  test('is refused with another secret key, because every request is signed', async () => {
    const env = { ...s3.env, BERTH_BACKUP_S3_SECRET_ACCESS_KEY: 'another' }
    const place = openPlace('s3://backups/some/folder', readConfig(env).backup.s3)
    await expect(place.list()).rejects.toThrow(/Check BERTH_BACKUP_S3_ENDPOINT/)
    await expect(place.write('x.tar.gz', Readable.from(['x']))).rejects.toThrow(
      /could not be stored/,
    )
    expect(s3.refused()).toBeGreaterThan(0)
  })

  test('shows nothing of an upload that fails', async () => {
    const { backup } = readConfig(s3.env)
    const place = openPlace('s3://backups/broken', backup.s3)
    const broken = async function* () {
      yield randomBytes(BUCKETS.uploadBytes + 1_000)
      throw new Error('the database went away')
    }
    const name = nameBackup(1, false)
    await expect(place.write(name, Readable.from(broken()))).rejects.toThrow(
      'the database went away',
    )
    expect(await place.list()).toEqual([])
    await expect(place.read(name)).rejects.toThrow('There is no backup at')
  })

  test('that refuses says so without a credential', async () => {
    const env = {
      ...s3.env,
      BERTH_BACKUP_S3_ACCESS_KEY_ID: 'unknown',
      BERTH_BACKUP_S3_SECRET_ACCESS_KEY: 'wrong-and-secret',
    }
    const place = openPlace('s3://backups/x', readConfig(env).backup.s3)
    const failed = await place.list().catch((error: Error) => error)
    expect((failed as Error).message).toMatch(/cannot be listed: .*403/)
    expect((failed as Error).message).not.toContain('wrong-and-secret')
    const none = openPlace('s3://no-bucket/x', readConfig(s3.env).backup.s3)
    await expect(none.list()).rejects.toThrow('There is no bucket')
    expect(() => openPlace('s3://backups/x', undefined)).toThrow('BERTH_BACKUP_S3_ACCESS_KEY_ID')
    expect(() => openPlace('s3:backups', undefined)).toThrow('not an address such as')
  })

  test.each(ENGINES)('takes a backup of %s by command, and gives it back', async (engine) => {
    const cp = await TestControlPlane.start(engine)
    try {
      await cp.setUp()
      const env = { ...installationEnv(cp.dir, cp.running.ctx.config.databaseUrl), ...s3.env }
      const to = `s3://backups/${engine}`
      const { said } = await runServerCommand(['backup', '--to', to], env)
      const address = said.split('\n')[0] as string
      expect(address).toMatch(new RegExp(`^${to}/berth-.*\\.tar\\.gz$`))
      expect((await runServerCommand(['backup', 'list', '--to', to], env)).said).toContain(
        '1 backups',
      )
      const target = fresh()
      copyFileSync(join(cp.dir, 'kek'), join(target, 'kek'))
      const restored = await runServerCommand(['restore', address], {
        ...s3.env,
        BERTH_DATA_DIR: target,
      })
      expect(restored.said).toContain('Every table is equal')
      expect(readdirSync(target)).toContain('berth.db')
    } finally {
      await cp.close()
    }
  })
})

describe.each(ENGINES)('scheduled backups on %s', (engine) => {
  let cp: TestControlPlane
  afterEach(() => cp.close())

  const HOUR = 3_600_000
  const runs = async (count: number) =>
    until(`run ${count}`, async () => {
      const rows = await cp.running.ctx.db
        .selectFrom('backupRuns')
        .selectAll()
        .where('finishedAt', 'is not', null)
        .orderBy('id')
        .execute()
      return rows.length >= count ? rows : undefined
    })

  test('are made when due and expire, and failures are told once', async () => {
    const folder = join(fresh(), 'backups')
    const env = {
      BERTH_BACKUP_TO: folder,
      BERTH_BACKUP_SCHEDULE: '0 * * * *',
      BERTH_BACKUP_KEEP: '2',
    }
    cp = await TestControlPlane.start(engine, { env })
    await cp.setUp()
    const mails = async () => (await listMails(cp)).map((m) => `${m.subject} → ${m.recipient}`)
    for (let n = 1; n <= 3; n++) {
      cp.clock.offsetMs += HOUR
      const made = await runs(n)
      expect(made.at(-1)).toMatchObject({ error: null, place: folder })
    }
    expect(readdirSync(folder)).toHaveLength(2)
    expect(await mails()).toEqual([])

    // the folder becomes a file, so nothing can be written there
    rmSync(folder, { recursive: true })
    writeFileSync(folder, '')
    for (let n = 4; n <= 5; n++) {
      cp.clock.offsetMs += HOUR
      expect((await runs(n)).at(-1)?.error).toMatch(/EEXIST|ENOTDIR/)
    }
    const FAILED = 'The backup of Berth failed → ada@example.com'
    await until('the mail', async () => (await mails()).length > 0 || undefined)
    expect(await mails()).toEqual([FAILED])
    const list = await runServerCommand(['backup', 'list', '--to', fresh()], {
      ...installationEnv(cp.dir, cp.running.ctx.config.databaseUrl),
    })
    expect(list.said.match(/failed/g)).toHaveLength(2)

    // several moments that passed are made up for once
    rmSync(folder)
    cp.clock.offsetMs += 5 * HOUR
    expect((await runs(6)).at(-1)?.error).toBe(null)
    await until('the other mail', async () => (await mails()).length > 1 || undefined)
    expect(await mails()).toEqual([FAILED, 'The backup of Berth works again → ada@example.com'])
    expect(readdirSync(folder)).toHaveLength(1)
    const { body } = await cp.call<{ verb: string }[]>('GET', '/api/admin/audit?verb=alert.begin')
    expect(body).toHaveLength(1)
  })
})

test('settings of backups are checked at the start', () => {
  const read = (env: Record<string, string>) => () => readConfig(env)
  expect(read({ BERTH_BACKUP_SCHEDULE: '0 3 * * *' })).toThrow('BERTH_BACKUP_TO')
  expect(read({ BERTH_BACKUP_SCHEDULE: 'daily', BERTH_BACKUP_TO: '/b' })).toThrow('five fields')
  expect(read({ BERTH_BACKUP_KEEP: '-1' })).toThrow('BERTH_BACKUP_KEEP must be')
  expect(read({ BERTH_BACKUP_S3_ACCESS_KEY_ID: 'x' })).toThrow('must be set together')
  const both = { BERTH_BACKUP_PASSPHRASE_FILE: '/p', BERTH_BACKUP_RECIPIENTS: 'age1x' }
  expect(read(both)).toThrow('Only one of')
})
