// What several control planes on one PostgreSQL count and remember together: limits, throttles, tickets, challenges,
// copies of an agent, data keys and set-up tokens.
import { sign } from 'node:crypto'
import { renewalText } from '@berth/shared'
import { GoodbyeReason } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createKeyRequest } from '../../agent/src/link/identity/certificate.ts'
import { withLease } from '../../control-plane/src/app/core/leases.ts'
import { giveLogTicket, takeTicket } from '../../control-plane/src/app/files/downloads.ts'
import { readWebhookSecrets } from '../../control-plane/src/app/forges/webhook-secrets.ts'
import { continueKeyRotations } from '../../control-plane/src/app/installation/data-key-rotation.ts'
import { refreshDataKeys } from '../../control-plane/src/app/installation/data-keys.ts'
import { authenticate } from '../../control-plane/src/app/people/callers.ts'
import { requireQuota } from '../../control-plane/src/identity/quotas.ts'
import { DOWNLOADS } from '../../control-plane/src/limits/browser.ts'
import { addCounts, deleteOldWindows } from '../../control-plane/src/store/core/rate-limits.ts'
import { findProject } from '../../control-plane/src/store/projects/projects.ts'
import { addMember, addOrganization } from '../fixtures/people/members.ts'
import { missing } from '../fixtures/platform/components.ts'
import { type Answer, TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'

const PASSWORD = 'a long enough password'

describe.skipIf(missing('postgres'))('two control planes', () => {
  let a: TestControlPlane
  let b: TestControlPlane
  let projectId: number
  let taskId: number
  let serverId: number
  beforeAll(async () => {
    const config = { rateLimitFactor: 1 }
    a = await TestControlPlane.start('postgres', { config, password: PASSWORD })
    b = await a.beside({ config })
    await a.setUp()
    b.token = a.token
    serverId = (await a.server()).id
    const agent = await WireAgent.join(a, serverId)
    agent.close()
    projectId = (await a.project('shop', serverId)).id
    const environment = await a.environment(projectId)
    taskId = (await a.make<{ id: number }>(`/api/environments/${environment.id}/tasks`)).id
  })
  afterAll(async () => {
    await b.close()
    await a.close()
  })
  const each = <T>(count: number, ask: (cp: TestControlPlane) => Promise<T>): Promise<T[]> =>
    Promise.all(Array.from({ length: count }, (_, n) => ask(n % 2 ? a : b)))
  const newMinute = (): void => {
    a.clock.offsetMs += 61_000
  }
  const statuses = (answers: Answer[]) => answers.map(({ status }) => status).toSorted()

  // first, because the clock of TLS cannot be moved
  test('copies of an agent at two control planes are found, and both sessions end', async () => {
    const agent = await WireAgent.join(a, serverId, true)
    const endpoints = [`127.0.0.1:${b.running.gateway.port}`]
    const copy = agent.as({ ...agent.identity, endpoints })
    await agent.active()
    await copy.active()
    await agent.active()
    const last = await copy.active()
    const refused = agent.connect()
    expect((await refused.next('goodbye')).reason).toBe(GoodbyeReason.DUPLICATE_IDENTITY)
    expect((await last.next('goodbye')).reason).toBe(GoodbyeReason.DUPLICATE_IDENTITY)
    expect((await b.call('GET', `/api/servers/${serverId}`)).body.status).toBe('duplicate_identity')
    agent.close()
    copy.close()
  })

  test('bad tokens at both at once: exactly sixty a minute, then both refuse', async () => {
    const bad = (cp: TestControlPlane) =>
      cp.call('GET', '/api/me', undefined, { authorization: 'Bearer nonsense' })
    const asked = statuses(await each(66, bad))
    expect(asked.filter((status) => status === 401)).toHaveLength(60)
    expect(asked.slice(60)).toEqual(Array(6).fill(429))
    for (const cp of [a, b]) {
      const refused = await bad(cp)
      expect([refused.status, refused.headers.get('ratelimit')?.split(';t')[0]]).toEqual([
        429,
        '"bad_tokens";r=0',
      ])
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
      expect((await cp.call('GET', '/api/me')).status).toBe(200)
    }
    newMinute()
    expect((await bad(b)).status).toBe(401)
  })

  test('a policy used up at one refuses at the other', async () => {
    for (let n = 0; n < 60; n++) requireQuota(await a.running.ctx.quotas.countUse('deploy', 1))
    const [environment] = (
      await b.call<{ id: number }[]>('GET', `/api/projects/${projectId}/environments`)
    ).body
    const refused = await b.call('POST', `/api/environments/${environment?.id}/tasks`)
    expect([refused.status, refused.body.code]).toEqual([429, 'rate_limited'])
    newMinute()
    expect((await b.call('POST', `/api/environments/${environment?.id}/tasks`)).status).not.toBe(
      429,
    )
  })

  test('the default limit is summed in the background, and its headers say so', async () => {
    newMinute()
    const left = async (cp: TestControlPlane) =>
      Number(
        /"default";r=(\d+)/.exec(
          (await cp.call('GET', '/api/me')).headers.get('ratelimit') ?? '',
        )?.[1],
      )
    const sum = async () => {
      for (const cp of [b, a]) await cp.running.ctx.quotas.exchange()
    }
    // a control plane learns when it counted; the timer may exchange at any moment, and then there is nothing to send
    const leftOnceTold = async (cp: TestControlPlane) => {
      await left(cp)
      await cp.running.ctx.quotas.exchange()
      return left(cp)
    }
    for (let n = 0; n < 4; n++) await left(a)
    await left(b)
    await sum()
    expect(await leftOnceTold(a)).toBe(593)
    await sum()
    expect(await leftOnceTold(b)).toBe(591)
    const { tokenId, userId } = await callerOf(a)
    for (let n = 0; n < 600; n++) await a.running.ctx.quotas.countRequest({ tokenId, userId })
    await a.running.ctx.quotas.exchange()
    await left(b)
    await sum()
    for (const cp of [a, b]) expect((await cp.call('GET', '/api/me')).status).toBe(429)
    newMinute()
    expect((await b.call('GET', '/api/me')).status).toBe(200)
  })

  test('wrong passwords and codes spread over both are throttled together', async () => {
    newMinute()
    const wrong = (cp: TestControlPlane) =>
      cp.call('POST', '/trpc/session.secondFactor', { code: '000000' })
    const right = (cp: TestControlPlane) =>
      cp.call('POST', '/trpc/session.signIn', { email: 'ada@example.com', password: PASSWORD })
    const first = await each(8, wrong)
    expect(statuses(first)).not.toContain(429)
    // a right password is given back
    for (const cp of [a, b]) expect((await right(cp)).status).toBe(200)
    expect(statuses(await each(6, wrong)).filter((status) => status === 429)).toHaveLength(4)
    for (const cp of [a, b]) expect((await right(cp)).status).toBe(429)
    newMinute()
    expect((await right(b)).status).toBe(200)
  })

  test('without the table a sign-in is refused, and other requests go on', async () => {
    newMinute()
    const { db } = a.running.ctx
    await db.schema.alterTable('rate_limits').renameTo('rate_limits_away').execute()
    try {
      const refused = await a.call('POST', '/trpc/session.secondFactor', { code: '000000' })
      expect(refused.status).toBeGreaterThanOrEqual(500)
      expect((await a.call('GET', '/api/me')).status).toBe(200)
      await a.running.ctx.quotas.exchange()
      expect((await a.call('GET', '/api/me')).status).toBe(200)
    } finally {
      await db.schema.alterTable('rate_limits_away').renameTo('rate_limits').execute()
    }
  })

  test('windows that are over are swept, and a flood of keys is bounded', async () => {
    newMinute()
    const { db, quotas, clock } = a.running.ctx
    for (let n = 0; n < 20; n++) await quotas.narrow.links.count(`10.0.0.${n}`)
    const count = async () => (await db.selectFrom('rateLimits').select('key').execute()).length
    await deleteOldWindows(db, clock.now() - 1_000_000, 10)
    expect(await count()).toBeLessThanOrEqual(10)
    await deleteOldWindows(db, clock.now() + 1, 10)
    expect(await count()).toBe(0)
  })

  test('a window of a clock that was ahead refuses no one once the clock is right', async () => {
    const { db, clock } = a.running.ctx
    const now = clock.now()
    const limits = { endedBefore: now - 60_000, begunUntil: now + 60_000 }
    const window = { name: 'x', key: 'k', since: now + 3_600_000, count: 1_000 }
    await db.insertInto('rateLimits').values(window).execute()
    const fresh = { ...window, since: now, count: 1 }
    expect(await addCounts(db, [fresh], limits)).toEqual([fresh])
  })

  async function callerOf(cp: TestControlPlane) {
    const from = { address: '127.0.0.1', requestId: 'req_x' }
    const { caller } = await authenticate(cp.running.ctx, `Bearer ${cp.token}`, from)
    return { caller, userId: caller.userId, tokenId: caller.origin.tokenId }
  }

  test('a ticket of one works at the other, once, for its user; unused ones are bounded', async () => {
    newMinute()
    const { caller } = await callerOf(a)
    const give = async () => {
      const { path } = await giveLogTicket(a.running.ctx, caller, taskId, false)
      return path.replace('/downloads/', '')
    }
    const take = (cp: TestControlPlane, ticket: string, by = caller) =>
      takeTicket(cp.running.ctx, by, ticket).then(
        () => 'taken',
        () => 'refused',
      )
    const ticket = await give()
    const stored = await a.running.ctx.db.selectFrom('oneUseCodes').selectAll().execute()
    expect(JSON.stringify(stored)).not.toContain(ticket)
    expect(await take(b, ticket, { ...caller, userId: 4711 })).toBe('refused')
    expect((await each(6, (cp) => take(cp, ticket))).toSorted()).toEqual([
      ...Array(5).fill('refused'),
      'taken',
    ])
    const given: string[] = []
    for (let n = 0; n <= DOWNLOADS.ticketsPerUser; n++) {
      given.push(await give())
      a.clock.offsetMs += 1
    }
    expect([await take(b, given[0] ?? ''), await take(b, given[1] ?? '')]).toEqual([
      'refused',
      'taken',
    ])
    a.clock.offsetMs += DOWNLOADS.ticketMs
    expect(await take(b, given.at(-1) ?? '')).toBe('refused')
  })

  test('a challenge of one is met at the other, once', async () => {
    const agent = await WireAgent.join(a, serverId, true)
    a.clock.offsetMs += 31 * 86_400_000
    const { certificate, key } = agent.identity
    const { csrPem: csr } = await createKeyRequest()
    const { nonce } = await a.make<{ nonce: string }>('/api/agent/renew/challenge', { certificate })
    const signature = sign('sha256', renewalText(nonce, csr), key).toString('base64url')
    const answers = await each(4, (cp) =>
      cp.call('POST', '/api/agent/renew', { certificate, csr, nonce, signature }),
    )
    expect(statuses(answers)).toEqual([200, 403, 403, 403])
    agent.close()
  })

  test('a value is read where its key was never seen, and a new key is used everywhere', async () => {
    newMinute()
    // an organization that was made at the other
    const organizationId = await addOrganization(a, 'rival')
    const rival = await addMember(a, 'Eve', 'owner', { organizationId })
    const { body: server } = await rival.call('POST', '/api/servers', {
      name: 's',
      hostname: 'h.example.com',
    })
    const made = await rival.call<{ id: number; webhook_secret: string }>('POST', '/api/projects', {
      name: 'theirs',
      repo_url: 'https://git.example.com/x.git',
      domain: 'rival.example',
      server_ids: [server.id],
    })
    expect(made.status).toBe(201)
    const secretAt = async (cp: TestControlPlane, id: number) => {
      const { ctx } = cp.running
      const project = await findProject(ctx.db, id)
      return project && (await readWebhookSecrets(ctx, project)).current
    }
    expect(await secretAt(b, made.body.id)).toBe(made.body.webhook_secret)
    // a rotation at one, a value sealed there, and read at the other
    const rotate = () =>
      a.call<{ id: number }>('POST', '/api/admin/data_keys/rotate', { organization_id: 1 })
    const { body: key } = await rotate()
    expect(b.running.ctx.secretStore.findDataKey(1)?.id).not.toBe(key.id)
    const path = `/api/projects/${projectId}/webhook_secret`
    const { body: fresh } = await a.call<{ secret: string }>('POST', path)
    expect(fresh.secret).toMatch(/^whsec_/)
    expect(await secretAt(b, projectId)).toBe(fresh.secret)
    expect(b.running.ctx.secretStore.findDataKey(1)?.id).toBe(key.id)
    // also where none of its values was read
    const { body: next } = await rotate()
    await refreshDataKeys(b.running.ctx)
    expect(b.running.ctx.secretStore.findDataKey(1)?.id).toBe(next.id)
  })

  test('one that was away for long learns which keys were made and deleted meanwhile', async () => {
    const { db, secretStore } = b.running.ctx
    const former = secretStore.findDataKey(1)?.id ?? 0
    const { body: key } = await a.call<{ id: number }>('POST', '/api/admin/data_keys/rotate', {
      organization_id: 1,
    })
    await db.updateTable('organizationKeys').set({ createdAt: 1 }).execute()
    await refreshDataKeys(b.running.ctx)
    expect(secretStore.findDataKey(1)?.id).toBe(key.id)
    expect(secretStore.listRetired().map(({ id }) => id)).toContain(former)
    for (let round = 0; round < 20 && a.running.ctx.secretStore.knowsDataKey(former); round++) {
      a.clock.offsetMs += 2 * 3_600_000
      await continueKeyRotations(a.running.ctx)
    }
    await refreshDataKeys(b.running.ctx)
    expect(secretStore.listRetired()).toEqual([])
  })

  test('work under a lease runs at one of them at a time', async () => {
    const order: string[] = []
    const first = Promise.withResolvers<void>()
    const began = Promise.withResolvers<void>()
    const one = withLease(a.running.ctx, 'x', async () => {
      order.push('one begins')
      began.resolve()
      await first.promise
      order.push('one ends')
    })
    await began.promise
    const two = withLease(b.running.ctx, 'x', async () => void order.push('two'))
    await withLease(b.running.ctx, 'y', async () => void order.push('another'))
    first.resolve()
    await Promise.all([one, two])
    expect(order).toEqual(['one begins', 'another', 'one ends', 'two'])
    expect(
      await a.running.ctx.db
        .selectFrom('duties')
        .select('name')
        .where('name', 'in', ['x', 'y'])
        .execute(),
    ).toEqual([])
  })
})

describe.skipIf(missing('postgres'))('control planes that start together', () => {
  test('each print a set-up token that works, for one administrator', async () => {
    const a = await TestControlPlane.start('postgres')
    const b = await a.beside()
    const asked = (token: string | undefined) => ({
      token,
      name: 'Ada',
      email: 'ada@example.com',
      organization: 'Acme',
    })
    const tokens = [a.running.setupToken, b.running.setupToken]
    expect(new Set(tokens).size).toBe(2)
    expect((await b.call('POST', '/api/setup', asked('berth_setup_x'))).status).toBe(401)
    // the token that each printed, at the other
    const answers = await Promise.all([
      b.call('POST', '/api/setup', asked(tokens[0])),
      a.call('POST', '/api/setup', asked(tokens[1])),
    ])
    expect(answers.map(({ status }) => status).filter((status) => status === 201)).toHaveLength(1)
    expect((await a.call('POST', '/api/setup', asked(tokens[1]))).body.code).toBe('setup_done')
    await b.close()
    await a.close()
  })
})
