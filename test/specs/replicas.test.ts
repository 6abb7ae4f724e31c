// Who may use a database: on SQLite the second is refused with the name of the first, on PostgreSQL a process that needs
// it alone keeps all others out. No crash leaves a lock behind.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { sql } from 'kysely'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { readConfig } from '../../control-plane/src/config.ts'
import { startControlPlane } from '../../control-plane/src/server.ts'
import { holdFile } from '../../control-plane/src/store/engine/file-lock.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { until } from '../fixtures/server/installation.ts'

const log = pino({ level: 'silent' })

describe.each(ENGINES)('a control plane on %s', (engine) => {
  let cp: TestControlPlane
  beforeEach(async () => {
    cp = await TestControlPlane.start(engine)
  })
  afterEach(() => cp.close())

  const startAnother = () => {
    const { dataDir, databaseUrl } = cp.running.ctx.config
    const config = { ...readConfig({ BERTH_DEV: '1', BERTH_DATA_DIR: dataDir }), databaseUrl }
    return startControlPlane({ config: { ...config, port: 0, agentPort: 0 }, log })
  }

  test.runIf(engine === 'sqlite')('a second one is refused and told about the first', async () => {
    const refused = await startAnother().catch((error: Error) => error.message)
    expect(refused).toContain(
      `It is process ${process.pid} on ${hostname()}, at ${cp.url}, since ${new Date(
        cp.running.ctx.startedAt,
      )
        .toISOString()
        .slice(0, 13)}`,
    )
    expect(refused).toContain('Stop it first')
    expect((await cp.call('GET', '/api/health')).status).toBe(200)
  })

  test('a start that failed leaves the database free, and so does a stop', async () => {
    cp.outside = { config: { kekFile: join(cp.dir, 'missing'), createKek: false } }
    await expect(cp.restart()).rejects.toThrow('does not exist')
    cp.outside = {}
    await cp.reopen()
    expect((await cp.call('GET', '/api/health')).status).toBe(200)
  })

  test.runIf(engine === 'postgres')(
    'a connection that breaks is made again; one whose database is taken alone meanwhile ends',
    async () => {
      const { db } = cp.running.ctx
      const holders = async () => {
        const { rows } = await sql<{ pid: number }>`select pid from pg_locks
          where locktype = 'advisory' and objid = 7443021 and granted and database =
            (select oid from pg_database where datname = current_database())`.execute(db)
        return rows.map((row) => row.pid)
      }
      const [first] = await holders()
      await sql`select pg_terminate_backend(${first})`.execute(db)
      await until('it is held again', async () => {
        const [now] = await holders()
        return now !== undefined && now !== first ? now : undefined
      })
      const lost = Promise.withResolvers<string>()
      cp.outside = { onLost: lost.resolve }
      await cp.restart()
      const now = cp.running.ctx.db
      await now.connection().execute(async (one) => {
        const [mine] = (
          await sql<{ pid: number }>`select pid from pg_locks
            where locktype = 'advisory' and objid = 7443021 and database =
              (select oid from pg_database where datname = current_database())`.execute(one)
        ).rows
        await sql`select pg_terminate_backend(${mine?.pid})`.execute(one)
        await until('the lock is free', async () => {
          const { rows } = await sql<{ taken: boolean }>`
            select pg_try_advisory_lock(7443021) as taken`.execute(one)
          return rows[0]?.taken || undefined
        })
        expect(await lost.promise).toContain('needs it alone')
        expect(await startAnother().catch((error: Error) => error.message)).toContain(
          'needs it alone',
        )
        await sql`select pg_advisory_unlock(7443021)`.execute(one)
      })
    },
  )
})

test('a killed process leaves no lock: the next one has it at once', async () => {
  const file = join(mkdtempSync(join(tmpdir(), 'berth-hold-')), 'berth.lock')
  const program = new URL('../../control-plane/src/store/engine/file-lock.ts', import.meta.url).href
  const hold = `const { holdFile } = await import(${JSON.stringify(program)})
    holdFile(${JSON.stringify(file)}); process.stdout.write('held'); setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', hold], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await new Promise((resolve) => child.stdout.once('data', resolve))
  expect(holdFile(file)).toBeUndefined()
  const gone = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await gone
  const mine = holdFile(file)
  expect(mine).toBeDefined()
  await mine?.release()
  rmSync(dirname(file), { recursive: true })
})
