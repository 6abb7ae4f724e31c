// Logs in PostgreSQL: one control plane writes what its agent sends, and every other one reads it, also while it grows.
import { randomBytes } from 'node:crypto'
import type { Task } from '@berth/shared/api'
import { AttemptState } from '@berth/shared/wire'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { expireLogs } from '../../control-plane/src/app/deployments/logs.ts'
import { missing } from '../fixtures/platform/components.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { WireAgent, type WireLogs, type WireSession } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

describe.skipIf(missing('postgres'))('logs that several control planes share', () => {
  let a: TestControlPlane
  let b: TestControlPlane
  let agent: WireAgent
  let environmentId: number
  beforeEach(async () => {
    a = await TestControlPlane.start('postgres')
    await a.setUp()
    const server = await a.server()
    environmentId = (await a.environment((await a.project('shop', server.id)).id)).id
    agent = await WireAgent.join(a, server.id)
    b = await a.beside()
  })
  afterEach(async () => {
    agent.close()
    await b.close()
    await a.close()
  })

  interface Begun {
    taskId: number
    of: { attemptId: string; fence: bigint }
    session: WireSession
    logs: WireLogs
  }

  async function begin(): Promise<Begun> {
    const session = await agent.active()
    const { id: taskId } = await a.make<Task>(`/api/environments/${environmentId}/tasks`)
    const [assigned] = await session.assignments()
    const of = { attemptId: assigned?.attemptId ?? '', fence: assigned?.fence ?? 0n }
    session.event({ ...of, body: { case: 'attempt', value: { state: AttemptState.RUNNING } } })
    const logs = agent.logs((await session.next('welcome')).sessionId, [of.attemptId])
    await logs.next('resume')
    return { taskId, of, session, logs }
  }

  const end = ({ session, of }: Begun, finalLogSeq: bigint): void =>
    void session.event({
      ...of,
      body: { case: 'attempt', value: { state: AttemptState.SUCCEEDED, finalLogSeq } },
    })

  /** Follows a log until it is complete; `seen` says when a text has arrived. */
  function follow(cp: TestControlPlane, taskId: number) {
    let text = ''
    const done = (async () => {
      const answer = await fetch(`${cp.url}/api/tasks/${taskId}/log?follow=true`, {
        headers: { authorization: `Bearer ${cp.token}` },
      })
      for await (const piece of answer.body as unknown as AsyncIterable<Uint8Array>) {
        text += Buffer.from(piece).toString('latin1')
      }
      return text
    })()
    return {
      done,
      seen: (wanted: string) => until(wanted, () => text.includes(wanted) || undefined),
    }
  }

  test('a reader of the other one follows live, and both have the same bytes in the end', async () => {
    const begun = await begin()
    const { taskId, of, logs } = begun
    const reader = follow(b, taskId)
    await logs.next('pace') // the agent sends at short intervals for a reader elsewhere too
    let sent = ''
    let seq = 1
    for (let n = 0; n < 12; n++) {
      const lines = Array.from(
        { length: 1 + n * 3 },
        (_, i) => `${n}.${i} ${randomBytes(i * 20).toString('base64')}\n`,
      )
      logs.send(of.attemptId, of.fence, seq, lines)
      seq += lines.length
      sent += lines.join('')
      await logs.next('ack')
      await reader.seen(lines.at(-1) ?? '')
    }
    end(begun, BigInt(seq - 1))
    expect(await reader.done).toBe(sent)
    for (const cp of [a, b]) {
      expect((await cp.call('GET', `/api/tasks/${taskId}/log`)).text).toBe(sent)
      const range = { range: `bytes=1000-${sent.length - 500}` }
      const part = await cp.call('GET', `/api/tasks/${taskId}/log`, undefined, range)
      expect(part.text).toBe(sent.slice(1_000, sent.length - 499))
    }
  })

  test('a control plane whose session was taken over cannot write, and the log goes on at the other', async () => {
    const { taskId, of, session, logs } = await begin()
    logs.send(of.attemptId, of.fence, 1, ['one\n'])
    await logs.next('ack')
    // the agent's new session is at the other control plane, and this one has not noticed it
    const { db } = b.running.ctx
    await sql`update agents set session_id = 'theirs', session_epoch = session_epoch + 1`.execute(
      db,
    )
    await sql`update attempts set log_session_id = 'theirs'`.execute(db)
    logs.send(of.attemptId, of.fence, 2, ['never acknowledged\n'])
    await session.next('goodbye')
    expect((await b.call('GET', `/api/tasks/${taskId}/log`)).text).toBe('one\n')
    const there = agent.at(b)
    const next = await there.active({ attempts: [{ ...of, state: AttemptState.RUNNING }] })
    const resumed = there.logs((await next.next('welcome')).sessionId, [of.attemptId])
    expect((await resumed.next('resume')).from[0]).toMatchObject({ ackedSeq: 1n })
    resumed.send(of.attemptId, of.fence, 2, ['two\n'])
    await resumed.next('ack')
    next.event({
      ...of,
      body: { case: 'attempt', value: { state: AttemptState.SUCCEEDED, finalLogSeq: 2n } },
    })
    await until('the end', async () => {
      const { body } = await a.call<Task>('GET', `/api/tasks/${taskId}`)
      return body.log_complete || undefined
    })
    expect((await a.call('GET', `/api/tasks/${taskId}/log`)).text).toBe('one\ntwo\n')
    there.close()
  })

  test('an end that was stored by a control plane that died is noticed by the next', async () => {
    const begun = await begin()
    const { taskId, of, logs } = begun
    logs.send(of.attemptId, of.fence, 1, ['all of it\n'])
    await logs.next('ack')
    // as after kill -9 between the records and the word that they are complete
    await sql`update attempts set state = 100, final_log_seq = 1,
      finished_at = created_at`.execute(a.running.ctx.db)
    await sql`update tasks set status = 'succeeded', finished_at = created_at`.execute(
      a.running.ctx.db,
    )
    const there = agent.at(b)
    const next = await there.active({ attempts: [{ ...of, state: AttemptState.SUCCEEDED }] })
    const resumed = there.logs((await next.next('welcome')).sessionId, [of.attemptId])
    await resumed.next('resume')
    await until('complete', async () => {
      const row = await sql<{
        at: number | null
      }>`select log_complete_at as at from attempts`.execute(b.running.ctx.db)
      return row.rows[0]?.at ?? undefined
    })
    expect((await b.call('GET', `/api/tasks/${taskId}/log`)).text).toBe('all of it\n')
    there.close()
  })

  test('retention drops the day, and says so at both', async () => {
    const begun = await begin()
    begun.logs.send(begun.of.attemptId, begun.of.fence, 1, ['old\n'])
    await begun.logs.next('ack')
    end(begun, 1n)
    const log = `/api/tasks/${begun.taskId}/log`
    await until('complete', async () => {
      const { headers } = await a.call('GET', log)
      return headers.get('berth-log-complete') === 'true' || undefined
    })
    const days = async (): Promise<number> => {
      const { rows } = await sql<{ n: number }>`select count(*) as n from pg_inherits
        where inhparent = 'log_blocks'::regclass`.execute(a.running.ctx.db)
      return rows[0]?.n ?? 0
    }
    expect(await days()).toBe(2) // today and tomorrow
    a.clock.offsetMs += 91 * 86_400_000
    await expireLogs(a.running.ctx)
    expect(await days()).toBe(3) // tomorrow, which has no log, goes a day later
    for (const cp of [a, b]) {
      const gone = await cp.call('GET', log)
      expect([gone.status, gone.body.code]).toEqual([410, 'log_expired'])
    }
  })
})
