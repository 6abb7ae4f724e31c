// Requests with an Idempotency-Key whose answer is lost after their commit, on both databases: one effect, and a
// repetition learns of it. On PostgreSQL also at two control planes at once.
import { randomUUID } from 'node:crypto'
import { AppError, REST } from '@berth/shared'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { beginRequest } from '../../control-plane/src/app/core/idempotency.ts'
import { runInTurn } from '../../control-plane/src/app/core/turns.ts'
import { authenticate } from '../../control-plane/src/app/people/callers.ts'
import { createServer } from '../../control-plane/src/app/servers/servers.ts'
import {
  findRequest,
  insertRequest,
  noteRequestEffect,
  restartRequest,
} from '../../control-plane/src/store/core/idempotency.ts'
import { insertUser } from '../../control-plane/src/store/people/people.ts'
import { missing } from '../fixtures/platform/components.ts'
import { type Answer, TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES, openEngine } from '../fixtures/platform/engines.ts'
import { holdChanges } from '../fixtures/platform/hold-changes.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'

const makeAt = (cp: TestControlPlane, name: string, key: string): Promise<Answer> =>
  cp.call('POST', '/api/servers', { name, hostname: 'h' }, { 'idempotency-key': key })

async function idOf(cp: TestControlPlane, name: string): Promise<number | undefined> {
  const { body } = await cp.call<{ id: number; name: string }[]>('GET', '/api/servers')
  const found = body.filter((server) => server.name === name)
  expect(found.length).toBeLessThanOrEqual(1)
  return found[0]?.id
}

/** Every answer breaks once the change is committed. */
async function withBrokenAnswers<T>(
  cp: TestControlPlane,
  work: () => Promise<T>,
  error = new Error('planned'),
): Promise<T> {
  const { notifier } = cp.running.ctx
  const { notify } = notifier
  notifier.notify = () => {
    throw error
  }
  return work().finally(() => {
    notifier.notify = notify
  })
}

describe.each(ENGINES)('an answer that breaks after the commit on %s', (engine) => {
  let cp: TestControlPlane
  let environment: number
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    const { id: serverId } = await cp.server()
    const agent = await WireAgent.join(cp, serverId)
    agent.close()
    const project = await cp.project('shop', serverId)
    environment = (await cp.environment(project.id)).id
  })
  afterAll(() => cp.close())
  const forgetAnswer = (key: string, replicaId: string) =>
    cp.running.ctx.db
      .updateTable('idempotencyKeys')
      .set({ status: null, replicaId })
      .where('key', '=', key)
      .execute()
  const tasks = async () =>
    (await cp.call<{ id: number }[]>('GET', `/api/environments/${environment}/tasks`)).body
  const deploy = (key: string) =>
    cp.call('POST', `/api/environments/${environment}/tasks`, undefined, { 'idempotency-key': key })

  test('the key stays used, and a repetition names what was made', async () => {
    const key = randomUUID()
    expect((await withBrokenAnswers(cp, () => makeAt(cp, 'lost', key))).status).toBe(500)
    const made = await idOf(cp, 'lost')
    expect(made).toBeDefined()
    const again = await makeAt(cp, 'lost', key)
    expect([again.status, again.body.code]).toEqual([409, 'idempotency_not_replayable'])
    expect(again.body).toMatchObject({ id: made, first_status: 500 })
    expect(again.body.detail).toContain('had its effect')
    await idOf(cp, 'lost')
  })

  test('also if the answer said that its outcome is unknown', async () => {
    const key = randomUUID()
    const unknown = new AppError('outcome_unknown', 'The database went away in the commit.')
    const first = await withBrokenAnswers(cp, () => makeAt(cp, 'unknown', key), unknown)
    expect([first.status, first.body.code]).toEqual([503, 'outcome_unknown'])
    const again = await makeAt(cp, 'unknown', key)
    expect([again.status, again.body.code]).toEqual([409, 'idempotency_not_replayable'])
    expect(again.body).toMatchObject({ id: await idOf(cp, 'unknown'), first_status: 503 })
    expect(again.body.detail).toContain('had its effect')
  })

  test('a deployment is asked for once', async () => {
    const key = randomUUID()
    expect((await withBrokenAnswers(cp, () => deploy(key))).status).toBe(500)
    const [task, ...others] = await tasks()
    expect(others).toEqual([])
    const again = await deploy(key)
    expect([again.status, again.body.id]).toEqual([409, task?.id])
    expect(await tasks()).toHaveLength(1)
  })

  test('of a control plane that was killed: in flight while it may answer, then the effect is known', async () => {
    const key = randomUUID()
    await withBrokenAnswers(cp, () => makeAt(cp, 'killed', key))
    const made = await idOf(cp, 'killed')
    await forgetAnswer(key, cp.running.ctx.replicaId)
    expect((await makeAt(cp, 'killed', key)).body.code).toBe('idempotency_in_flight')
    await forgetAnswer(key, 'one-that-is-gone')
    const known = await makeAt(cp, 'killed', key)
    expect([known.status, known.body]).toMatchObject([
      409,
      { code: 'idempotency_not_replayable', id: made, first_status: null },
    ])
  })

  test('without an effect the key of one that was killed is free at once', async () => {
    const key = randomUUID()
    expect((await makeAt(cp, 'killed', key)).body.code).toBe('name_taken')
    await forgetAnswer(key, 'one-that-is-gone')
    expect((await makeAt(cp, 'killed', key)).body.code).toBe('name_taken')
  })

  test('a request that was overtaken commits nothing', async () => {
    const { ctx } = cp.running
    const from = { address: '127.0.0.1', requestId: 'req_x' }
    const { caller } = await authenticate(ctx, `Bearer ${cp.token}`, from)
    const name = { userId: caller.userId, method: 'POST', path: '/x', key: randomUUID() }
    const begin = async () => {
      const begun = await beginRequest(ctx, name, 'print', 'server')
      if (!('turn' in begun)) throw new Error('it has its turn')
      return begun.turn
    }
    const make = (db: typeof ctx.db) =>
      createServer({ ...ctx, db }, caller, { name: 'overtaken', hostname: 'h' })
    const held = holdChanges(ctx.db)
    const first = runInTurn(await begin(), () => make(held.db))
    const refused = expect(first).rejects.toMatchObject({ code: 'idempotency_in_flight' })
    await held.reached
    cp.clock.offsetMs += REST.idempotencyInFlightMs
    const turn = await begin()
    held.go()
    await refused
    expect(await idOf(cp, 'overtaken')).toBeUndefined()
    const second = await runInTurn(turn, () => make(ctx.db))
    expect(await idOf(cp, 'overtaken')).toBe(second.server.id)
  })
})

