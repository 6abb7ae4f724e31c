// The agents' gateway: what a session may do, and what old, broken and hostile agents cannot. On both databases.
import { randomUUID, sign } from 'node:crypto'
import { leavingText, renewalText } from '@berth/shared'
import type { Task } from '@berth/shared/api'
import {
  AttemptState,
  FailureCode,
  GoodbyeReason,
  HelloSchema,
  StepState,
} from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { durationFromMs, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { status } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createKeyRequest } from '../../agent/src/link/identity/certificate.ts'
import { LateHello, openSession } from '../../control-plane/src/app/servers/sessions.ts'
import { OutcomeUnknown } from '../../control-plane/src/store/engine/faults.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { withTransactions } from '../fixtures/platform/hold-changes.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

describe.each(ENGINES)('agents on %s', (engine) => {
  let cp: TestControlPlane
  let agent: WireAgent
  let environmentId: number
  let serverId: number
  const others: WireAgent[] = []
  beforeEach(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    serverId = (await cp.server()).id
    const project = await cp.project('shop', serverId)
    environmentId = (
      await cp.environment(project.id, 'main', { variables: { KEY: 'canary-value' } })
    ).id
    agent = await WireAgent.join(cp, serverId)
  })
  afterEach(async () => {
    for (const other of [agent, ...others.splice(0)]) other.close()
    await cp.close()
  })

  const stored = () =>
    cp.running.ctx.db
      .selectFrom('agents')
      .selectAll()
      .where('serverId', '=', serverId)
      .executeTakeFirstOrThrow()
  const deploy = () => cp.make<Task>(`/api/environments/${environmentId}/tasks`)
  const task = async (id: number) => (await cp.call<Task>('GET', `/api/tasks/${id}`)).body
  const reached = (id: number, wanted: string) =>
    until(`task ${id} ${wanted}`, async () => {
      const now = await task(id)
      return now.status === wanted ? now : undefined
    })

  test('a deployment travels: assignment with spec and secrets, reports, log, success, forgotten', async () => {
    const session = await agent.active()
    const { id } = await deploy()
    const [assignment] = await session.assignments()
    expect(assignment?.spec?.systemVariables).toEqual({
      SERVICE_DOMAIN: 'main.shop.example.com',
      SERVICE_ENV_IDENTIFIER: 'main',
      SERVICE_ENV_TYPE: 'manual',
      SERVICE_ENV_BRANCH: 'main',
    })
    const [variable] = assignment?.secrets?.variables ?? []
    expect(Buffer.from(variable?.value ?? []).toString()).toBe('canary-value')
    expect(Buffer.from(assignment?.secrets?.deployKey ?? []).toString()).toContain(
      'OPENSSH PRIVATE KEY',
    )
    const attemptId = assignment?.attemptId ?? ''
    const fence = assignment?.fence ?? 0n
    const report = (body: Parameters<typeof session.event>[0]['body'] & object) =>
      session.event({ attemptId, fence, body })

    report({ case: 'attempt', value: { state: AttemptState.ACCEPTED } })
    report({ case: 'attempt', value: { state: AttemptState.STARTING } })
    expect((await reached(id, 'running')).started_at).not.toBeNull()
    const steps = [{ stepId: 'fetch', title: 'Fetch' }]
    report({ case: 'plan', value: { phases: [{ name: 'checkout', title: 'Check out', steps }] } })
    report({ case: 'step', value: { stepId: 'fetch', state: StepState.RUNNING } })
    const logs = agent.logs((await session.next('welcome')).sessionId, [attemptId])
    await logs.next('resume')
    logs.send(attemptId, fence, 1, ['one\n', 'two\n'])
    expect((await logs.next('ack')).ackedSeq).toBe(2n)
    const sha = 'f9'.repeat(20)
    report({ case: 'commit', value: { commitSha: sha, subject: 'Fix totals' } })
    report({
      case: 'step',
      value: { stepId: 'fetch', state: StepState.SUCCEEDED, firstLogSeq: 1n, lastLogSeq: 2n },
    })
    report({ case: 'services', value: { services: [{ name: 'web', port: 20_001 }] } })
    report({ case: 'attempt', value: { state: AttemptState.SUCCEEDED, finalLogSeq: 2n } })
    const done = await reached(id, 'succeeded')
    expect(done).toMatchObject({ commit_sha: sha, commit_message: 'Fix totals', log_lines: 2 })
    expect(done.phases?.[0]).toMatchObject({ name: 'checkout', status: 'succeeded' })
    expect(done.phases?.[0]?.steps[0]).toMatchObject({ first_line: 1, last_line: 2 })
    expect((await cp.call('GET', `/api/tasks/${id}/log`)).text).toBe('one\ntwo\n')
    const [forgotten] = await session.assignments()
    expect(forgotten).toMatchObject({ attemptId, desired: 3 })
    expect(forgotten?.spec).toBeUndefined()
    const environment = await cp.call('GET', `/api/environments/${environmentId}`)
    expect(environment.body).toMatchObject({
      status: 'running',
      commit_sha: sha,
      url: 'http://127.0.0.1:20001',
      locked: false,
    })
  })

  test('a second deployment is refused while one is queued or running, also when two ask at once', async () => {
    await agent.active()
    const path = `/api/environments/${environmentId}/tasks`
    const answers = await Promise.all([1, 2, 3, 4].map(() => cp.call('POST', path)))
    const made = answers.filter((a) => a.status === 201)
    expect(made).toHaveLength(1)
    for (const a of answers.filter((x) => x.status !== 201)) {
      expect(a.body).toMatchObject({ code: 'deployment_in_progress', task_id: made[0]?.body.id })
    }
  })

  test('the newest session wins; the old one is told and changes nothing any more', async () => {
    const first = await agent.active()
    const second = await agent.active()
    expect((await first.next('goodbye')).reason).toBe(GoodbyeReason.SUPERSEDED)
    first.event({ attemptId: '', body: { case: 'warning', value: { code: 'x' } }, seq: 1n })
    second.send({ case: 'heartbeat', value: { n: 7n } })
    expect((await second.next('heartbeatAck')).n).toBe(7n)
    const { ackedEventSeq } = await cp.running.ctx.db
      .selectFrom('agents')
      .select('ackedEventSeq')
      .executeTakeFirstOrThrow()
    expect(ackedEventSeq).toBe(0)
  })

  test('events are applied once and in order; a hole ends the session', async () => {
    const session = await agent.active()
    const body = { case: 'warning', value: { code: 'x' } } as const
    session.event({ body })
    expect((await session.next('eventAck')).ackedSeq).toBe(1n)
    session.event({ body, seq: 1n })
    expect((await session.next('eventAck')).ackedSeq).toBe(1n)
    session.event({ body, seq: 3n })
    expect((await session.next('goodbye')).reason).toBe(GoodbyeReason.PROTOCOL_ERROR)
    await until('the end', () => session.ended || undefined)
  })

  test('the certificate of another server cannot claim a task: refused, recorded, nothing changed', async () => {
    const session = await agent.active()
    const { id } = await deploy()
    const [assignment] = await session.assignments()
    const other = await WireAgent.join(cp, (await cp.server('two')).id)
    others.push(other)
    const foreign = await other.active()
    foreign.event({
      attemptId: assignment?.attemptId ?? '',
      fence: assignment?.fence ?? 0n,
      body: { case: 'attempt', value: { state: AttemptState.SUCCEEDED } },
    })
    expect((await foreign.next('goodbye')).reason).toBe(GoodbyeReason.PROTOCOL_ERROR)
    expect((await task(id)).status).toBe('queued')
    const audit = await cp.running.ctx.db
      .selectFrom('audit')
      .selectAll()
      .where('verb', '=', 'attempt.foreign')
      .execute()
    expect(audit).toHaveLength(1)
    expect(audit[0]).toMatchObject({
      actorId: other.identity.agentId,
      subjectId: assignment?.attemptId,
    })

    const back = await other.active({ lastEventSeq: 0n, firstEventSeq: 1n })
    const logs = other.logs((await back.next('welcome')).sessionId, [assignment?.attemptId ?? ''])
    expect((await logs.next('stop')).attemptId).toBe(assignment?.attemptId)
  })

  test('an old fence and an unknown attempt are acknowledged and change nothing', async () => {
    const session = await agent.active()
    const { id } = await deploy()
    const [assignment] = await session.assignments()
    const body = { case: 'attempt', value: { state: AttemptState.FAILED } } as const
    session.event({ attemptId: assignment?.attemptId ?? '', fence: 99n, body })
    session.event({ attemptId: randomUUID(), fence: 1n, body })
    await until('both acks', () =>
      session.received.filter((m) => m.msg.case === 'eventAck').length >= 1 ? true : undefined,
    )
    expect((await task(id)).status).toBe('queued')
  })

  test('log records: known ones are ignored, a hole is asked for again, a broken checksum ends the session', async () => {
    const session = await agent.active()
    const { id } = await deploy()
    const [a] = await session.assignments()
    const attemptId = a?.attemptId ?? ''
    const fence = a?.fence ?? 0n
    const { sessionId } = await session.next('welcome')
    const logs = agent.logs(sessionId, [attemptId])
    await logs.next('resume')
    logs.send(attemptId, fence, 1, ['one\n'])
    expect((await logs.next('ack')).ackedSeq).toBe(1n)
    logs.send(attemptId, fence, 1, ['one\n', 'two\n'])
    expect((await logs.next('ack')).ackedSeq).toBe(2n)
    logs.send(attemptId, fence, 5, ['five\n'])
    expect((await logs.next('resume')).from[0]).toMatchObject({ attemptId, ackedSeq: 2n })
    logs.send(attemptId, fence, 3, ['three\n'], 42)
    expect((await session.next('goodbye')).reason).toBe(GoodbyeReason.PROTOCOL_ERROR)
    expect((await cp.call('GET', `/api/tasks/${id}/log`)).text).toBe('one\ntwo\n')
  })

  test('an assignment that was not confirmed is sent again, the same attempt, with its secrets', async () => {
    const first = await agent.active()
    await deploy()
    const [sent] = await first.assignments()
    first.cut()
    const second = agent.connect()
    const [again] = await second.assignments()
    expect(again?.attemptId).toBe(sent?.attemptId)
    expect(again?.secrets?.variables).toHaveLength(1)
  })

  test('a refusal that proves nothing happened leads to a new attempt, five times, then the task fails', async () => {
    const session = await agent.active()
    const { id } = await deploy()
    const seen = new Set<string>()
    for (let n = 1; n <= 5; n++) {
      const a = await until('an attempt', async () => {
        const list = await session.assignments()
        return list.find((x) => x.desired === 1 && !seen.has(x.attemptId))
      })
      seen.add(a.attemptId)
      session.event({
        attemptId: a.attemptId,
        fence: a.fence,
        body: {
          case: 'attempt',
          value: { state: AttemptState.REFUSED, code: FailureCode.NOT_STARTED, message: 'no' },
        },
      })
    }
    expect((await reached(id, 'failed')).failure?.code).toBe('not_started')
    expect(seen.size).toBe(5)
  })

  test('a cancel is desired state: kept while the agent is away, told when it returns', async () => {
    const session = await agent.active()
    const { id } = await deploy()
    const [a] = await session.assignments()
    const at = { attemptId: a?.attemptId ?? '', fence: a?.fence ?? 0n }
    session.event({ ...at, body: { case: 'attempt', value: { state: AttemptState.RUNNING } } })
    await reached(id, 'running')
    session.cut()
    const canceled = await cp.call<Task>('POST', `/api/tasks/${id}/cancel`)
    expect([canceled.status, canceled.body.cancel_requested_at !== null]).toEqual([202, true])
    const snapshot = { ...at, state: AttemptState.RUNNING }
    const back = agent.connect({ attempts: [snapshot], firstEventSeq: 1n })
    const [stop] = await back.assignments()
    expect(stop).toMatchObject({ attemptId: at.attemptId, desired: 2 })
    back.event({ ...at, body: { case: 'attempt', value: { state: AttemptState.CANCELED } } })
    expect((await reached(id, 'canceled')).cancel_reason).toBe('user')
  })

  test('a wiped journal loses its attempts and says so', async () => {
    const session = await agent.active()
    const { id } = await deploy()
    const [a] = await session.assignments()
    const at = { attemptId: a?.attemptId ?? '', fence: a?.fence ?? 0n }
    session.event({ ...at, body: { case: 'attempt', value: { state: AttemptState.RUNNING } } })
    await reached(id, 'running')
    session.cut()
    await agent.active({ journalId: randomUUID(), lastEventSeq: 0n, firstEventSeq: 1n })
    expect((await reached(id, 'failed')).failure?.code).toBe('journal_lost')
  })

  test('an end that was lost with a restored backup is told as lost, not waited for', async () => {
    const session = await agent.active()
    const { id } = await deploy()
    const [a] = await session.assignments()
    const at = { attemptId: a?.attemptId ?? '', fence: a?.fence ?? 0n }
    session.event({ ...at, body: { case: 'attempt', value: { state: AttemptState.RUNNING } } })
    await reached(id, 'running')
    session.cut()
    await agent.active({ attempts: [{ ...at, state: AttemptState.SUCCEEDED }] })
    expect((await reached(id, 'failed')).failure).toMatchObject({
      code: 'agent_lost',
      message: expect.stringContaining('restored backup'),
    })
  })

  test('an agent that restarts on a bad line is one copy; two that take turns are locked', async () => {
    for (const instanceId of ['a', 'a', 'a', 'b', 'b', 'b', 'c', 'c']) {
      await agent.active({ instanceId })
    }
    for (const instanceId of ['x', 'y', 'x']) await agent.active({ instanceId })
    const copy = agent.connect({ instanceId: 'y' })
    const { reason, message } = await copy.next('goodbye')
    expect(reason).toBe(GoodbyeReason.DUPLICATE_IDENTITY)
    expect(message).toContain('push each other out')
  })

  test('a journal that went back in time is a copied disk: locked until a new join token', async () => {
    const session = await agent.active()
    session.event({ body: { case: 'warning', value: { code: 'x' } } })
    await session.next('eventAck')
    session.cut()
    const copy = agent.connect({ lastEventSeq: 0n, firstEventSeq: 1n })
    expect((await copy.next('goodbye')).reason).toBe(GoodbyeReason.DUPLICATE_IDENTITY)
    const server = await cp.call('GET', `/api/servers/${serverId}`)
    expect(server.body.status).toBe('duplicate_identity')
    const again = agent.connect()
    expect((await again.next('goodbye')).reason).toBe(GoodbyeReason.DUPLICATE_IDENTITY)
    const rejoined = await WireAgent.join(cp, serverId, true)
    others.push(rejoined)
    await rejoined.active()
    expect((await cp.call('GET', `/api/servers/${serverId}`)).body.status).toBe('online')
  })

  test.each([
    ['one that may be a copy', 0n],
    ['one that is as before', 1n],
  ])('a Hello that waited too long changes nothing: %s', async (_, lastEventSeq) => {
    const session = await agent.active()
    session.event({ body: { case: 'warning', value: { code: 'x' } } })
    await session.next('eventAck')
    const { ctx } = cp.running
    const { id: agentId, sessionEpoch, journalId } = await stored()
    const { fingerprint, issuedAt, notAfter } = await ctx.db
      .selectFrom('agentCertificates')
      .selectAll()
      .where('agentId', '=', agentId)
      .executeTakeFirstOrThrow()
    const late = openSession(ctx, {
      sessionId: randomUUID(),
      identity: { agentId, fingerprint, issuedAt, notAfter },
      hello: create(HelloSchema, {
        journalId: journalId ?? '',
        lastEventSeq,
        instanceId: 'former',
      }),
      isAwaited: () => false,
    })
    await expect(late).rejects.toBeInstanceOf(LateHello)
    session.event({ body: { case: 'warning', value: { code: 'y' } } })
    await session.next('eventAck')
    expect(await stored()).toMatchObject({ sessionEpoch, lockedAt: null })
  })

  test('a session whose beginning was stored without an answer ends', async () => {
    const { ctx } = cp.running
    const { db } = ctx
    ctx.db = withTransactions(db, (execute) => async (work) => {
      const answer = await execute(work)
      if ((await stored()).sessionId !== null) throw new OutcomeUnknown(new Error('planned'))
      return answer
    })
    const session = agent.connect()
    expect((await session.next('goodbye')).reason).toBe(GoodbyeReason.OVERLOADED)
    ctx.db = db
    await until('its rows say so', async () => {
      const { sessionEpoch, sessionId } = await stored()
      return sessionEpoch > 0 && sessionId === null ? true : undefined
    })
  })

  test('renewal: a new certificate takes over, and the one before locks both when it returns', async () => {
    await agent.active()
    const renew = async () => {
      const { csrPem } = await createKeyRequest()
      const csrDer = Buffer.from(csrPem.replace(/-----[^-]+-----|\s/g, ''), 'base64')
      return new Promise<{ generation: bigint } | { code: number }>((resolve) => {
        agent.client.renewCertificate(
          { $typeName: 'berth.agent.v1.RenewCertificateRequest', csrDer, generation: 1n },
          {},
          (error, answer) =>
            resolve(error ? { code: error.code } : (answer as { generation: bigint })),
        )
      })
    }
    expect(await renew()).toMatchObject({ generation: 2n })
    const { db } = cp.running.ctx
    await db
      .updateTable('agentCertificates')
      .set({ firstSeenAt: 1 })
      .where('generation', '=', 2)
      .execute()
    expect(await renew()).toEqual({ code: status.PERMISSION_DENIED })
    const old = agent.connect()
    expect((await old.next('goodbye')).reason).toBe(GoodbyeReason.DUPLICATE_IDENTITY)
  })

  test('a certificate that ran out while the server was off is renewed by its old key, once a nonce', async () => {
    await cp.advance(31 * 86_400_000)
    const { certificate, key } = agent.identity
    const { csrPem: csr } = await createKeyRequest()
    const challenge = async () =>
      (await cp.make<{ nonce: string }>('/api/agent/renew/challenge', { certificate })).nonce
    const renew = (nonce: string, signed: string) => {
      const signature = sign('sha256', renewalText(signed, csr), key).toString('base64url')
      return cp.call('POST', '/api/agent/renew', { certificate, csr, nonce, signature })
    }
    const nonce = await challenge()
    const good = await renew(nonce, nonce)
    expect([good.status, good.body.generation, good.body.agent_id]).toEqual([
      200,
      2,
      agent.identity.agentId,
    ])
    expect((await renew(nonce, nonce)).status).toBe(403)
    const other = await challenge()
    expect((await renew(other, 'another nonce')).status).toBe(403)
    await cp.advance(90 * 86_400_000)
    const late = await cp.call('POST', '/api/agent/renew/challenge', { certificate })
    expect([late.status, late.text.includes('new join token')]).toEqual([403, true])
  })

  test('an agent that leaves ends its session and shows as uninstalled; a renewal proves no leaving', async () => {
    const session = await agent.active()
    const { certificate, key } = agent.identity
    const challenge = async () =>
      (await cp.make<{ nonce: string }>('/api/agent/renew/challenge', { certificate })).nonce
    const leave = (nonce: string, text: Uint8Array) => {
      const signature = sign('sha256', text, key).toString('base64url')
      return cp.call('POST', '/api/agent/leave', { certificate, nonce, signature })
    }
    const first = await challenge()
    expect((await leave(first, renewalText(first, ''))).status).toBe(403)
    expect((await leave(first, leavingText(first))).status).toBe(403)
    const nonce = await challenge()
    const left = await leave(nonce, leavingText(nonce))
    expect([left.status, left.body]).toEqual([200, { server: 'one', environments: 1 }])
    expect((await session.next('goodbye')).reason).toBe(GoodbyeReason.REVOKED)
    const server = await cp.call<{ status: string }>('GET', `/api/servers/${serverId}`)
    expect(server.body.status).toBe('uninstalled')
    expect((await leave(nonce, leavingText(nonce))).status).toBe(403)
    const fresh = await WireAgent.join(cp, serverId)
    others.push(fresh)
    await fresh.active()
    const again = await cp.call<{ status: string }>('GET', `/api/servers/${serverId}`)
    expect(again.body.status).toBe('online')
  })

  test('a rejoined server revokes the former agent at once', async () => {
    const session = await agent.active()
    const fresh = await WireAgent.join(cp, serverId, true)
    others.push(fresh)
    expect((await session.next('goodbye')).reason).toBe(GoodbyeReason.REVOKED)
  })

  test('a task on an offline server waits, says for what, and fails after 15 minutes', async () => {
    const { id } = await deploy()
    await cp.advance(2 * 60_000) // past the grace period after a start
    const waiting = await task(id)
    expect(waiting).toMatchObject({
      status: 'queued',
      waiting_for: { code: 'server', message: 'one is offline.' },
    })
    await cp.advance(12 * 60_000)
    expect((await task(id)).status).toBe('queued')
    await cp.advance(2 * 60_000)
    const failed = await task(id)
    expect(failed).toMatchObject({ status: 'failed', failure: { code: 'server_offline' } })
  })

  test('an attempt nobody hears of is lost after ten minutes; its real end stands beside it', async () => {
    const session = await agent.active()
    const { id } = await deploy()
    const [a] = await session.assignments()
    const at = { attemptId: a?.attemptId ?? '', fence: a?.fence ?? 0n }
    session.event({ ...at, body: { case: 'attempt', value: { state: AttemptState.RUNNING } } })
    await reached(id, 'running')
    session.cut()
    await until('unreachable', async () => ((await task(id)).unreachable_since ? true : undefined))
    await cp.advance(9 * 60_000)
    expect((await task(id)).status).toBe('running')
    await cp.advance(2 * 60_000)
    expect(await task(id)).toMatchObject({ status: 'failed', failure: { code: 'agent_lost' } })
    const attempts = [{ ...at, state: AttemptState.RUNNING }]
    const back = await agent.active({ attempts, firstEventSeq: 1n })
    back.event({ ...at, body: { case: 'attempt', value: { state: AttemptState.SUCCEEDED } } })
    await until('the late end', async () => ((await task(id)).late_outcome ? true : undefined))
    expect(await task(id)).toMatchObject({ status: 'failed', late_outcome: 'succeeded' })
  })

  test('what happened during an outage is shown when it happened, by a clock that is an hour wrong', async () => {
    const wrong = 3_600_000
    const began = Date.now()
    // the server's time, `ms` after the beginning
    const at = (ms: number) => timestampFromMs(began - wrong + ms)
    const session = await agent.active({ agentTime: timestampFromMs(Date.now() - wrong) })
    const { id } = await deploy()
    const [a] = await session.assignments()
    const of = { attemptId: a?.attemptId ?? '', fence: a?.fence ?? 0n }
    const value = { state: AttemptState.STARTING }
    const start = timestampFromMs(Date.now() - wrong)
    session.event({ ...of, at: start, body: { case: 'attempt', value } })
    const { started_at } = await reached(id, 'running')
    session.cut()
    const outage = 300_000
    await cp.advance(outage)
    const attempts = [{ ...of, state: AttemptState.RUNNING }]
    const back = await agent.active({
      attempts,
      firstEventSeq: 1n,
      agentTime: timestampFromMs(Date.now() - wrong + outage),
    })
    const phases = [{ name: 'run', title: 'Run', steps: [{ stepId: 'run:1', title: 'Build' }] }]
    back.event({ ...of, at: at(1_000), body: { case: 'plan', value: { phases } } })
    const step = (state: StepState, ms: number, took: number) =>
      back.event({
        ...of,
        at: at(ms),
        body: { case: 'step', value: { stepId: 'run:1', state, duration: durationFromMs(took) } },
      })
    step(StepState.RUNNING, 60_000, 0)
    step(StepState.SUCCEEDED, 90_000, 30_000)
    const end = { state: AttemptState.SUCCEEDED }
    back.event({ ...of, at: at(90_000), body: { case: 'attempt', value: end } })
    const done = await reached(id, 'succeeded')
    const after = (time: string | null | undefined) => Date.parse(time ?? '') - began
    expect(done.started_at).toBe(started_at)
    // a minute of tolerance for a busy machine; the reports arrived five minutes later
    expect(after(done.finished_at)).toBeGreaterThan(80_000)
    expect(after(done.finished_at)).toBeLessThan(150_000)
    const [shown] = done.phases?.[0]?.steps ?? []
    expect(shown?.duration_ms).toBe(30_000)
    expect(after(shown?.started_at)).toBeLessThan(120_000)
    expect(Date.parse(done.started_at ?? '')).toBeGreaterThanOrEqual(Date.parse(done.created_at))
  })

  test('a restored control plane never sends again what may have run', async () => {
    await agent.active().then((s) => s.cut())
    const { id } = await deploy()
    const session = agent.connect({ fences: [{ environmentId, fence: 7n }] })
    await session.assignments()
    expect(await reached(id, 'failed')).toMatchObject({ failure: { code: 'stale_fence' } })
    const next = await deploy()
    const [a] = await session.assignments()
    expect([a?.taskId, a?.fence]).toEqual([next.id, 8n])
  })

  test('the first message must be Hello, and a protocol nobody speaks is told so', async () => {
    const session = agent.connect({ protocolMin: 9, protocolMax: 9 })
    expect((await session.next('goodbye')).reason).toBe(GoodbyeReason.VERSION_UNSUPPORTED)
  })

  test('a restarted control plane finds everything again: session, task, log', async () => {
    const session = await agent.active()
    const { id } = await deploy()
    const [a] = await session.assignments()
    const at = { attemptId: a?.attemptId ?? '', fence: a?.fence ?? 0n }
    session.event({ ...at, body: { case: 'attempt', value: { state: AttemptState.RUNNING } } })
    const logs = agent.logs((await session.next('welcome')).sessionId, [at.attemptId])
    await logs.next('resume')
    logs.send(at.attemptId, at.fence, 1, ['one\n'])
    await logs.next('ack')
    await reached(id, 'running')
    await cp.restart()
    const attempts = [{ ...at, state: AttemptState.RUNNING }]
    const back = await agent.active({ attempts })
    const resumed = agent.logs((await back.next('welcome')).sessionId, [at.attemptId])
    expect((await resumed.next('resume')).from[0]).toMatchObject({ ackedSeq: 1n })
    resumed.send(at.attemptId, at.fence, 2, ['two\n'])
    await resumed.next('ack')
    const value = { state: AttemptState.SUCCEEDED, finalLogSeq: 2n }
    back.event({ ...at, body: { case: 'attempt', value } })
    expect((await reached(id, 'succeeded')).log_lines).toBe(2)
    expect((await cp.call('GET', `/api/tasks/${id}/log`)).text).toBe('one\ntwo\n')
  })
})
