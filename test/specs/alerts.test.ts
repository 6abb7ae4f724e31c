// System alerts by mail: owners and admins get one mail when a problem begins and one when it ends, across restarts. A
// scripted agent takes the place of the servers.
import { SESSION } from '@berth/shared'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { checkAlerts } from '../../control-plane/src/app/installation/alerts.ts'
import { ALERTS } from '../../control-plane/src/limits/installation.ts'
import { ENROLMENT } from '../../control-plane/src/limits/keys.ts'
import {
  BACKUP_SCHEDULE,
  insertStartedRun,
} from '../../control-plane/src/store/deployments/schedules.ts'
import { insertMember } from '../../control-plane/src/store/people/people.ts'
import { as, listMails } from '../fixtures/people/people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { makePerson } from '../fixtures/platform/dashboard-client.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { WireAgent, type WireSession } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

const GiB = 1_024 ** 3
const GRACE = SESSION.graceTimeouts * SESSION.timeoutIntervals * SESSION.heartbeatMinMs + 1_000

describe.each(ENGINES)('alerts on %s', (engine) => {
  let cp: TestControlPlane
  let agent: WireAgent
  let session: WireSession
  let serverId = 0
  let organizationId = 0
  let seen = 0

  const host = (freeBytes: number) => ({
    hostname: 'one',
    os: 'linux',
    arch: 'x64',
    cpus: 2,
    memoryBytes: BigInt(4 * GiB),
    diskBytes: BigInt(100 * GiB),
    diskFreeBytes: BigInt(freeBytes),
  })
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    serverId = (await cp.server('fra-1')).id
    const me = await cp.call<{ organizations: { id: number }[] }>('GET', '/api/me')
    organizationId = me.body.organizations[0]?.id as number
    await makePerson(cp, 'admin', { organizationId, role: 'admin' })
    await makePerson(cp, 'developer', { organizationId, role: 'developer' })
    const gone = await makePerson(cp, 'gone', { organizationId, role: 'owner' })
    const { db } = cp.running.ctx
    await db.updateTable('users').set({ disabledAt: 1 }).where('id', '=', gone.userId).execute()
    await makePerson(cp, 'stranger')
    agent = await WireAgent.join(cp, serverId)
    session = await agent.active({ host: host(50 * GiB) })
    cp.clock.offsetMs += GRACE
  })
  afterAll(async () => {
    agent.close()
    await cp.close()
  })
  beforeEach(async () => {
    seen = (await listMails(cp)).length
  })

  const check = () => checkAlerts(cp.running.ctx)
  /** Subjects and recipients of the mails since the test began, after the queue was sent. */
  const news = async () => {
    await until('the mails to go out', async () => {
      const { db } = cp.running.ctx
      const open = await db
        .selectFrom('mails')
        .select('id')
        .where('nextAt', 'is not', null)
        .execute()
      return open.length === 0 || undefined
    })
    return (await listMails(cp)).slice(seen)
  }
  const reported = async () => (await news()).map((m) => `${m.subject} → ${m.recipient}`)
  const BOTH = ['ada@example.com', 'admin@example.com']
  const toBoth = (subject: string) => BOTH.map((to) => `${subject} → ${to}`)
  const isOnline = (wanted: boolean) =>
    until(`the server to be ${wanted ? 'online' : 'away'}`, async () => {
      const { body } = await cp.call('GET', `/api/servers/${serverId}`)
      return (body.status === 'online') === wanted || undefined
    })

  test('server offline for five minutes: once, over a restart as well, and once that it is back', async () => {
    session.cut()
    await isOnline(false)
    await check()
    expect(await reported()).toEqual([])
    const { db, clock } = cp.running.ctx
    const disconnectedAt = clock.now() - ALERTS.serverOfflineMs + 30_000
    await db.updateTable('agents').set({ disconnectedAt }).execute()
    await check()
    expect(await reported()).toEqual([])
    await db
      .updateTable('agents')
      .set({ disconnectedAt: disconnectedAt - 31_000 })
      .execute()
    await Promise.all([check(), check()]) // two processes check concurrently
    await check()
    expect(await reported()).toEqual(toBoth('Server fra-1 is offline'))
    const [mail] = await news()
    expect(mail?.text).toContain('5 minutes')
    expect(mail?.text).toContain(`${cp.url}/servers/${serverId}`)
    await cp.restart()
    cp.clock.offsetMs += GRACE
    await check()
    expect(await reported()).toHaveLength(2)
    session = await agent.active({ host: host(50 * GiB) })
    await isOnline(true)
    await check()
    await check()
    expect((await reported()).slice(2)).toEqual(toBoth('Server fra-1 is back'))
  })

  test('right after a start nobody is called offline', async () => {
    await cp.running.ctx.db.updateTable('agents').set({ disconnectedAt: 1 }).execute()
    session.cut()
    await isOnline(false)
    await cp.running.ctx.db.updateTable('agents').set({ disconnectedAt: 1 }).execute()
    await cp.restart()
    await check()
    expect(await reported()).toEqual([])
    session = await agent.active({ host: host(50 * GiB) })
    cp.clock.offsetMs += GRACE
    await check()
    expect(await reported()).toEqual([])
  })

  test('disk nearly full, as heartbeats tell it: once, and not again at the edge', async () => {
    let beat = 0n
    const heartbeat = async (freeBytes: number) => {
      beat += 1n
      session.send({ case: 'heartbeat', value: { n: beat, diskFreeBytes: BigInt(freeBytes) } })
      await session.next('heartbeatAck')
      await check()
      return reported()
    }
    expect(await heartbeat(11 * GiB)).toEqual([])
    expect(await heartbeat(9 * GiB)).toEqual(toBoth('Server fra-1 is running out of disk space'))
    expect(await heartbeat(11 * GiB)).toHaveLength(2)
    expect(await heartbeat(3 * GiB)).toHaveLength(2)
    expect((await news())[0]?.text).toContain('9 GiB of 100 GiB')
    const after = await heartbeat(40 * GiB)
    expect(after.slice(2)).toEqual(toBoth('Server fra-1 has disk space again'))
    expect((await heartbeat(9 * GiB)).slice(4)).toEqual(
      toBoth('Server fra-1 is running out of disk space'),
    )
  })

  test('a certificate that is not renewed, and one that is', async () => {
    const { db, clock } = cp.running.ctx
    const life = ENROLMENT.certificateMs
    const age = (part: number) =>
      db
        .updateTable('agentCertificates')
        .set({
          issuedAt: clock.now() - life * part,
          notAfter: clock.now() + life * (1 - part),
        })
        .execute()
    await age(0.8)
    await check()
    expect(await reported()).toEqual([])
    await age(0.9)
    await check()
    await check()
    const subject = 'The agent of fra-1 does not renew its certificate'
    expect(await reported()).toEqual(toBoth(subject))
    await db
      .insertInto('agentCertificates')
      .values({
        fingerprint: 'f'.repeat(64),
        agentId: agent.identity.agentId,
        generation: 99,
        issuedAt: clock.now(),
        notAfter: clock.now() + life,
      })
      .execute()
    await check()
    expect((await reported()).slice(2)).toEqual(toBoth('The agent of fra-1 has a new certificate'))
  })

  test('a protected environment that is degraded, and its recovery; others only show it', async () => {
    const { db } = cp.running.ctx
    const project = await cp.project('health', serverId)
    const body = { identifier: 'main', branch: 'main', auto_deploy: false }
    const path = `/api/projects/${project.id}/environments`
    const { id } = (await cp.call<{ id: number }>('POST', path, body)).body
    const reason = 'web is unhealthy: GET /up answered 500 three times in a row.'
    const observe = async (said: string | null, isProtected: 0 | 1 = 1) => {
      const observed = JSON.stringify({ fence: 1, commit: null, reason: said, services: [] })
      const row = { observed, deployedFence: 1, protected: isProtected }
      await db.updateTable('environments').set(row).where('id', '=', id).execute()
      await check()
      await check()
      return reported()
    }
    expect(await observe(reason, 0)).toEqual([])
    expect(await observe(reason)).toEqual(toBoth('main of health is degraded'))
    expect((await news())[0]?.text).toContain(reason)
    expect((await news())[0]?.text).toContain(`${cp.url}/environments/${id}`)
    expect((await observe(null)).slice(2)).toEqual(toBoth('main of health has recovered'))
  })

  test('scheduled backups that fail: one letter a series, one when they work, and who watches hears too', async () => {
    const { db, clock } = cp.running.ctx
    const project = await cp.project('data', serverId)
    const { id } = await cp.environment(project.id, 'main', { auto_deploy: false })
    const path = `/api/environments/${id}/backup-settings`
    const every = { cron: '0 3 * * *', timezone: 'UTC' }
    expect((await cp.call('PATCH', path, { schedule: every })).status).toBe(200)
    const run = async (status: 'running' | 'failed' | 'succeeded' | 'canceled') => {
      const failure = JSON.stringify({ code: 'failed', message: 'The bucket\r\ndoes not answer.' })
      const { id: taskId } = await db
        .insertInto('tasks')
        .values({
          organizationId,
          projectId: project.id,
          environmentId: id,
          serverId,
          type: 'backup',
          status,
          triggerBy: 'schedule',
          triggeredBy: 'Berth',
          branch: 'main',
          recipe: 'docker',
          failure: status === 'failed' ? failure : null,
          createdAt: clock.now(),
        })
        .returning('id')
        .executeTakeFirstOrThrow()
      await insertStartedRun(db, { environmentId: id, action: BACKUP_SCHEDULE }, 1, taskId)
      await Promise.all([check(), check()])
      return { reported: await reported(), taskId }
    }
    const eve = await makePerson(cp, 'watcher', { organizationId, role: 'viewer' })
    await as(cp, eve.token, () =>
      cp.call('PUT', `/api/environments/${id}/watch`, { watching: true }),
    )
    const toAll = (subject: string) =>
      [...BOTH, 'watcher@example.com'].map((to) => `${subject} → ${to}`)
    expect((await run('succeeded')).reported).toEqual([])
    expect((await run('failed')).reported).toEqual(toAll('The backup of main of data failed'))
    const [mail] = await news()
    expect(mail?.text).toContain('The bucket does not answer.')
    expect(mail?.text).toContain(`${cp.url}/environments/${id}/backups`)
    const { taskId } = await run('running') // has not decided anything
    await run('failed')
    expect((await run('canceled')).reported).toHaveLength(3)
    await db.updateTable('tasks').set({ status: 'succeeded' }).where('id', '=', taskId).execute()
    await check() // an older one
    expect(await reported()).toHaveLength(3)
    const recovered = (await run('succeeded')).reported
    expect(recovered.slice(3)).toEqual(toAll('The backup of main of data works again'))
    expect((await run('failed')).reported).toHaveLength(9)
    // without a schedule there is nothing to wait for
    await cp.call('PATCH', path, { schedule: null })
    await check()
    expect(await reported()).toHaveLength(9)
    const open = await db.selectFrom('alerts').selectAll().where('endedAt', 'is', null).execute()
    expect(open.filter(({ kind }) => kind === 'backup')).toEqual([])
  })

  test('users who watch an environment get its mails, as long as they watch and are members', async () => {
    const { db } = cp.running.ctx
    const project = await cp.project('watched', serverId)
    const { id } = await cp.environment(project.id, 'main', { auto_deploy: false })
    const path = `/api/environments/${id}`
    const eve = await makePerson(cp, 'eve', { organizationId, role: 'viewer' })
    const mallory = await makePerson(cp, 'mallory')
    const watch = (watching: boolean, { token } = eve) =>
      as(cp, token, () => cp.call('PUT', `${path}/watch`, { watching }))
    const shown = () => as(cp, eve.token, () => cp.call<{ watching: boolean }>('GET', path))
    const observe = async (reason: string | null) => {
      const before = (await reported()).length
      const observed = JSON.stringify({ fence: 1, commit: null, reason, services: [] })
      const row = { observed, deployedFence: 1 }
      await db.updateTable('environments').set(row).where('id', '=', id).execute()
      await check()
      await check()
      return (await reported()).slice(before)
    }
    const [down, up] = ['main of watched is degraded', 'main of watched has recovered'].map(
      (subject) => [`${subject} → eve@example.com`],
    )
    expect(await observe('frozen')).toEqual([])
    expect((await watch(true, mallory)).status).toBe(404)
    expect(await watch(true)).toMatchObject({ status: 200, body: { watching: true } })
    expect((await watch(true)).status).toBe(200)
    expect((await shown()).body.watching).toBe(true)
    const mine = await cp.call<{ watching: boolean }>('GET', path)
    expect(mine.body.watching).toBe(false) // a watch is each user's own
    expect(await observe('frozen')).toEqual(down)
    expect(await observe(null)).toEqual(up)
    await db.updateTable('environments').set({ protected: 1 }).where('id', '=', id).execute()
    const all = [...BOTH, 'eve@example.com'].map((to) => `main of watched is degraded → ${to}`)
    expect(await observe('frozen')).toEqual(all)
    await db.updateTable('environments').set({ protected: 0 }).where('id', '=', id).execute()
    expect(await watch(false)).toMatchObject({ status: 200, body: { watching: false } })
    expect(await observe(null)).toEqual([])
    await watch(true)
    await cp.call('DELETE', `/api/organizations/${organizationId}/members/${eve.userId}`)
    expect(await observe('frozen')).toEqual([])
    await insertMember(db, { organizationId, userId: eve.userId, role: 'viewer', createdAt: 1 })
    expect((await shown()).body.watching).toBe(false) // who comes back asks again
  })

  test('an installation without mail refuses to watch, and says why', async () => {
    const project = await cp.project('silent', serverId)
    const { id } = await cp.environment(project.id, 'main', { auto_deploy: false })
    const { config } = cp.running.ctx
    const { mail } = config
    config.mail = { kind: 'none' }
    const answer = await cp.call('PUT', `/api/environments/${id}/watch`, { watching: true })
    config.mail = mail
    expect(answer.status).toBe(422)
    expect(JSON.stringify(answer.body)).toContain('BERTH_SMTP_URL')
  })

  test('a webhook delivery that ended in error: one letter a project until one works', async () => {
    const { db, clock } = cp.running.ctx
    const project = await cp.project('shop', serverId)
    const deliver = (outcome: string, reason: string | null = null, at = clock.now()) =>
      db
        .insertInto('deliveries')
        .values({
          organizationId,
          projectId: project.id,
          provider: 'github',
          deliveryId: String(Math.random()),
          event: 'push',
          receivedAt: at,
          decidedAt: at,
          signedWith: 'current',
          outcome,
          reason,
          responseStatus: 202,
          headers: '{}',
          bodySha256: '',
          bodyBytes: 0,
        })
        .execute()
    await deliver('error', 'long ago', clock.now() - ALERTS.deliveryMs - 1)
    await check()
    expect(await reported()).toEqual([])
    await deliver('error', 'The repository\r\ndid not answer.')
    await deliver('error', 'Nor now.')
    await check()
    await check()
    expect(await reported()).toEqual(toBoth('A webhook of shop could not be worked on'))
    const [mail] = await news()
    expect(mail?.text).toContain('Nor now.')
    await deliver('applied')
    await check()
    expect(await reported()).toHaveLength(2)
    await deliver('error', 'Again.')
    await check()
    expect(await reported()).toHaveLength(4)
  })

  test('a server that lost its agent for good ends its alerts without a word', async () => {
    const { db } = cp.running.ctx
    const open = () => db.selectFrom('alerts').select('kind').where('endedAt', 'is', null).execute()
    expect((await open()).map((a) => a.kind)).toContain('disk_full')
    await db.updateTable('agents').set({ revokedAt: 1, sessionId: null }).execute()
    await check()
    expect((await open()).map((a) => a.kind)).toEqual(['delivery'])
    expect(await reported()).toEqual([])
  })
})
