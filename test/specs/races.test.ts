// Concurrent sessions, transactions and readers must leave the same result as sequential ones.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { REST } from '@berth/shared'
import type { Task } from '@berth/shared/api'
import { AttemptState, Desired, FailureCode, GoodbyeReason, sumData } from '@berth/shared/wire'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { LogIntake } from '../../control-plane/src/gateways/agents/log-intake.ts'
import { stopAttempt } from '../../control-plane/src/store/deployments/attempts.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { WireAgent, type WireSession } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

describe.each(ENGINES)('overlaps on %s', (engine) => {
  let cp: TestControlPlane
  let agent: WireAgent
  let environmentId: number
  beforeEach(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    const serverId = (await cp.server()).id
    const project = await cp.project('shop', serverId)
    environmentId = (await cp.environment(project.id)).id
    agent = await WireAgent.join(cp, serverId)
  })
  afterEach(async () => {
    agent.close()
    await cp.close()
  })

  const deploy = () => cp.make<Task>(`/api/environments/${environmentId}/tasks`)
  const task = async (id: number) => (await cp.call<Task>('GET', `/api/tasks/${id}`)).body
  const reached = (id: number, wanted: string) =>
    until(`task ${id} ${wanted}`, async () => {
      const now = await task(id)
      return now.status === wanted ? now : undefined
    })
  const assigned = async (session: WireSession) => {
    const [a] = await session.assignments()
    return { attemptId: a?.attemptId ?? '', fence: a?.fence ?? 0n }
  }
  const attempts = () => cp.running.ctx.db.selectFrom('attempts').selectAll().execute()
  /** A transaction that holds the locks of `statement` until the returned function is called. */
  const hold = (statement: ReturnType<typeof sql>) =>
    new Promise<() => Promise<void>>((resolve, reject) => {
      let release = (): void => {}
      const released = new Promise<void>((done) => {
        release = done
      })
      const over = cp.running.ctx.db.transaction().execute(async (tx) => {
        await statement.execute(tx)
        resolve(() => {
          release()
          return over
        })
        await released
      })
      over.catch(reject)
    })
  const blocked = async (): Promise<number> => {
    const { rows } = await sql<{ n: number }>`select count(*) as n from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`.execute(cp.running.ctx.db)
    return rows[0]?.n ?? 0
  }

  test('a batch that cannot be applied whole leaves nothing behind', async () => {
    const session = await agent.active()
    const { id } = await deploy()
    const at = await assigned(session)
    const body = { case: 'warning', value: { code: 'x', message: 'once' } } as const
    const events = [1n, 3n].map((seq) => ({ ...at, seq, body }))
    session.send({ case: 'events', value: { events } })
    expect((await session.next('goodbye')).reason).toBe(GoodbyeReason.PROTOCOL_ERROR)
    expect((await task(id)).warnings).toEqual([])
  })

  test('a session that is superseded while it writes has written nothing', async () => {
    const session = await agent.active()
    const { id } = await deploy()
    const at = await assigned(session)
    const release = await hold(sql`update agents set session_epoch = session_epoch + 1`)
    session.event({ ...at, body: { case: 'warning', value: { code: 'x', message: 'once' } } })
    if (engine === 'postgres') {
      await until('the write to wait', async () => ((await blocked()) > 0 ? true : undefined))
    }
    await release()
    expect((await session.next('goodbye')).reason).toBe(GoodbyeReason.SUPERSEDED)
    const kept = await cp.running.ctx.db.selectFrom('agentEvents').selectAll().execute()
    expect([kept, (await task(id)).warnings]).toEqual([[], []])
  })

  test('a followed log ends with its task: canceled before it was sent', async () => {
    const { id } = await deploy()
    const following = cp.call('GET', `/api/tasks/${id}/log?follow=true`)
    await until('the follower', () => (cp.running.ctx.notifier.size > 0 ? true : undefined))
    await cp.call('POST', `/api/tasks/${id}/cancel`)
    expect((await following).status).toBe(200)
  })

  test('a followed log goes on over a refused attempt into the next', async () => {
    const session = await agent.active()
    const { id } = await deploy()
    const first = await assigned(session)
    // no session may take the next attempt yet
    await cp.running.ctx.db.updateTable('servers').set({ paused: 1 }).execute()
    const refused = { state: AttemptState.REFUSED, code: FailureCode.NOT_STARTED }
    session.event({ ...first, body: { case: 'attempt', value: refused } })
    await until('the log of nothing', async () => (await attempts())[0]?.logCompleteAt ?? undefined)
    const following = cp.call('GET', `/api/tasks/${id}/log?follow=true`)
    await until('the follower', () => (cp.running.ctx.notifier.size > 1 ? true : undefined))
    await cp.running.ctx.db.updateTable('servers').set({ paused: 0 }).execute()
    cp.running.ctx.notifier.notify(`agent:${agent.identity.agentId}`)
    const second = await until('the next attempt', async () => {
      const list = await session.assignments()
      return list.find((a) => a.desired === Desired.RUNNING)
    })
    const at = { attemptId: second.attemptId, fence: second.fence }
    const logs = agent.logs((await session.next('welcome')).sessionId, [at.attemptId])
    await logs.next('resume')
    logs.send(at.attemptId, at.fence, 1, ['one\n'])
    await logs.next('ack')
    const value = { state: AttemptState.SUCCEEDED, finalLogSeq: 1n }
    session.event({ ...at, body: { case: 'attempt', value } })
    expect((await following).text).toBe('one\n')
  })

  test.runIf(engine === 'postgres')('a task canceled while it is sent does not run', async () => {
    const { id } = await deploy()
    const release = await hold(sql`update environments set updated_at = updated_at`)
    const session = agent.connect() // its dispatch waits for the environment
    await until('the dispatch', async () => ((await blocked()) > 0 ? true : undefined))
    let answered = false
    const canceling = cp.call('POST', `/api/tasks/${id}/cancel`).finally(() => {
      answered = true
    })
    await until('the cancel', async () => (answered || (await blocked()) > 1 ? true : undefined))
    await release()
    await canceling
    await session.assignments()
    const live = (await attempts()).filter((a) => a.state < 100 && a.desired === Desired.RUNNING)
    expect(live).toEqual([])
  })

  test.each([
    ['its journal', true],
    ['an attempt', false],
  ])('the log of an agent that lost %s ends: nothing more will come', async (_what, wiped) => {
    const session = await agent.active()
    const { id } = await deploy()
    const at = await assigned(session)
    session.event({ ...at, body: { case: 'attempt', value: { state: AttemptState.RUNNING } } })
    await reached(id, 'running')
    session.cut()
    const journal = { journalId: randomUUID(), lastEventSeq: 0n, firstEventSeq: 1n }
    await agent.active(wiped ? journal : {})
    await reached(id, 'failed')
    const { headers } = await cp.call('GET', `/api/tasks/${id}/log`)
    expect(headers.get('berth-log-complete')).toBe('true')
    expect((await attempts())[0]).toMatchObject({ logTruncated: 1 })
  })

  test('a person who hangs up gets the follow stream back', async () => {
    const { id } = await deploy()
    const port = Number(new URL(cp.url).port)
    const path = `/api/tasks/${id}/log?follow=true`
    const request = `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${cp.token}\r\n\r\n`
    const { notifier } = cp.running.ctx
    const before = notifier.size // the control plane itself listens, too
    for (let n = 0; n < 2 * REST.followStreams; n++) {
      const socket = connect(port, '127.0.0.1')
      await once(socket, 'connect')
      socket.end(request)
      socket.destroySoon()
      await once(socket, 'close')
    }
    await until('the streams to end', () => (notifier.size === before ? true : undefined))
    const following = cp.call('GET', path)
    const head = await cp.call('HEAD', path)
    expect(head.status).toBe(200)
    await cp.call('POST', `/api/tasks/${id}/cancel`)
    expect((await following).status).toBe(200)
  })

  test('a stop never overtakes the end: what is to be forgotten stays so', async () => {
    const session = await agent.active()
    const { id } = await deploy()
    const at = await assigned(session)
    const value = { state: AttemptState.SUCCEEDED, finalLogSeq: 0n }
    session.event({ ...at, body: { case: 'attempt', value } })
    await reached(id, 'succeeded')
    await stopAttempt(cp.running.ctx.db, at.attemptId)
    const forgotten = await until('forgotten', async () => {
      const [one] = await attempts()
      return one?.logCompleteAt ? one.desired : undefined
    })
    expect(forgotten).toBe(Desired.FORGOTTEN)
  })

  test('a log belongs to the newest stream, whatever a former one still does', async () => {
    const session = await agent.active()
    await deploy()
    const at = await assigned(session)
    const intake = new LogIntake(cp.running.ctx)
    const acked: string[] = []
    const { agentId } = agent.identity
    const { sessionId } = await session.next('welcome')
    const feed = (name: string) => ({
      agentId,
      sessionId,
      acked: () => void acked.push(name),
      failed: () => {},
      isOpen: () => name === 'new',
    })
    const records = Buffer.alloc(0)
    const { crc32c } = sumData(records)
    const chunk = { kind: 'chunk' as const, ...at, firstSeq: 1, records, count: 0, crc32c }
    const former = feed('former')
    const newest = feed('new')
    expect(await intake.open(at.attemptId, newest)).toBe(0)
    expect(await intake.open(at.attemptId, former)).toBeUndefined()
    intake.release([at.attemptId], former)
    expect(intake.accept(chunk).kind).toBe('taken')
    expect(acked).toEqual(['new'])
  })

  test('a second log stream of one session ends it', async () => {
    const session = await agent.active()
    const { sessionId } = await session.next('welcome')
    const logs = agent.logs(sessionId, [])
    await logs.next('resume')
    agent.logs(sessionId, [])
    expect((await session.next('goodbye')).reason).toBe(GoodbyeReason.PROTOCOL_ERROR)
  })

  test('a first chunk that cannot be taken ends the session, not the control plane', async () => {
    const session = await agent.active()
    await deploy()
    const at = await assigned(session)
    const logs = agent.logs((await session.next('welcome')).sessionId, [])
    await logs.next('resume')
    logs.send(at.attemptId, at.fence, 1, ['one\n'], 42)
    expect((await session.next('goodbye')).reason).toBe(GoodbyeReason.PROTOCOL_ERROR)
  })

  const row = () => cp.running.ctx.db.selectFrom('agents').selectAll().executeTakeFirstOrThrow()

  test.runIf(engine === 'sqlite')('an end that could not be written is written later', async () => {
    const session = await agent.active()
    const { db } = cp.running.ctx
    await sql`create trigger broken before update on agents when new.session_id is null
      begin select raise(abort, 'no room'); end`.execute(db)
    session.cut()
    await until('the end', () => (cp.running.gateway.sessions().length === 0 ? true : undefined))
    expect((await row()).sessionId).not.toBeNull()
    await sql`drop trigger broken`.execute(db)
    await until('the rows', async () => ((await row()).sessionId === null ? true : undefined))
  })

  test.runIf(engine === 'postgres')(
    'a stream that ends during its hello changes nothing',
    async () => {
      const release = await hold(sql`update agents set last_seen_at = last_seen_at`)
      const session = agent.connect()
      await until('the hello', async () => ((await blocked()) > 0 ? true : undefined))
      session.cut()
      const behind = agent.logs('', []) // same connection, so the cut has arrived when this is refused
      await until('the refusal', () => behind.ended || undefined)
      await release()
      expect(cp.running.gateway.sessions()).toEqual([])
      await agent.active() // waits for the rows of the former
      expect((await row()).sessionEpoch).toBe(1)
    },
  )
})
