// `berth-server migrate-database`: SQLite's rows are in PostgreSQL, equal by hash, or PostgreSQL is as empty as before.
// Rows of every table, with nulls, odd texts and large values, are random.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Task } from '@berth/shared/api'
import Database from 'better-sqlite3'
import fc from 'fast-check'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  importLogs,
  removeImportedLogs,
} from '../../control-plane/src/app/installation/log-import.ts'
import { openSource } from '../../control-plane/src/backup/backup.ts'
import { readConfig } from '../../control-plane/src/config.ts'
import { createKek } from '../../control-plane/src/keys/secret-store.ts'
import { openSqlite } from '../../control-plane/src/store/engine/database.ts'
import { migrate } from '../../control-plane/src/store/engine/migrate.ts'
import { sumRows } from '../../control-plane/src/store/transfer/tables.ts'
import { missing } from '../fixtures/platform/components.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { createDatabase } from '../fixtures/platform/postgres.ts'
import { runServerCommand } from '../fixtures/platform/server-command.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'

async function sums(env: Record<string, string>): Promise<unknown> {
  const source = await openSource(readConfig(env))
  try {
    const tables: Record<string, unknown> = {}
    for (const table of source.tables) tables[table.name] = await sumRows(source.rows(table))
    return { tables, counters: source.counters }
  } finally {
    await source.close()
  }
}

async function countTables(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query(
    `select count(*)::int as n from pg_class where relkind in ('r', 'S') and relnamespace = 'public'::regnamespace`,
  )
  await client.end()
  return rows[0].n
}

interface Column {
  name: string
  type: string
  notnull: 0 | 1
  pk: number
}

/** Fills every table with rows at random; rules between tables and columns are not the subject. */
function fillAtRandom(file: string, seed: number): void {
  const db = new Database(file)
  db.pragma('foreign_keys = off')
  const text = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 40 }),
    fc.constantFrom('', '\\', "'", '"', '\t\r\n', 'NULL', '\u2028', '😀'.repeat(20_000)),
  )
  const integer = fc.oneof(fc.nat(), fc.integer())
  const big = fc.maxSafeInteger()
  const tables = db
    .prepare(
      "select name from sqlite_master where type = 'table' and name not like 'sqlite%' and name <> 'migrations'",
    )
    .pluck()
    .all() as string[]
  let n = seed * 1_000
  for (const name of tables) {
    const columns = db.pragma(`table_info(${name})`) as Column[]
    const references = new Set(
      (db.pragma(`foreign_key_list(${name})`) as { from: string }[]).map((r) => r.from),
    )
    const insert = db.prepare(
      `insert or ignore into ${name} values (${columns.map(() => '?').join(', ')})`,
    )
    for (let row = 0; row < 12; row++) {
      n += 1
      insert.run(
        columns
          .map((column) => {
            const { type, notnull, pk } = column
            if (references.has(column.name)) return notnull || pk ? undefined : null
            if (pk && /int/i.test(type)) return n
            if (!notnull && !pk && n % 3 === 0) return null
            const [value] = fc.sample<string | number>(
              /bigint/i.test(type) ? big : /int/i.test(type) ? integer : text,
              {
                seed: n,
                numRuns: 1,
              },
            )
            return value
          })
          .map((value) => (value === undefined ? 1 : value)),
      )
    }
  }
  db.close()
}

