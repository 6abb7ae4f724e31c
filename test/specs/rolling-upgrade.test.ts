// Version N beside N−1 on one PostgreSQL. N is this build with one migration more, because the recorded release (1.15) has
// the database for itself: what only adds lets N−1 go on and start again; what does more waits until N−1 is gone.
import { rmSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createKek } from '../../control-plane/src/keys/secret-store.ts'
import { migrate } from '../../control-plane/src/store/engine/migrate.ts'
import type { Migration } from '../../control-plane/src/store/engine/migration.ts'
import { MIGRATIONS } from '../../control-plane/src/store/engine/migrations.ts'
import { missing } from '../fixtures/platform/components.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'

const EXPAND: Migration = {
  name: '9001-expand',
  statements: () => [
    'alter table projects add column later text',
    'create table later (id integer primary key)',
  ],
}
const ALONE: Migration = {
  name: '9002-alone',
  kind: 'alone',
  statements: () => ['alter table projects rename column name to title'],
}

describe.skipIf(missing('postgres'))('a rolling upgrade', () => {
  let a: TestControlPlane
  const open: TestControlPlane[] = []
  const lost = Promise.withResolvers<string>()
  beforeEach(async () => {
    a = await TestControlPlane.start('postgres', { onLost: lost.resolve })
    open.push(a)
    await a.setUp()
  })
  afterEach(async () => {
    for (const one of open.splice(0).toReversed()) await one.close()
  })

  const upgradeTo = (...more: Migration[]): Promise<string[]> =>
    migrate(a.running.ctx.db, 'postgres', { migrations: [...MIGRATIONS, ...more] })
  const makeProject = async (cp: TestControlPlane, name: string): Promise<number> =>
    (await cp.project(name, (await cp.server(name)).id)).id

  test('N−1 works while N migrates, and starts again on the tables of N', async () => {
    expect(await upgradeTo(EXPAND)).toEqual(['9001-expand'])
    const made = await makeProject(a, 'first')
    const b = await a.beside()
    open.push(b)
    expect((await b.call('GET', `/api/projects/${made}`)).status).toBe(200)
    await a.running.close()
    await a.reopen()
    expect((await a.call('GET', `/api/projects/${await makeProject(b, 'second')}`)).status).toBe(
      200,
    )
  })

  test('what needs the database alone names those who run, and none of them returns later', async () => {
    const { db, replicaId, replicas } = a.running.ctx
    await expect(upgradeTo(ALONE)).rejects.toThrow(`process ${process.pid} on ${hostname()}`)
    await makeProject(a, 'before')
    // as if it was paused for longer than its lease
    await sql`update replicas set lease_until = 0 where id = ${replicaId}`.execute(db)
    expect(await upgradeTo(ALONE)).toEqual(['9002-alone'])
    await replicas.renew()
    expect(await lost.promise).toMatch(/newer Berth \(it has 9002-alone\)/)
    expect(await replicas.listLive()).toEqual([])
    await expect(a.beside()).rejects.toThrow(/newer Berth \(it has 9002-alone\)/)
    await sql`alter table projects rename column title to name`.execute(db)
    await sql`delete from migrations where name = '9002-alone'`.execute(db)
  })

  test('one with another key does not start, and makes none', async () => {
    const kekFile = join(tmpdir(), `kek-${a.running.ctx.replicaId}`)
    const other = createKek(kekFile)
    await expect(a.beside({ config: { kekFile } })).rejects.toThrow(
      new RegExp(
        `sealed with another key .* than the key file ${kekFile} holds \\(id ${other.id}\\)`,
      ),
    )
    rmSync(kekFile)
    await expect(a.beside({ config: { kekFile, createKek: true } })).rejects.toThrow(
      'does not exist',
    )
  })

  test('one that stops is not ready, and lives', async () => {
    const ask = async (path: string) => {
      const answer = await fetch(`${a.url}${path}`)
      return [answer.status, await answer.text()]
    }
    expect(await ask('/health/ready')).toEqual([200, 'ok\n'])
    await a.running.ctx.replicas.drain()
    expect(await ask('/health/ready')).toEqual([503, 'It is stopping.\n'])
    expect(await ask('/health/live')).toEqual([200, 'ok\n'])
  })
})
