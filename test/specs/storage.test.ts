// Storage failures: a disk that is really full, a database that is really down. Writers get a stable error code,
// readers continue, nothing is half done, and the service recovers by itself.
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Environment, ProjectCreated } from '@berth/shared/api'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { fixture } from '../../control-plane/src/domain/forges/payloads/fixtures.testing.ts'
import { type Host, makeHost } from '../fixtures/forge/webhook-sender.ts'
import { Browser, PASSWORD } from '../fixtures/people/people.ts'
import { locate, missing } from '../fixtures/platform/components.ts'
import { type Answer, TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { type FullFolder, makeFullFolder } from '../fixtures/platform/full-folder.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { type Postgres, startPostgres, urlOf } from '../fixtures/platform/postgres.ts'
import { until } from '../fixtures/server/installation.ts'

const MiB = 1_024 ** 2
type Problem = { code?: string }
type Health = { status: string }

const healthOf = (cp: TestControlPlane): Promise<Answer<Health>> =>
  cp.call<Health>('GET', '/api/health')

/** Resolves when the service has recovered by itself. */
const healed = (cp: TestControlPlane): Promise<true> =>
  until('the storage', async () => (await healthOf(cp)).body.status === 'ok' || undefined)

const seen = ({ status, body, headers }: Answer<object>): unknown => [
  status,
  (body as Problem).code,
  Number(headers.get('retry-after')) > 0,
]

describe.skipIf(process.getuid?.() !== 0)('a full disk', () => {
  let disk: FullFolder
  let p: Platform
  let environment: Environment
  let host: Host
  const log: string[] = []

  beforeEach(async () => {
    log.length = 0
    disk = makeFullFolder(24 * MiB)
    p = await Platform.start('sqlite', {
      config: { dataDir: disk.folder },
      password: PASSWORD,
      logTo: (line) => void log.push(line),
    })
    environment = await p.environment('main')
    host = await makeHost(p.cp, p.serverId, { name: 'hooked', domain: 'hooked.example.com' })
  })
  afterEach(async () => {
    disk.free()
    await p.close()
    disk.close()
  })

  /** Truncates SQLite's log first, so that no free space hides there; then writes until one fails. */
  async function fillUp(): Promise<void> {
    await sql`pragma wal_checkpoint(truncate)`.execute(p.cp.running.ctx.db)
    disk.fill()
    const write = sql`update installation set created_at = created_at + 1`
    for (let n = 0; n < 100; n++) {
      try {
        await write.execute(p.cp.running.ctx.db)
      } catch {
        return
      }
    }
    throw new Error('the disk is never full')
  }

  test('every kind of write is 503 storage_full, reads go on, health says so, and it heals', async () => {
    const { cp } = p
    const browser = new Browser(cp)
    expect((await browser.signIn('ada@example.com', PASSWORD)).status).toBe(200)
    cp.clock.offsetMs += 120_000 // the time of last use is due for an update, which must not matter
    await fillUp()
    const full = [503, 'storage_full', true]
    const path = `/api/environments/${environment.id}`
    for (const [method, at, body] of [
      ['PATCH', path, { title: 'Other' }],
      ['POST', `${path}/tasks`, undefined],
      ['PATCH', `${path}/variables`, { set: { KEY: 'x'.repeat(10_000) } }],
      ['POST', '/api/servers', { name: 'two', hostname: 'two.example.com' }],
      ['POST', '/api/tokens', { name: 't', scopes: ['read'], expires_in_days: 1 }],
      ['DELETE', path, undefined],
    ] as const) {
      expect([at, seen(await cp.call(method, at, body))]).toEqual([at, full])
    }
    const keyed = { 'idempotency-key': 'once' }
    expect(seen(await cp.call('POST', `${path}/tasks`, undefined, keyed))).toEqual(full)
    expect(seen(await host.replay(fixture('github', 'push')))).toEqual(full)
    expect(seen(await new Browser(cp).signIn('ada@example.com', PASSWORD))).toEqual(full)
    const form = 'client_id=berth-cli&scope=read'
    const type = { 'content-type': 'application/x-www-form-urlencoded' }
    const device = await cp.call('POST', '/api/oauth/device_authorization', form, type)
    expect([device.status, device.body.error]).toEqual([503, 'temporarily_unavailable'])
    const reported = await browser.report('token.create', {
      name: 't',
      scopes: ['read'],
      expires_in_days: 1,
    })
    expect([reported.status, reported.body.error?.data.code]).toEqual([503, 'storage_full'])
    const signedIn = await browser.report('session.signIn', {
      email: 'ada@example.com',
      password: PASSWORD,
    })
    expect([signedIn.status, signedIn.body.error?.data.code]).toEqual([503, 'storage_full'])

    expect((await cp.call('GET', path)).body.title).toBe(environment.title)
    expect((await cp.call('GET', `${path}/tasks`)).text).toBe('[]')
    expect((await cp.call<object[]>('GET', '/api/servers')).body.length).toBe(1)
    expect((await browser.ask('session.get')).status).toBe(200)
    const health = await healthOf(cp)
    expect([health.status, health.body.status]).toEqual([503, 'storage_full'])
    expect((await fetch(`${cp.url}/health/ready`)).status).toBe(200) // balancers leave it its readers
    expect(log.join('\n')).not.toMatch(/cannot rollback|request failed/)

    disk.free()
    await healed(cp)
    expect((await cp.call('PATCH', path, { title: 'Other' })).status).toBe(200)
    expect((await cp.call('POST', `${path}/tasks`, undefined, keyed)).status).toBe(201)
  })

  test('what an agent reports is not acknowledged and comes again: state and log are whole', async () => {
    const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>()
    p.executor.script = async (a) => {
      a.say('before\n')
      await mayEnd
      for (let n = 0; n < 200; n++) a.say(`${n} ${'x'.repeat(1_000)}\n`)
      a.succeed(20_000)
    }
    const { body } = await p.deploy(environment.id)
    await until('the first line', async () => (await p.log(body.id)).length > 0 || undefined)
    await fillUp()
    end()
    await until(
      'a refused report',
      () =>
        log.some((line) => /logs could not be stored|session failed|log stream/.test(line)) ||
        undefined,
    )
    expect((await p.task(body.id)).status).toBe('running')
    disk.free()
    const task = await p.settled(body.id)
    expect(task).toMatchObject({ status: 'succeeded', log_complete: true, log_lines: 201 })
    const text = await p.log(body.id)
    expect(text.split('\n').length).toBe(202)
    expect(text.endsWith(`199 ${'x'.repeat(1_000)}\n`)).toBe(true)
  })
})

test("data is nobody else's, whatever the umask and whoever made it", async () => {
  const umask = process.umask(0)
  let cp: TestControlPlane | undefined
  try {
    cp = await TestControlPlane.start('sqlite')
    await cp.setUp()
    const data = cp.dir
    const rightsOf = (name: string): number => statSync(join(data, name)).mode & 0o777
    const files = ['berth.db', 'berth.db-wal', 'berth.db-shm']
    expect(files.map(rightsOf)).toEqual([0o600, 0o600, 0o600])
    expect(['.', 'logs'].map(rightsOf)).toEqual([0o700, 0o700])
    // as an earlier release may have left them
    for (const file of files) chmodSync(join(data, file), 0o644)
    for (const folder of ['.', 'logs']) chmodSync(join(data, folder), 0o755)
    await cp.restart()
    await cp.server()
    expect(files.map(rightsOf)).toEqual([0o600, 0o600, 0o600])
    expect(['.', 'logs'].map(rightsOf)).toEqual([0o700, 0o700])
  } finally {
    process.umask(umask)
    await cp?.close()
  }
})

describe.skipIf(missing('postgres'))('a PostgreSQL of its own', () => {
  let postgres: Postgres
  let cp: TestControlPlane
  let disk: FullFolder | undefined
  let host: Host

  beforeAll(async () => {
    postgres = await startPostgres(locate('postgres') ?? '')
    cp = await TestControlPlane.start('sqlite', {
      config: { databaseUrl: urlOf(postgres.folder, 'postgres') },
      password: PASSWORD,
    })
    await cp.setUp()
    const server = await cp.server()
    host = await makeHost(cp, server.id, { name: 'hooked', domain: 'hooked.example.com' })
  })
  afterAll(async () => {
    await cp.close()
    await postgres.stop()
    disk?.close()
  })

  test('while it is away everything is 503 database_unavailable, and it heals by itself', async () => {
    const browser = new Browser(cp)
    expect((await browser.signIn('ada@example.com', PASSWORD)).status).toBe(200)
    const project = await cp.make<ProjectCreated>('/api/projects', {
      name: 'shop',
      repo_url: 'https://git.example.com/shop.git',
      domain: 'shop.example.com',
      server_ids: [1],
    })
    await postgres.halt()
    const away = [503, 'database_unavailable', true]
    for (let round = 0; round < 2; round++) {
      for (const [method, at, body] of [
        ['GET', '/api/me', undefined],
        ['GET', '/api/projects', undefined],
        ['GET', `/api/projects/${project.id}/environments`, undefined],
        ['POST', '/api/servers', { name: 'two', hostname: 'two.example.com' }],
        ['PATCH', `/api/projects/${project.id}`, { name: 'other' }],
      ] as const) {
        expect([at, seen(await cp.call(method, at, body))]).toEqual([at, away])
      }
    }
    expect(seen(await host.replay(fixture('github', 'push')))).toEqual(away)
    expect(seen(await new Browser(cp).signIn('ada@example.com', PASSWORD))).toEqual(away)
    expect(seen(await browser.send('GET', '/get-session'))).toEqual(away)
    const asked = await browser.ask('token.list')
    expect([asked.status, asked.body.error?.data.code]).toEqual([503, 'database_unavailable'])
    const health = await healthOf(cp)
    expect([health.status, health.body.status]).toEqual([503, 'unavailable'])
    await postgres.resume()
    await healed(cp)
    expect((await cp.call('GET', '/api/me')).status).toBe(200)
    expect((await browser.ask('token.list')).status).toBe(200)
    const made = await cp.call('POST', '/api/servers', { name: 'two', hostname: 'two.example.com' })
    expect(made.status).toBe(201)
  })

  test('a connection that is lost in the middle of a transaction ends that transaction alone', async () => {
    const { db } = cp.running.ctx
    const lost = db.transaction().execute(async (t) => {
      const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(t)
      await sql`select pg_terminate_backend(${rows[0]?.pid})`.execute(db)
      await until('the connection to end', () =>
        sql`select 1`.execute(t).then(
          () => undefined,
          () => true,
        ),
      )
      throw new Error('the transaction ended with its connection')
    })
    await expect(lost).rejects.toThrow('the transaction ended with its connection')
    expect((await cp.call('GET', '/api/me')).status).toBe(200)
  })

  test.skipIf(process.getuid?.() !== 0)('without room on its disk it is storage_full', async () => {
    disk = makeFullFolder(64 * MiB)
    const folder = join(disk.folder, 'space')
    mkdirSync(folder)
    execFileSync('chown', ['postgres:postgres', folder])
    const { db } = cp.running.ctx
    await sql.raw(`create tablespace small location '${folder}'`).execute(db)
    const moved = ['audit', 'events', 'servers', 'installation']
    for (const table of moved)
      await sql.raw(`alter table ${table} set tablespace small`).execute(db)
    disk.fill()
    const refused = await until('a full table', async () => {
      const name = `s${Math.random()}`
      const answer = await cp.call<Problem>('POST', '/api/servers', {
        name,
        hostname: 'h.example.com',
      })
      return answer.status === 201 ? undefined : answer
    })
    expect(seen(refused)).toEqual([503, 'storage_full', true])
    disk.free()
    await healed(cp)
    const after = await cp.call('POST', '/api/servers', { name: 'last', hostname: 'h.example.com' })
    expect(after.status).toBe(201)
  })
})