describe.skipIf(missing('postgres'))('from SQLite to PostgreSQL', () => {
  let dir: string
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'berth-move-'))
  })
  afterEach(() => rmSync(dir, { recursive: true, force: true }))

  const move = (to: string) =>
    runServerCommand(['migrate-database', '--to', to], { BERTH_DATA_DIR: dir })

  test('an installation goes on: rows, logs and numbers', async () => {
    const cp = await TestControlPlane.start('sqlite')
    try {
      await cp.setUp()
      const server = await cp.server()
      const project = await cp.project('shop', server.id)
      const { id: environmentId } = await cp.environment(project.id)
      const agent = await WireAgent.join(cp, server.id)
      const session = await agent.active()
      const task = await cp.make<Task>(`/api/environments/${environmentId}/tasks`)
      const [of] = await session.assignments()
      const [attemptId, fence] = [of?.attemptId ?? '', of?.fence ?? 0n]
      const logs = agent.logs((await session.next('welcome')).sessionId, [attemptId])
      await logs.next('resume')
      logs.send(attemptId, fence, 1, ['one\n', 'two\n'])
      await logs.next('ack')
      session.cut()
      const gone = await cp.environment(project.id, 'gone')
      const url = await createDatabase()
      const run = () =>
        runServerCommand(['migrate-database', '--to', url], { BERTH_DATA_DIR: cp.dir })
      await expect(run()).rejects.toThrow(/A control plane runs on/)
      await cp.running.close()
      const before = await sums({ BERTH_DATA_DIR: cp.dir })
      const { said } = await run()
      expect(said).toContain('Every table is equal by count and hash')
      expect(said).toContain('DATABASE_URL')
      expect(await sums({ BERTH_DATA_DIR: cp.dir, DATABASE_URL: url })).toEqual(before)
      await expect(run()).rejects.toThrow(/has tables already/)
      cp.outside = { config: { databaseUrl: url } }
      await cp.reopen()
      const { body } = await cp.call<{ id: number }[]>('GET', '/api/projects')
      expect(body.map((p) => p.id)).toEqual([project.id])
      expect((await cp.environment(project.id, 'next')).id).toBe(gone.id + 1)
      // the agent still holds this log, so it was copied before agents connect, and it goes on in the database
      expect((await cp.call('GET', `/api/tasks/${task.id}/log`)).text).toBe('one\ntwo\n')
      const file = join(cp.dir, 'logs', `${attemptId}.log`)
      expect(readFileSync(file, 'utf8')).toBe('one\ntwo\n')
      const back = await agent.active({ attempts: [{ attemptId, fence, state: 20 }] })
      const again = agent.logs((await back.next('welcome')).sessionId, [attemptId])
      expect((await again.next('resume')).from[0]).toMatchObject({ ackedSeq: 2n })
      again.send(attemptId, fence, 3, ['three\n'])
      await again.next('ack')
      agent.close()
      const { ctx } = cp.running
      await importLogs(ctx, new AbortController().signal) // an earlier copy never replaces what came later
      await removeImportedLogs(ctx, new AbortController().signal)
      expect(readdirSync(join(cp.dir, 'logs'))).toEqual([])
      const { text } = await cp.call('GET', `/api/tasks/${task.id}/log`)
      expect(text).toBe('one\ntwo\nthree\n')
    } finally {
      await cp.close()
    }
  })

  test('a password on the command line is refused, and so is PostgreSQL as the source', async () => {
    await expect(move('postgres://berth:secret@localhost/berth')).rejects.toThrow(/PGPASSWORD/)
    await expect(move('mysql://localhost/berth')).rejects.toThrow(/Usage/)
    const env = { BERTH_DATA_DIR: dir, DATABASE_URL: 'postgres://localhost/berth' }
    await expect(
      runServerCommand(['migrate-database', '--to', 'postgres://localhost/x'], env),
    ).rejects.toThrow(/uses PostgreSQL already/)
  })

  async function makeRandom(seed: number): Promise<void> {
    createKek(join(dir, 'kek'))
    const file = join(dir, 'berth.db')
    const { db, engine } = openSqlite(file)
    await migrate(db, engine)
    await db.destroy()
    fillAtRandom(file, seed)
  }

  test.each([1, 2, 3])(
    'random rows of every table are backed up and restored equally (%i)',
    async (seed) => {
      await makeRandom(seed)
      const env = { BERTH_DATA_DIR: dir }
      const before = await sums(env)
      const file = join(dir, 'random.tar.gz')
      await runServerCommand(['backup', '--to', file], env)
      // the rows refer to rows that do not exist, which a restore must notice
      await expect(runServerCommand(['restore', file, '--rehearse'], env)).rejects.toThrow(
        /refers to a row/,
      )
      const db = new Database(join(dir, 'berth.db'))
      db.pragma('foreign_keys = off')
      for (let again = true; again; ) {
        const broken = db.pragma('foreign_key_check') as { table: string; rowid: number }[]
        for (const { table, rowid } of broken)
          db.prepare(`delete from ${table} where rowid = ?`).run(rowid)
        again = broken.length > 0
      }
      // the move ends them
      for (const table of ['duties', 'mails', 'replicas'])
        db.exec(`update ${table} set lease_until = 0 where lease_until > 0`)
      db.close()
      const sound = join(dir, 'sound.tar.gz')
      await runServerCommand(['backup', '--to', sound], env)
      await runServerCommand(['restore', sound, '--rehearse'], env)
      const after = await sums(env)
      expect(after).not.toEqual(before)
      const url = await createDatabase()
      await move(url)
      expect(await sums({ ...env, DATABASE_URL: url })).toEqual(after)
    },
  )

  test('what PostgreSQL cannot hold is refused by name, and nothing is left there', async () => {
    await makeRandom(4)
    const db = new Database(join(dir, 'berth.db'))
    for (const name of ['audit', 'tasks', 'attempts']) db.exec(`delete from ${name}`)
    db.prepare('update organizations set name = ?').run('a\0b')
    db.close()
    const url = await createDatabase()
    await expect(move(url)).rejects.toThrow(/PostgreSQL refuses rows of the table organizations/)
    expect(await countTables(url)).toBe(0)
  })
})
