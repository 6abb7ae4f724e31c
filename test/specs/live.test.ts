// Live updates over a WebSocket: environments, projects and deployment progress, as a browser gets them. Real client,
// real socket, both databases.

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { change, emit } from '../../control-plane/src/app/core/transaction.ts'
import { LIVE } from '../../control-plane/src/limits/browser.ts'
import { insertEvents } from '../../control-plane/src/store/core/events.ts'
import {
  type Heardings,
  makePerson,
  openDashboardClient,
} from '../fixtures/platform/dashboard-client.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { until } from '../fixtures/server/installation.ts'

describe.each(ENGINES)('live updates on %s', (engine) => {
  let p: Platform
  let organizationId = 0
  const open: { close(): void }[] = []
  beforeAll(async () => {
    p = await Platform.start(engine)
    organizationId = (await p.cp.call<{ organizations: { id: number }[] }>('GET', '/api/me')).body
      .organizations[0]?.id as number
  })
  afterEach(() => {
    for (const viewer of open.splice(0)) viewer.close()
  })
  afterAll(() => p.close())

  const view = (token = p.cp.token) => {
    const viewer = openDashboardClient(p.cp, token)
    open.push(viewer)
    return viewer
  }
  const ctx = () => p.cp.running.ctx
  /** Emits one event with its own number in the body. */
  const happen = (n: number, about = { organizationId, projectId: p.projectId }) =>
    change(ctx(), async (c) => emit(c, about, 'project.updated', { n }))
  const numbers = (heard: Heardings) =>
    heard.messages
      .map((m) => (m.data.body as { n?: number } | undefined)?.n)
      .filter((n) => n !== undefined)
  const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)
  const allHeard = (heard: Heardings, count: number) =>
    until(`${count} events`, () => numbers(heard).length >= count || undefined)

  test('environments, projects and deployment progress, grouped by what they are about', async () => {
    const environment = await p.environment('live')
    const { client, watch } = view()
    const project = watch(client.project.events, { project_id: p.projectId })
    const one = watch(client.environment.events, { environment_id: environment.id })
    const other = watch(client.environment.events, {
      environment_id: (await p.environment('other')).id,
    })
    await Promise.all([project.started(), one.started(), other.started()])
    p.executor.script = async (a) => {
      a.say('hello\n')
      await until('the step to be seen', () => (one.kinds.includes('task.step') ? true : undefined))
      a.succeed()
    }
    const task = await client.environment.deploy.mutate({ environment_id: environment.id })
    expect(task).toMatchObject({ status: 'queued', trigger: 'dashboard' })
    await one.hear('task.succeeded')
    await project.hear('task.succeeded')
    const [queued] = await one.hear('task.queued')
    expect(queued?.data).toMatchObject({
      project_id: p.projectId,
      environment_id: environment.id,
      task_id: task.id,
      environment: { id: environment.id, locked: expect.any(Boolean) },
      task: { id: task.id },
    })
    // a page shows the progress of a deployment without polling
    expect(one.messages.map((m) => m.data.task)).toContainEqual(
      expect.objectContaining({ status: 'running', phase: expect.any(String), step: '1' }),
    )
    const [done] = await one.hear('task.succeeded')
    expect(done?.data.environment).toMatchObject({ status: 'running', locked: false })
    expect(one.kinds).toEqual(expect.arrayContaining(['task.running', 'task.planned', 'task.step']))
    expect(other.kinds).toEqual(['begun'])
    // numbers rise, and a subscription resumes after one of them
    expect(one.kinds[0]).toBe('begun')
    const seqs = one.messages.map((m) => m.data.seq as number)
    expect(seqs).toEqual([...seqs].sort((a, b) => a - b))
    expect(one.messages.map((m) => m.id)).toEqual(seqs.map(String))
  })

  test('output of a deployment: every line once, in order, while it runs and afterwards', async () => {
    const environment = await p.environment('output')
    const { client, watch } = view()
    let go = (): void => {}
    const more = new Promise<void>((resolve) => {
      go = resolve
    })
    p.executor.script = async (a) => {
      a.say('one\ntwo\nhalf')
      await more
      for (let n = 0; n < 450; n++) a.say(n === 0 ? ' a line\n' : `line ${n} ü\n`)
      a.succeed()
    }
    const task = await client.environment.deploy.mutate({ environment_id: environment.id })
    const live = watch(client.task.stream, { task_id: task.id })
    await live.hear('log')
    go()
    await live.hear('log.end')
    await live.hear('task.succeeded')
    const later = watch(client.task.stream, { task_id: task.id })
    await later.hear('log.end')
    const tail = watch(client.task.stream, { task_id: task.id, from_line: 450 })
    await tail.hear('log.end')
    const raw = await p.log(task.id)
    const text = (heard: Heardings) =>
      heard.messages
        .filter((m) => m.data.kind === 'log')
        .flatMap((m) => m.data.lines as { text: string }[])
        .map((l) => l.text)
        .join('')
    expect(raw).toContain('half a line\n')
    expect(text(live)).toBe(raw)
    expect(text(later)).toBe(raw)
    expect(text(tail)).toBe(raw.split('\n').slice(449).join('\n'))
    for (const m of later.messages.filter((l) => l.data.kind === 'log')) {
      expect((m.data.lines as unknown[]).length).toBeLessThanOrEqual(LIVE.logLines)
    }
  })

  test('a page that lost its connection resumes without gap and without double', async () => {
    const { client, ws, watch } = view()
    const heard = watch(client.project.events, { project_id: p.projectId })
    await heard.started()
    const total = 120
    for (const n of upTo(total)) {
      await happen(n)
      if (n % 20 === 10) ws.connection?.ws.close() // the browser loses its network
    }
    await allHeard(heard, total)
    expect(numbers(heard)).toEqual(upTo(total))
    expect(heard.starts).toBeGreaterThan(1)
  })

  test('and so does one over a restart of the control plane', async () => {
    const { client, watch } = view()
    const heard = watch(client.project.events, { project_id: p.projectId })
    await heard.started()
    for (const n of upTo(10)) await happen(n)
    await allHeard(heard, 5)
    await p.restartControlPlane()
    for (const n of upTo(10)) await happen(10 + n)
    await allHeard(heard, 20)
    expect(numbers(heard)).toEqual(upTo(20))
  })

  test('many at once: a subscriber far behind reads the table and misses nothing', async () => {
    const { client, watch } = view()
    const heard = watch(client.project.events, { project_id: p.projectId })
    await heard.started()
    const total = LIVE.subscriberEvents * 2 + 7
    await change(ctx(), async (c) => {
      for (const n of upTo(total)) {
        emit(c, { organizationId, projectId: p.projectId }, 'project.updated', { n })
      }
    })
    await allHeard(heard, total)
    expect(numbers(heard)).toEqual(upTo(total))
  })

  test('what another process writes is seen without a wake-up', async () => {
    const { client, watch } = view()
    const heard = watch(client.project.events, { project_id: p.projectId })
    await heard.started()
    const { db, engine: kind } = ctx()
    await db.transaction().execute((tx) =>
      insertEvents(tx, kind, [
        {
          organizationId,
          projectId: p.projectId,
          kind: 'project.updated',
          body: { n: 1 },
          at: ctx().clock.now(),
        },
      ]),
    )
    await allHeard(heard, 1) // the look at the repository also updates the project
    expect(numbers(heard)).toEqual([1])
  })

  test('a fault of ours is no end: the page comes back and misses nothing', async () => {
    const { client, watch } = view()
    const heard = watch(client.project.events, { project_id: p.projectId })
    await heard.started()
    await happen(0)
    await allHeard(heard, 1)
    const { db } = ctx()
    await db.schema.alterTable('members').renameTo('hidden').execute()
    p.cp.clock.offsetMs += 5_000 // the access check runs and fails
    await happen(1)
    await until('the socket to be cut', () => p.cp.running.sockets.subscriptions === 0 || undefined)
    await db.schema.alterTable('hidden').renameTo('members').execute()
    await allHeard(heard, 2)
    expect(numbers(heard)).toEqual([0, 1])
    expect(heard.error).toBeUndefined()
  })

  test('what is not kept any more, or never was, is a reset', async () => {
    const { client, watch } = view()
    const asked = (lastEventId: string) =>
      watch(client.project.events, { project_id: p.projectId, lastEventId })
    const head = ctx().feed.head
    const ahead = asked(String(head + 1_000))
    await ahead.hear('reset')
    await happen(1)
    await allHeard(ahead, 1)
    expect(ahead.kinds[0]).toBe('reset') // a task of an earlier test may still emit events
    expect(numbers(ahead)).toEqual([1])
    const old = asked('0')
    await ctx().db.deleteFrom('events').where('seq', '<', 10).execute()
    const gone = asked('3')
    await gone.hear('reset')
    expect(Number(gone.messages[0]?.id)).toBeGreaterThanOrEqual(head)
    old.stop()
  })

  test('a foreign organization sees nothing, and what it asks for does not exist', async () => {
    const environment = await p.environment('mine')
    const task = await p.deploy(environment.id)
    const stranger = await makePerson(p.cp, `stranger-${engine}`)
    const { client, watch } = view(stranger.token)
    for (const [to, input] of [
      [client.project.events, { project_id: p.projectId }],
      [client.environment.events, { environment_id: environment.id }],
      [client.organization.events, { organization_id: organizationId }],
      [client.task.stream, { task_id: task.body.id }],
    ] as const) {
      const heard = watch(to as never, input as never)
      expect(await heard.refused()).toMatchObject({ code: 'not_found' })
      expect(heard.messages).toEqual([])
    }
    await expect(client.project.get.query({ project_id: p.projectId })).rejects.toMatchObject({
      data: { code: 'not_found', status: 404 },
    })
    const deploy = client.environment.deploy.mutate({ environment_id: environment.id })
    await expect(deploy).rejects.toMatchObject({ data: { code: 'not_found' } })
    const own = watch(client.organization.events, { organization_id: stranger.organizationId })
    await own.started()
    await happen(1)
    await happen(2, { organizationId: stranger.organizationId, projectId: 0 })
    await own.hear('project.updated')
    expect(numbers(own)).toEqual([2])
  })

  describe('access that ends while a page is open', () => {
    async function watching() {
      const person = await makePerson(p.cp, `leaver-${engine}-${Math.random()}`, {
        organizationId,
        role: 'viewer',
      })
      const { client, watch } = view(person.token)
      const heard = watch(client.organization.events, { organization_id: organizationId })
      await heard.started()
      await happen(1)
      await allHeard(heard, 1) // a check of a repository emits project events, too
      return { person, heard }
    }

    test('membership: nothing more after five seconds', async () => {
      const { person, heard } = await watching()
      await ctx().db.deleteFrom('members').where('userId', '=', person.userId).execute()
      p.cp.clock.offsetMs += 5_000
      await happen(2)
      expect(await heard.refused()).toMatchObject({ code: 'not_found' })
      expect(numbers(heard)).toEqual([1])
    })

    test('membership, said so: at once', async () => {
      const { person, heard } = await watching()
      await change(ctx(), async (c) => {
        await c.db.deleteFrom('members').where('userId', '=', person.userId).execute()
        emit(c, { organizationId }, 'member.updated', { user_id: person.userId })
      })
      await happen(2) // without advancing the clock
      expect(await heard.refused()).toMatchObject({ code: 'not_found' })
      expect(numbers(heard)).toEqual([1]) // a task of an earlier test may end meanwhile
    })

    test('the token: the socket is closed, and does not open again', async () => {
      const { person, heard } = await watching()
      const { now } = ctx().clock
      await ctx()
        .db.updateTable('tokens')
        .set({ revokedAt: now() })
        .where('userId', '=', person.userId)
        .execute()
      p.cp.clock.offsetMs += 5_000
      await happen(2)
      expect(await heard.refused()).toMatchObject({ code: 'token_revoked' })
      expect(numbers(heard)).toEqual([1])
    })
  })

  test('queries and errors are those of REST', async () => {
    const { client } = view()
    const projects = await client.project.list.query()
    expect(projects.projects).toEqual((await p.cp.call('GET', '/api/projects')).body)
    const list = await client.environment.list.query({ project_id: p.projectId })
    const rest = await p.cp.call('GET', `/api/projects/${p.projectId}/environments`)
    expect(list.environments).toEqual(rest.body)
    expect(list).toMatchObject({ used: list.environments.length, limit: 20 })
    const me = await client.me.query()
    const { token: _token, ...same } = (await p.cp.call('GET', '/api/me')).body
    // for the dashboard alone: the second factor, and organizations that wait for it
    const { has_second_factor, waiting_organizations, ...shared } = me
    expect([has_second_factor, waiting_organizations]).toEqual([false, []])
    expect(shared).toEqual(same)
    const wrong = client.task.get.query({ task_id: -1 })
    await expect(wrong).rejects.toMatchObject({ data: { code: 'validation_failed', status: 422 } })
    const environment = await p.environment('busy')
    p.executor.script = async (a) => {
      await a.stopAsked()
      a.cancel()
    }
    const task = await client.environment.deploy.mutate({ environment_id: environment.id })
    const second = client.environment.deploy.mutate({ environment_id: environment.id })
    await expect(second).rejects.toMatchObject({
      data: { code: 'deployment_in_progress', status: 409, task_id: task.id },
    })
    await client.task.cancel.mutate({ task_id: task.id })
    await p.settled(task.id)
    const tasks = await client.task.list.query({ environment_id: environment.id })
    expect(tasks.tasks.map((t) => [t.id, t.status])).toEqual([[task.id, 'canceled']])
  })
})