describe.each(ENGINES)('the row of a key on %s', (engine) => {
  test('is not taken over once its request has an effect', async () => {
    const { db } = await openEngine(engine)
    const userId = await insertUser(db, { name: 'Ada', email: 'a@example.com', createdAt: 1 })
    const name = { userId, method: 'POST', path: '/x', key: 'k' }
    const fresh = { fingerprint: 'f', startedAt: 1, replicaId: 'a' }
    const id = (await insertRequest(db, { ...name, ...fresh })) ?? 0
    const former = await findRequest(db, name)
    if (!former) throw new Error('unreachable: it was inserted')
    const later = { ...fresh, startedAt: 2 }
    const effect = { id, startedAt: 1, effectAt: 2, madeId: 7 }
    expect(await noteRequestEffect(db, effect)).toBe(true)
    expect(await restartRequest(db, former, later)).toBe(false)
    expect(await restartRequest(db, { ...former, effectAt: 2 }, later)).toBe(true)
    expect(await noteRequestEffect(db, effect)).toBe(false)
    await db.destroy()
  })
})

describe.skipIf(missing('postgres'))('two control planes', () => {
  let a: TestControlPlane
  let b: TestControlPlane
  beforeAll(async () => {
    a = await TestControlPlane.start('postgres')
    await a.setUp()
    b = await a.beside()
  })
  afterAll(async () => {
    await b.close()
    await a.close()
  })

  test('twenty requests with one key at both: one effect', async () => {
    const key = randomUUID()
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => makeAt(n % 2 ? a : b, 'crowd', key)),
    )
    for (const { status, body } of answers) {
      if (status !== 201) expect([status, body.code]).toEqual([409, 'idempotency_in_flight'])
    }
    const made = await idOf(a, 'crowd')
    expect(made).toBeDefined()
    for (const cp of [a, b]) {
      const again = await makeAt(cp, 'crowd', key)
      expect([again.headers.get('idempotent-replayed'), again.body.id]).toEqual(['true', made])
    }
  })

  test('an answer that broke at one is known at the other', async () => {
    const key = randomUUID()
    expect((await withBrokenAnswers(a, () => makeAt(a, 'broken', key))).status).toBe(500)
    const again = await makeAt(b, 'broken', key)
    expect([again.status, again.body.id]).toEqual([409, await idOf(b, 'broken')])
  })
})
