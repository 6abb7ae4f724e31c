// The control plane's database is restored from a backup, elsewhere, while the servers continued: no agent is locked
// out, nothing runs twice, nothing is mixed up. Real backups of both databases, the real daemon, and scripted agents.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Environment, Task } from '@berth/shared/api'
import { AttemptState, Desired, GoodbyeReason } from '@berth/shared/wire'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createKeyRequest } from '../../agent/src/link/identity/certificate.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

interface AuditRow {
  verb: string
  subject: { id: string | number | null }
}

describe.each(ENGINES)('a restored database on %s: the daemon', (engine) => {
  let p: Platform
  beforeEach(async () => {
    p = await Platform.start(engine)
  })
  afterEach(() => p.close())

  const audit = async (verb: string) =>
    (await p.cp.call<AuditRow[]>('GET', `/api/admin/audit?verb=${verb}`)).body.map(
      (r) => r.subject.id,
    )
  const deployed = async (id: number): Promise<Task> =>
    p.settled((await p.deploy(id)).body.id as number)
  const runs = () => [...p.executor.starts.values()].reduce((sum, n) => sum + n, 0)

  test('attempts that it does not know are stopped, told once and forgotten; everything goes on', async () => {
    const { id } = await p.environment('main')
    await deployed(id)
    const backup = await p.cp.backup()
    await deployed(id)
    const lost = await p.environment('lost')
    const stopped = Promise.withResolvers<void>()
    p.executor.script = async (attempt) => {
      await attempt.stopAsked()
      attempt.cancel()
      stopped.resolve()
    }
    const running = (await p.deploy(lost.id)).body
    await until('it runs', async () => (await p.task(running.id)).status === 'running' || undefined)
    await p.cp.restore(backup)
    await p.online()
    await stopped.promise
    const attempts = join(p.agentDir, 'attempts')
    await until('it is forgotten', () => readdirSync(attempts).length === 0 || undefined)
    p.executor.script = (attempt) => attempt.succeed()
    expect((await deployed(id)).status).toBe('succeeded')
    expect(await audit('attempt.unknown')).toHaveLength(1)
    expect(await audit('environment.unknown')).toEqual([lost.id])
    // a repeated restart changes nothing
    await p.restartControlPlane()
    expect((await deployed(id)).status).toBe('succeeded')
    expect(await audit('attempt.unknown')).toHaveLength(1)
    expect(await audit('environment.unknown')).toHaveLength(1)
    expect([...p.executor.starts.values()].every((n) => n === 1)).toBe(true)
  })

  test('numbers that were given out before the restore are not given out again', async () => {
    const { id } = await p.environment('main')
    await deployed(id)
    const backup = await p.cp.backup()
    const project = await p.cp.project('lost', p.serverId)
    const lost = await p.cp.environment(project.id, 'lost')
    const last = await deployed(lost.id)
    await p.cp.restore(backup)
    await p.online()
    expect((await p.environment('next')).id).toBeGreaterThan(lost.id)
    expect((await p.deploy(id)).body.id).toBeGreaterThan(last.id)
    expect((await p.cp.project('other', p.serverId)).id).toBeGreaterThan(project.id)
  })

  test('a queued task that ran after the backup is not run again; one that did not is', async () => {
    const [one, two] = [await p.environment('one'), await p.environment('two')]
    await deployed(one.id)
    await deployed(two.id)
    p.killAgent()
    const ran = (await p.deploy(one.id)).body
    const waits = (await p.deploy(two.id)).body
    const backup = await p.cp.backup()
    await p.cp.call('POST', `/api/tasks/${waits.id}/cancel`)
    await p.startAgent()
    expect((await p.settled(ran.id)).status).toBe('succeeded')
    const before = runs()
    await p.cp.restore(backup)
    await p.online()
    const refused = await p.settled(ran.id)
    expect(refused).toMatchObject({ status: 'failed', failure: { code: 'stale_fence' } })
    expect(refused.failure?.message).toContain('restored from a backup')
    expect((await p.settled(waits.id)).status).toBe('succeeded')
    expect(runs()).toBe(before + 1)
    expect((await deployed(one.id)).status).toBe('succeeded')
  })

  test('what ran during the backup and is forgotten on the server is told as it ended', async () => {
    const { id } = await p.environment('main')
    const goOn = Promise.withResolvers<void>()
    p.executor.script = async (attempt) => {
      attempt.say('one\n')
      await goOn.promise
      attempt.say('two\n')
      attempt.succeed()
    }
    const task = (await p.deploy(id)).body
    await until('a line', async () => (await p.log(task.id)).includes('one') || undefined)
    // events and logs are two streams: the plan may arrive after the first line
    await until('the plan', async () => (await p.task(task.id)).phases?.length || undefined)
    const backup = await p.cp.backup()
    goOn.resolve()
    await p.settled(task.id)
    const attempts = join(p.agentDir, 'attempts')
    await until('it is forgotten', () => readdirSync(attempts).length === 0 || undefined)
    await p.cp.restore(backup)
    await p.online()
    const now = await p.settled(task.id)
    expect(now).toMatchObject({ status: 'succeeded', warnings: [{ code: 'restored' }] })
    const { body } = await p.cp.call<Task>('GET', `/api/tasks/${task.id}`)
    expect(body.phases?.flatMap(({ steps }) => steps.map((s) => s.status))).toEqual(['succeeded'])
    p.executor.script = (attempt) => attempt.succeed()
    expect((await deployed(id)).status).toBe('succeeded')
  })

  test('a task of before the backup can be canceled, and a task made before the server is back runs', async () => {
    const { id } = await p.environment('main')
    p.executor.script = async (attempt) => {
      await attempt.stopAsked()
      attempt.cancel()
    }
    const running = (await p.deploy(id)).body
    await until('it runs', async () => (await p.task(running.id)).status === 'running' || undefined)
    const backup = await p.cp.backup()
    p.killAgent()
    await p.cp.restore(backup)
    await p.cp.call('POST', `/api/tasks/${running.id}/cancel`)
    await p.startAgent()
    expect((await p.settled(running.id)).status).toBe('canceled')
    p.killAgent()
    p.executor.script = (attempt) => attempt.succeed()
    const waits = (await p.deploy(id)).body
    await p.startAgent()
    expect((await p.settled(waits.id)).status).toBe('succeeded')
  })

  test('logs that were not restored with the database start again and do not hold zeros', async () => {
    const { id } = await p.environment('main')
    const goOn = Promise.withResolvers<void>()
    p.executor.script = async (attempt) => {
      attempt.say('one\n')
      await goOn.promise
      attempt.say('two\n')
      attempt.succeed()
    }
    const task = (await p.deploy(id)).body
    await until('a line', async () => (await p.log(task.id)).includes('one') || undefined)
    const backup = await p.cp.backup()
    await p.cp.restore(backup)
    await p.online()
    goOn.resolve()
    expect((await p.settled(task.id)).status).toBe('succeeded')
    const text = await p.log(task.id)
    expect(text).not.toContain('\0')
    expect(text).toContain('two\n')
  })
})

