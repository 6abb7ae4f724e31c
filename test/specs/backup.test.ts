// `berth-server backup` and `restore` on both databases, also from one to the other: what is restored is equal, and
// what cannot be restored is refused with the reason, before anything is written.
import { execFileSync, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { openSource } from '../../control-plane/src/backup/backup.ts'
import { readConfig } from '../../control-plane/src/config.ts'
import { createKek } from '../../control-plane/src/keys/secret-store.ts'
import { openPostgres, openSqlite } from '../../control-plane/src/store/engine/database.ts'
import { migrate } from '../../control-plane/src/store/engine/migrate.ts'
import { planMigrations } from '../../control-plane/src/store/engine/migrations.ts'
import { changeArchive, readLogs, refusal, sumTables } from '../fixtures/platform/backups.ts'
import { ENGINES, type EngineName } from '../fixtures/platform/engines.ts'
import { makeFullFolder } from '../fixtures/platform/full-folder.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { createDatabase } from '../fixtures/platform/postgres.ts'
import {
  installationEnv,
  runServerCommand,
  type Said,
} from '../fixtures/platform/server-command.ts'
import { until } from '../fixtures/server/installation.ts'

type Env = Record<string, string>

const root = mkdtempSync(join(tmpdir(), 'berth-backup-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))
const fresh = (): string => mkdtempSync(join(root, 'x'))

/** An empty installation with the key of another. */
async function emptyInstallation(engine: EngineName, kek: string): Promise<Env> {
  const dir = fresh()
  copyFileSync(kek, join(dir, 'kek'))
  return installationEnv(dir, engine === 'postgres' ? await createDatabase() : undefined)
}

const onlyFile = (folder: string): string => {
  const [name, ...more] = readdirSync(folder)
  if (!name || more.length > 0) throw new Error(`not one file: ${[name, ...more].join(', ')}`)
  return join(folder, name)
}

describe.each(ENGINES)('a backup on %s', (engine) => {
  let p: Platform
  let env: Env
  let kek: string
  let taskId: number
  let passphrase: string
  let whole: string

  beforeAll(async () => {
    p = await Platform.start(engine)
    kek = join(p.cp.dir, 'kek')
    env = installationEnv(p.cp.dir, p.cp.running.ctx.config.databaseUrl)
    const environment = await p.environment('main')
    p.executor.script = (attempt) => {
      for (let n = 0; n < 200; n++) attempt.say(`line ${n} ${randomBytes(600).toString('hex')}\n`)
      attempt.succeed()
    }
    taskId = (await p.deploy(environment.id)).body.id
    await p.settled(taskId)
    p.killAgent() // the control plane restarts below, and nothing more is deployed
    await p.cp.call('PUT', `/api/environments/${environment.id}/variables/NAME`, {
      value: 'Ünï\n☃',
    })
    passphrase = join(fresh(), 'passphrase')
    writeFileSync(passphrase, 'correct horse battery staple\n')
    const folder = fresh()
    await runServerCommand(['backup', '--to', folder, '--passphrase-file', passphrase], env)
    whole = onlyFile(folder)
  })
  afterAll(() => p.close())

  const restore = (file: string, to: Env, ...more: string[]): Promise<Said> =>
    runServerCommand(['restore', file, '--passphrase-file', passphrase, ...more], to)

  test('is one private, encrypted file without the key, and a list shows it', async () => {
    expect(whole).toMatch(/berth-[\dT.Z-]+\.tar\.gz\.age$/)
    expect(statSync(whole).mode & 0o777).toBe(0o600)
    const { said } = await runServerCommand(['backup', 'list', '--to', join(whole, '..')], env)
    expect(said).toContain(whole.split('/').at(-1))
    expect(said).toContain('1 backups')
    // standard programs read one without encryption
    const folder = fresh()
    const made = await runServerCommand(['backup', '--to', folder], env)
    expect(made.said).toContain('not encrypted')
    const files = fresh()
    execFileSync('tar', ['-xzf', onlyFile(folder), '-C', files])
    const check = ['-c', 'cat sums/* | sha256sum --check --quiet']
    execFileSync('sh', check, { cwd: files })
    const found = spawnSync('grep', ['-rlF', readFileSync(kek, 'utf8').trim(), files])
    expect([found.status, String(found.stdout)]).toEqual([1, ''])
  })

  test.each(ENGINES)(
    'is restored into %s: every table is equal by hash, and every log by bytes',
    async (to) => {
      await p.cp.running.close()
      const before = await sumTables(env)
      const folder = fresh()
      await runServerCommand(['backup', '--to', folder, '--passphrase-file', passphrase], env)
      const target = await emptyInstallation(to, kek)
      const { said } = await restore(onlyFile(folder), target)
      expect(said).toContain('Every table is equal by count and hash')
      const made = to === 'sqlite' ? ['berth.db', 'logs'] : [] // PostgreSQL has the logs too
      expect(readdirSync(target.BERTH_DATA_DIR as string).toSorted()).toEqual(
        ['berth.lock', 'kek', ...made].toSorted(),
      )
      expect(await sumTables(target)).toEqual(before)
      const restored = await readLogs(target)
      expect(restored).toEqual(await readLogs(env))
      expect(Object.values(restored).join('').length).toBeGreaterThan(200_000)
      await p.cp.reopen()
    },
  )

  test('is rehearsed without a trace', async () => {
    const target = await emptyInstallation(engine, kek)
    const scratch = fresh()
    vi.stubEnv('TMPDIR', scratch) // other tests restore at the same time
    const { said } = await restore(whole, target, '--rehearse')
    vi.unstubAllEnvs()
    expect(said).toContain('Rehearsed')
    expect(readdirSync(target.BERTH_DATA_DIR as string)).toEqual(['kek'])
    expect(readdirSync(scratch)).toEqual([])
  })

  test('shows one moment while writes go on', async () => {
    const { db } = p.cp.running.ctx
    let stop = false
    let pairs = 0
    const writing = (async () => {
      while (!stop) {
        pairs += 1
        const [name, createdAt] = [`pair ${pairs}`, pairs]
        await db.transaction().execute(async (tx) => {
          await tx
            .insertInto('organizations')
            .values({ name, slug: `pair-${pairs}`, createdAt })
            .execute()
          await tx
            .insertInto('users')
            .values({ name, email: `pair-${pairs}@example.com`, createdAt })
            .execute()
        })
        await new Promise((resolve) => setImmediate(resolve))
      }
    })()
    try {
      await until('the first pair', () => pairs > 1 || undefined)
      for (let round = 0; round < 3; round++) {
        const folder = fresh()
        await runServerCommand(['backup', '--to', folder], env)
        const target = await emptyInstallation('sqlite', kek)
        await runServerCommand(['restore', onlyFile(folder)], target)
        const source = await openSource(readConfig(target))
        const count = async (name: string): Promise<number> => {
          const table = source.tables.find((t) => t.name === name)
          if (!table) throw new Error(name)
          const at = table.columns.indexOf('name')
          let n = 0
          for await (const rows of source.rows(table)) {
            n += rows.filter((row) => String(row[at]).startsWith('pair ')).length
          }
          return n
        }
        const organizations = await count('organizations')
        expect(await count('users')).toBe(organizations)
        expect(organizations).toBeGreaterThan(0)
        await source.close()
      }
    } finally {
      stop = true
      await writing
    }
  })

  test('is refused if a byte is changed or missing, and nothing is written', async () => {
    const folder = fresh()
    await runServerCommand(['backup', '--to', folder], env)
    for (const file of [whole, onlyFile(folder)]) {
      const bytes = readFileSync(file)
      const broken = join(fresh(), 'broken')
      const target = await emptyInstallation(engine, kek)
      const judge = async (content: Buffer): Promise<void> => {
        writeFileSync(broken, content)
        expect(await refusal(restore(broken, target))).toMatch(/damaged|not a backup/)
        expect(readdirSync(target.BERTH_DATA_DIR as string)).toEqual(['kek'])
      }
      for (const part of [0, 0.3, 0.7])
        await judge(bytes.subarray(0, Math.floor(bytes.length * part)))
      await judge(bytes.subarray(0, -1))
      for (const part of [0.2, 0.5, 0.9]) {
        const flipped = Buffer.from(bytes)
        const at = Math.floor(bytes.length * part)
        flipped[at] = (flipped[at] as number) ^ 0x10
        await judge(flipped)
      }
    }
  })

  test('is refused with another passphrase, key or place, and from a newer release', async () => {
    const other = join(fresh(), 'other')
    writeFileSync(other, 'another passphrase')
    const target = await emptyInstallation(engine, kek)
    const open = (file: string, to: Env, ...args: string[]): Promise<string> =>
      refusal(runServerCommand(['restore', file, ...args], to))
    expect(await open(whole, target, '--passphrase-file', other)).toContain('passphrase is wrong')
    expect(await open(whole, target)).toContain('The backup is encrypted')
    expect(await open(join(root, 'none'), target)).toContain('There is no backup at')

    const stranger = fresh()
    createKek(join(stranger, 'kek'))
    const wrongKey = { ...target, BERTH_DATA_DIR: stranger }
    expect(await refusal(restore(whole, wrongKey))).toContain('is not the key of this backup')
    expect(readdirSync(stranger)).toEqual(['kek'])

    expect(await refusal(restore(whole, env))).toMatch(
      /A control plane uses|never overwrites|nothing is ever overwritten/,
    )
    const used = await emptyInstallation(engine, kek)
    await restore(whole, used)
    expect(await refusal(restore(whole, used))).toMatch(
      /never overwrite|nothing is ever overwritten/,
    )

    const folder = fresh()
    await runServerCommand(['backup', '--to', folder, '--without-logs'], env)
    const newer = async (from: string, to: string): Promise<string> => {
      const file = join(fresh(), 'newer.tar.gz')
      writeFileSync(file, changeArchive(onlyFile(folder), from, to))
      return open(file, target)
    }
    expect(await newer('"format": 1', '"format": 9')).toContain('made by a newer Berth')
    expect(await newer('"version": "1', '"version": "9')).toContain('made by a newer Berth')
    expect(await newer('0001-foundation', '9999-foundation')).toContain('made by a newer Berth')
    const damaged = join(fresh(), 'damaged.tar.gz')
    const bytes = changeArchive(onlyFile(folder), '"version": "1', '"version": "9')
    bytes.writeUInt32LE(0, bytes.length - 8) // the checksum of what it unpacks to
    writeFileSync(damaged, bytes)
    expect(await open(damaged, target)).toContain('damaged')
    expect(readdirSync(target.BERTH_DATA_DIR as string)).toEqual(['kek'])
  })

  test('that fails leaves nothing, and says how much space it needs', async () => {
    const file = join(fresh(), 'there.tar.gz')
    writeFileSync(file, '')
    const again = runServerCommand(['backup', '--to', file], env)
    expect(await refusal(again)).toContain('exists already')
    if (process.getuid?.() !== 0) return
    const small = makeFullFolder(64 * 1_024)
    try {
      const run = runServerCommand(['backup', '--to', small.folder], env)
      expect(await refusal(run)).toMatch(
        /has [\d.]+ KiB free, and the backup may need [\d.]+ [KM]iB/,
      )
      expect(readdirSync(small.folder)).toEqual([])
      copyFileSync(kek, join(small.folder, 'kek'))
      const empty = await emptyInstallation(engine, kek)
      const restore = runServerCommand(
        ['restore', whole, '--passphrase-file', passphrase, '--to-data-dir', small.folder],
        empty,
      )
      expect(await refusal(restore)).toMatch(
        /has [\d.]+ KiB free, and the restore may need [\d.]+ [KM]iB; nothing was changed/,
      )
      expect(readdirSync(small.folder)).toEqual(['kek'])
    } finally {
      small.close()
    }
  })

  test('for a public key is opened with the secret one alone', async () => {
    const { generateIdentity, identityToRecipient } = await import('age-encryption')
    const [mine, others] = [await generateIdentity(), await generateIdentity()]
    const folder = fresh()
    const recipient = await identityToRecipient(mine)
    await runServerCommand(['backup', '--to', folder, '--recipient', recipient], env)
    const keys = fresh()
    writeFileSync(join(keys, 'mine'), `# created: today\n${mine}\n`)
    writeFileSync(join(keys, 'others'), others)
    const target = await emptyInstallation(engine, kek)
    const open = (key: string): Promise<Said> =>
      runServerCommand(
        ['restore', onlyFile(folder), '--rehearse', '--identity-file', join(keys, key)],
        target,
      )
    expect(await refusal(open('others'))).toContain('encrypted for another key')
    expect((await open('mine')).said).toContain('Rehearsed')
  })

  test('of the key is a file of its own that is never replaced', async () => {
    const file = join(fresh(), 'key')
    const { said } = await runServerCommand(['backup-key', '--to', file], env)
    expect(said).toContain('another place')
    expect(statSync(file).mode & 0o777).toBe(0o400)
    expect(readFileSync(file)).toEqual(readFileSync(kek))
    expect(said).not.toContain(readFileSync(kek, 'utf8').trim())
    const again = runServerCommand(['backup-key', '--to', file], env)
    expect(await refusal(again)).toContain('exists already')
  })
})

test.each(ENGINES)(
  'a backup of an older release is restored into %s, and the next start migrates it',
  async (engine) => {
    const dir = fresh()
    createKek(join(dir, 'kek'))
    const names = [...(await newestMigrations())]
    const newest = names.pop() as string
    const old = new Database(join(dir, 'berth.db'))
    for (const statement of planMigrations('sqlite', names)) old.exec(statement)
    const record = old.prepare('insert into migrations (name, applied_at) values (?, 1)')
    for (const name of names) record.run(name)
    old.exec("insert into organizations (name, slug, created_at) values ('Acme', 'acme', 1)")
    old.close()
    const file = join(dir, 'old.tar.gz')
    await runServerCommand(['backup', '--to', file], { BERTH_DATA_DIR: dir })
    const target = await emptyInstallation(engine, join(dir, 'kek'))
    await runServerCommand(['restore', file], target)
    const opened =
      engine === 'sqlite'
        ? openSqlite(join(target.BERTH_DATA_DIR as string, 'berth.db'))
        : openPostgres(target.DATABASE_URL as string, () => {})
    expect(await migrate(opened.db, opened.engine)).toEqual([newest])
    const rows = await opened.db.selectFrom('organizations').select(['id', 'name']).execute()
    expect(rows).toEqual([{ id: 1, name: 'Acme' }])
    await opened.db.destroy()
  },
)

async function newestMigrations(): Promise<string[]> {
  const { db, engine } = openSqlite(':memory:')
  const names = await migrate(db, engine)
  await db.destroy()
  return names
}
