// Migrations while control planes of the version before run: what only adds lets them go on and start, what does more
// refuses them, and no statement waits behind a table that is in use.
import { sql } from 'kysely'
import { afterEach, describe, expect, test } from 'vitest'
import { ENGINES, openEngine } from '../../../../test/fixtures/platform/engines.ts'
import { until } from '../../../../test/fixtures/server/installation.ts'
import type { OpenDatabase } from './database.ts'
import { migrate } from './migrate.ts'
import type { Migration } from './migration.ts'
import { MIGRATIONS } from './migrations.ts'

const EXPAND: Migration = {
  name: '9001-expand',
  statements: () => ['alter table tasks add column later integer'],
}
const ALONE: Migration = {
  name: '9002-alone',
  kind: 'alone',
  statements: () => ['create table moved (id integer)'],
}

/** What a migration marked `expand` does more than add. Nothing reads a table that it makes itself. */
function listMore({ statements }: Migration): string[] {
  const all = (['sqlite', 'postgres'] as const)
    .flatMap((engine) => statements({ engine, id: 'integer' }))
    .map((one) => one.trim().replaceAll(/\s+/g, ' ').toLowerCase())
  const own = new Set(all.map((one) => /^create table (\w+)/.exec(one)?.[1]))
  return all.filter((one) => {
    const [, index] = /^create unique index \w+ on (\w+)/.exec(one) ?? []
    if (index !== undefined) return !own.has(index)
    if (/^create (table|index) /.test(one)) return false
    const [, table, column = ''] = /^alter table (\w+) add column (.+)/.exec(one) ?? []
    if (table === undefined) return true
    return !own.has(table) && /\bnot null\b/.test(column) && !/\bdefault\b/.test(column)
  })
}

test('a migration that does more than add is marked', () => {
  const more = [
    'alter table tasks drop column note',
    'alter table tasks rename column note to text',
    'alter table tasks add column later text not null',
    'create unique index one on tasks(note)',
    'drop table tasks',
    'update tasks set note = null',
  ]
  expect(listMore({ name: 'x', statements: () => more })).toEqual([...more, ...more])
  const fine = [
    'create table own (id integer not null)',
    'create unique index two on own(id)',
    'create index three on tasks(note)',
    "alter table tasks add column later text not null default ''",
  ]
  expect(listMore({ name: 'x', statements: () => fine })).toEqual([])
  // up to 0065 a release had the database for itself
  const later = MIGRATIONS.filter(({ name }) => name > '0066')
  expect(later.filter(({ kind }) => kind !== 'alone').flatMap(listMore)).toEqual([])
})

describe.each(ENGINES)('migrations on %s', (engine) => {
  let opened: OpenDatabase
  afterEach(() => opened.db.destroy())

  const run = (...more: Migration[]) =>
    migrate(opened.db, opened.engine, { migrations: [...MIGRATIONS, ...more] })

  test('a release accepts what a newer one only added, and nothing else', async () => {
    opened = await openEngine(engine)
    expect(await run(EXPAND)).toEqual(['9001-expand'])
    expect(await run()).toEqual([])
    expect(await run(EXPAND, ALONE)).toEqual(['9002-alone'])
    await expect(run(EXPAND)).rejects.toThrow(/newer Berth \(it has 9002-alone\)/)
    await expect(run()).rejects.toThrow(/newer Berth \(it has 9002-alone\)/)
  })

  test('a migration that fails leaves nothing and is tried again by the next start', async () => {
    opened = await openEngine(engine)
    const broken = { ...EXPAND, statements: () => ['create table half (id integer)', 'no sql'] }
    await expect(run(broken)).rejects.toThrow()
    expect(await run(EXPAND)).toEqual(['9001-expand'])
    await expect(sql`select * from half`.execute(opened.db)).rejects.toThrow()
  })

  test.runIf(engine === 'postgres')('starts at the same time migrate once', async () => {
    opened = await openEngine(engine)
    const applied = await Promise.all([run(EXPAND), run(EXPAND), run(EXPAND)])
    expect(applied.flat()).toEqual(['9001-expand'])
  })

  test.runIf(engine === 'postgres')(
    'others pass while a migration waits for a table that a long reader has',
    async () => {
      opened = await openEngine(engine)
      const { db } = opened
      const reader = Promise.withResolvers<void>()
      const reading = db.transaction().execute(async (tx) => {
        await sql`select count(*) from tasks`.execute(tx)
        await reader.promise
      })
      const migrating = run(EXPAND)
      await until('the migration waits for the table', async () => {
        const { rows } = await sql`select 1 from pg_locks
          where not granted and mode = 'AccessExclusiveLock'
            and relation = 'tasks'::regclass`.execute(db)
        return rows.length > 0 || undefined
      })
      await sql`select count(*) from tasks`.execute(db) // for ever, if it waited behind the migration
      reader.resolve()
      await reading
      expect(await migrating).toEqual(['9001-expand'])
    },
  )

  test.runIf(engine === 'postgres')(
    'a migration that needs the database alone waits for no one: it names those who use it',
    async () => {
      opened = await openEngine(engine)
      const now = sql`floor(extract(epoch from clock_timestamp()) * 1000)::bigint`
      const join = (id: string, lease: number) =>
        sql`insert into replicas (id, host, pid, address, started_at, version, lease_until)
          values (${id}, ${`${id}.example.com`}, 7, 'x', 1, '1.16.0', ${now} + ${lease})`.execute(
          opened.db,
        )
      await sql`insert into replicas (id, host, pid, address, started_at) values ('old', 'h', 1, 'x', 1)`.execute(
        opened.db,
      )
      await join('dead', -1)
      await join('live', 60_000)
      const later = { ...EXPAND, name: '9003-after' }
      await expect(run(EXPAND, ALONE, later)).rejects.toThrow(
        'The migration 9002-alone needs the database alone, and these control planes use it: process 7 on live.example.com (version 1.16.0).',
      )
      await expect(sql`select * from moved`.execute(opened.db)).rejects.toThrow()
      await sql`delete from replicas where id = 'live'`.execute(opened.db)
      expect(await run(EXPAND, ALONE)).toEqual(['9002-alone'])
    },
  )
})