describe.each(ENGINES)('a restored database on %s: messages', (engine) => {
  let p: Platform
  let agent: WireAgent
  let environment: Environment
  const others: WireAgent[] = []
  beforeEach(async () => {
    p = await Platform.bare(engine)
    await p.cp.setUp()
    p.serverId = (await p.cp.server()).id
    p.projectId = (await p.cp.project('shop', p.serverId)).id
    environment = await p.environment('main')
    agent = await WireAgent.join(p.cp, p.serverId)
  })
  afterEach(async () => {
    for (const one of [agent, ...others.splice(0)]) one.close()
    await p.close()
  })

  const ID = '0198c0de-0000-7000-8000-000000000001'

  test('an agent of before this release gets a number for the environment it is asked about', async () => {
    const attempts = [
      { attemptId: ID, fence: 3n, state: AttemptState.RUNNING },
      { attemptId: ID.replace(/1$/, '2'), fence: 2n, state: AttemptState.FAILED },
    ]
    const session = agent.connect({ attempts })
    const [live, over] = await session.assignments()
    expect(live).toMatchObject({ attemptId: ID, desired: Desired.STOPPED })
    expect(over).toMatchObject({ desired: Desired.FORGOTTEN })
    expect([live?.environmentId, over?.environmentId]).not.toContain(0)
    const value = { state: AttemptState.CANCELED }
    session.event({ attemptId: ID, fence: 3n, body: { case: 'attempt', value } })
    const [gone] = await session.assignments()
    expect(gone).toMatchObject({ attemptId: ID, fence: 3n, desired: Desired.FORGOTTEN })
  })

  test('a certificate that was renewed after the backup is known again; an older one is a copy of the disk', async () => {
    const renew = async (of: WireAgent, generation: bigint) => {
      const { csrPem, key } = await createKeyRequest()
      const csrDer = Buffer.from(csrPem.replace(/-----[^-]+-----|\s/g, ''), 'base64')
      return new Promise<WireAgent>((resolve, reject) => {
        of.client.renewCertificate(
          { $typeName: 'berth.agent.v1.RenewCertificateRequest', csrDer, generation },
          {},
          (error, answer) => {
            if (error || !answer) return reject(error ?? new Error('no answer'))
            const certificate = Buffer.from(answer.certificatePem).toString()
            const renewed = of.as({ ...of.identity, certificate, key })
            others.push(renewed)
            resolve(renewed)
          },
        )
      })
    }
    const day = 86_400_000
    p.cp.clock.offsetMs = -3 * day // certificates must be valid today
    const first = await WireAgent.join(p.cp, p.serverId, true)
    others.push(first)
    await first.active().then((s) => s.cut())
    const backup = await p.cp.backup()
    p.cp.clock.offsetMs += day
    const second = await renew(first, 1n)
    await second.active().then((s) => s.cut())
    p.cp.clock.offsetMs += day
    const third = await renew(second, 2n)
    await p.cp.restore(backup)
    await third.active().then((s) => s.cut())
    await third.active().then((s) => s.cut())
    const copy = second.connect()
    expect((await copy.next('goodbye')).reason).toBe(GoodbyeReason.DUPLICATE_IDENTITY)
  })

  test('a server that joined after the backup is told what to do, not to stop; it joins again', async () => {
    const other = await p.cp.server('two')
    const backup = await p.cp.backup()
    const late = await WireAgent.join(p.cp, other.id)
    others.push(late)
    await late.active().then((s) => s.cut())
    await p.cp.restore(backup)
    const goodbye = await late.connect().next('goodbye')
    expect(goodbye.reason).toBe(GoodbyeReason.UNKNOWN_AGENT)
    expect(goodbye.message).toContain('berth-agent join --force')
    expect(Number(goodbye.reconnectAfter?.seconds)).toBeGreaterThanOrEqual(60)
    const again = await WireAgent.join(p.cp, other.id)
    others.push(again)
    await again.active()
  })

  test('a server that joins again keeps its attempts: their reports count', async () => {
    const session = await agent.active()
    const task = (await p.deploy(environment.id)).body
    const [a] = await session.assignments()
    const at = { attemptId: a?.attemptId ?? '', fence: a?.fence ?? 0n }
    session.event({ ...at, body: { case: 'attempt', value: { state: AttemptState.RUNNING } } })
    const running = () => p.task(task.id).then((t) => t.status === 'running' || undefined)
    await until('it runs', running)
    const again = await WireAgent.join(p.cp, p.serverId, true)
    others.push(again)
    const attempts = [{ ...at, state: AttemptState.RUNNING }]
    const back = again.connect({ attempts })
    const [same] = await back.assignments()
    expect(same).toMatchObject({ attemptId: at.attemptId, desired: Desired.RUNNING })
    back.event({ ...at, body: { case: 'attempt', value: { state: AttemptState.SUCCEEDED } } })
    await until('it ended', () => p.task(task.id).then((t) => t.finished_at ?? undefined))
    expect((await p.task(task.id)).status).toBe('succeeded')
  })

  test('a server that joins again and lost its attempts does not lock its environments', async () => {
    const session = await agent.active()
    const task = (await p.deploy(environment.id)).body
    await session.assignments()
    const again = await WireAgent.join(p.cp, p.serverId, true)
    others.push(again)
    const back = await again.active()
    expect(await p.task(task.id)).toMatchObject({ status: 'failed' })
    const next = (await p.deploy(environment.id)).body
    const [a] = await back.assignments()
    expect(a?.taskId).toBe(next.id)
  })

  test('another environment under the same number is never mixed up with the one on the server', async () => {
    await agent.active().then((s) => s.cut())
    const task = (await p.deploy(environment.id)).body
    const createdAt = timestampFromMs(Date.parse(environment.created_at) - 1_000)
    const fences = [{ environmentId: environment.id, fence: 4n, createdAt, taskId: 1 }]
    const session = await agent.active({ fences })
    const failed = await p.task(task.id)
    expect(failed).toMatchObject({ status: 'failed', failure: { code: 'stale_fence' } })
    expect(failed.failure?.message).toContain('create it again')
    // nothing of it is on the server, so its removal does not need the server
    const removed = await p.cp.call('DELETE', `/api/environments/${environment.id}`)
    expect(removed.status).toBe(202)
    expect((await p.environment('main')).id).toBeGreaterThan(environment.id)
    session.cut()
  })

  test('servers follow the restored settings: passwords and what they trust', async () => {
    const settings = async () => {
      const session = agent.connect({ trustGeneration: trusted })
      await session.assignments()
      const edge = await session.next('edge')
      const { generation } = await session.next('trust')
      session.cut()
      return { revision: edge.environments[0]?.revision ?? 0n, generation }
    }
    let trusted = 0n
    await settings()
    const backup = await p.cp.backup()
    const body = { basic_auth: { mode: 'own', username: 'ada', password: 'correct horse' } }
    await p.cp.call('PATCH', `/api/environments/${environment.id}`, body)
    const newest = await settings()
    trusted = newest.generation + 5n
    await p.cp.restore(backup)
    const restored = await settings()
    expect(restored.revision).toBeGreaterThan(newest.revision)
    expect(restored.generation).toBeGreaterThan(trusted)
  })

  test('one server cannot use up the numbers of everybody', async () => {
    const most = 0xffff_ffff
    const fences = [{ environmentId: most, fence: 1n, taskId: most, projectId: most }]
    await agent.active({ fences }).then((s) => s.cut())
    await agent.active({ fences }).then((s) => s.cut())
    const { id } = await p.environment('next')
    expect(id).toBeLessThan(200_000)
  })
})
