// What a server observes of its services reaches users: degraded with its reason, each service's state, live. Nothing
// is written when nothing changed. Also covers which attempts may claim hostnames. A scripted agent, on both databases.
import type { Environment, Task } from '@berth/shared/api'
import { AttemptState, type ObservedEnvironmentSchema } from '@berth/shared/wire'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { WireAgent, type WireSession } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'
import { settle } from '../fixtures/tenants/agents.ts'

const A = 'a'.repeat(40)
const B = 'b'.repeat(40)

describe.each(ENGINES)('what a server sees on %s', (engine) => {
  let cp: TestControlPlane
  let agent: WireAgent
  let session: WireSession
  let projectId: number
  let environment: Environment
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    const server = await cp.server()
    projectId = (await cp.project('shop', server.id)).id
    environment = await cp.environment(projectId)
    agent = await WireAgent.join(cp, server.id)
    session = await agent.active()
  })
  afterAll(async () => {
    agent.close()
    await cp.close()
  })

  const path = () => `/api/environments/${environment.id}`
  const look = async () => (await cp.call<Environment>('GET', path())).body

  async function begin(commitSha: string) {
    const { id } = await cp.make<Task>(`${path()}/tasks`)
    const assigned = await until('an assignment', async () =>
      (await session.assignments()).find((a) => a.taskId === id && a.spec),
    )
    const { attemptId, fence } = assigned
    const report = (body: Parameters<typeof session.event>[0]['body'] & object) =>
      session.event({ attemptId, fence, body })
    report({ case: 'attempt', value: { state: AttemptState.RUNNING } })
    report({ case: 'commit', value: { commitSha } })
    const services = [{ name: 'web', hosts: [environment.domain] }, { name: 'worker' }]
    const end = async (state: AttemptState): Promise<void> => {
      if (state === AttemptState.SUCCEEDED) report({ case: 'services', value: { services } })
      report({ case: 'attempt', value: { state, message: 'over' } })
      await settle(session)
    }
    return { attemptId, fence, end }
  }

  type Seen = MessageInitShape<typeof ObservedEnvironmentSchema>
  const observe = async (fence: bigint, over: Seen = {}): Promise<void> => {
    const seen = { environmentId: environment.id, commitSha: A, fence, ...over }
    session.send({ case: 'observed', value: { last: true, environments: [seen] } })
    await settle(session)
  }
  const events = async (): Promise<number> => {
    const rows = cp.running.ctx.db.selectFrom('events').select((e) => e.fn.max('seq').as('seq'))
    return Number((await rows.executeTakeFirstOrThrow()).seq)
  }

  test('degraded with its reason, and back; a former version says nothing; the next starts anew', async () => {
    const first = await begin(A)
    await observe(first.fence, { degradedReason: 'too early' }) // its success was not reported yet
    expect((await look()).status).toBe('deploying')
    await first.end(AttemptState.SUCCEEDED)
    expect(await look()).toMatchObject({ status: 'degraded', status_reason: 'too early' })
    const counted = { name: 'web', state: 'running', replicas: 3, replicasUp: 2 }
    await observe(first.fence, { services: [counted] })
    expect((await look()).services[0]?.replicas).toEqual({ wanted: 3, running: 2 })
    await observe(first.fence)
    expect(await look()).toMatchObject({ status: 'running', status_reason: null, commit_sha: A })

    const before = await cp.call('GET', path())
    const degradedReason = 'web ended 5 times in 2 min, last exit code 1.'
    const services = [
      { name: 'web', state: 'restarting', restarts: 5 },
      { name: 'worker', state: 'exited' },
      { name: 'unknown', state: 'running' },
    ]
    const seq = await events()
    await observe(first.fence, { degradedReason, services })
    const after = await cp.call<Environment>('GET', path(), undefined, {
      'if-none-match': before.headers.get('etag') ?? '',
    })
    expect(after.status).toBe(200)
    expect(after.body).toMatchObject({ status: 'degraded', status_reason: degradedReason })
    expect(after.body.services.map((s) => [s.name, s.status])).toEqual([
      ['web', 'restarting'],
      ['worker', 'exited'],
    ])
    expect(await events()).toBe(seq + 1)
    // the same state again: nothing is written
    await observe(first.fence, { degradedReason, services })
    expect(await events()).toBe(seq + 1)
    const same = await cp.call('GET', path(), undefined, {
      'if-none-match': after.headers.get('etag') ?? '',
    })
    expect(same.status).toBe(304)

    const failed = await begin(B)
    await failed.end(AttemptState.FAILED)
    expect(await look()).toMatchObject({ status: 'degraded', status_reason: degradedReason })
    const second = await begin(A)
    await second.end(AttemptState.SUCCEEDED)
    expect(await look()).toMatchObject({ status: 'running', status_reason: null })
    expect((await look()).services.map((s) => s.status)).toEqual(['running', 'running'])
    await observe(first.fence, { degradedReason: 'of a former version' })
    await observe(second.fence + 1n, { degradedReason: 'of one that nobody asked for' })
    expect(await look()).toMatchObject({ status: 'running', status_reason: null })

    await observe(second.fence, { commitSha: B })
    expect(await look()).toMatchObject({
      status: 'degraded',
      status_reason: 'Running differs from last deployed: bbbbbbb runs, aaaaaaa was deployed.',
    })
    await observe(0n)
    expect(await look()).toMatchObject({
      status: 'degraded',
      services: [{ status: 'missing' }, {}],
    })
    session.cut() // offline: the known state stays
    await until('the end of the session', async () => {
      const { body } = await cp.call('GET', `/api/servers/${environment.server.id}`)
      return body.status !== 'online' || undefined
    })
    expect((await look()).status).toBe('degraded')
    session = await agent.active()
    await observe(second.fence)
    expect((await look()).status).toBe('running')
  })

  test('parts of the host that come and go are shown', async () => {
    const parts = [{ name: 'docker', version: '', reason: 'The engine does not answer.' }]
    session.send({ case: 'observed', value: { last: true, host: { os: 'linux', parts } } })
    await settle(session)
    const { body } = await cp.call('GET', `/api/servers/${environment.server.id}`)
    expect(body.parts).toEqual([
      { name: 'docker', version: null, reason: 'The engine does not answer.' },
    ])
  })

  test('tasks that wait for a busy server know their place', async () => {
    const ids: number[] = []
    for (const name of ['one', 'two', 'three']) {
      const { id } = await cp.environment(projectId, name)
      const task = await cp.make<Task>(`/api/environments/${id}/tasks`)
      ids.push(task.id)
    }
    const assigned = new Map<number, { attemptId: string; fence: bigint }>()
    await until('three assignments', async () => {
      for (const a of await session.assignments()) assigned.set(a.taskId, a)
      return ids.every((id) => assigned.has(id)) || undefined
    })
    const report = async (id: number, state: AttemptState, waitingFor = ''): Promise<void> => {
      const { attemptId, fence } = assigned.get(id) ?? { attemptId: '', fence: 0n }
      session.event({ attemptId, fence, body: { case: 'attempt', value: { state, waitingFor } } })
      await settle(session)
    }
    const waiting = async (id: number) =>
      (await cp.call<Task>('GET', `/api/tasks/${id}`)).body.waiting_for
    const [first = 0, second = 0, third = 0] = ids
    expect(await waiting(first)).toMatchObject({ code: 'dispatch', position: null })
    for (const id of ids) await report(id, AttemptState.ACCEPTED, 'dispatch')
    expect(await waiting(first)).toMatchObject({
      code: 'dispatch',
      message: 'one is busy: place 1 in line.',
      position: 1,
    })
    expect((await waiting(third))?.position).toBe(3)
    await report(first, AttemptState.STARTING)
    expect(await waiting(first)).toBe(null)
    expect((await waiting(second))?.position).toBe(1)
    expect((await waiting(third))?.position).toBe(2)
    for (const id of ids) await report(id, AttemptState.FAILED)
  })

  test('only the newest live attempt of a deployment claims host names', async () => {
    const ask = (attemptId: string, fence: bigint, hosts = ['docs.acme.dev']): Promise<string> =>
      new Promise((resolve) => {
        const $typeName = 'berth.agent.v1.ClaimHostsRequest' as const
        agent.client.claimHosts({ $typeName, attemptId, fence, hosts }, {}, (error, answer) =>
          resolve(error ? error.details : String(answer?.claims.map((c) => c.verdict))),
        )
      })
    const { attemptId, fence, end } = await begin(A)
    expect(await ask(attemptId, fence - 1n)).toContain('A newer deployment')
    expect(await ask(attemptId, fence, Array(65).fill('a.dev'))).toContain('at most 64')
    expect(await ask(attemptId, fence, [])).toBe('')
    const many = ['docs.acme.dev', environment.domain, '127.0.0.1']
    expect(await ask(attemptId, fence, many)).toBe('1,1,3')
    expect(await ask(attemptId, fence, many)).toBe('1,1,3')
    await end(AttemptState.FAILED)
    expect(await ask(attemptId, fence)).toBe('The attempt is over.')
    const removal = await cp.call<Task>('DELETE', path())
    const destroy = await until('its assignment', async () =>
      (await session.assignments()).find((a) => a.taskId === removal.body.id),
    )
    expect(await ask(destroy.attemptId, destroy.fence)).toBe('The environment is being removed.')
  })
})
