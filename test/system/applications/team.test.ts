// Stacks of teams: five services from a compose file, a private base image with a build secret, a worker with a
// schedule, and WebSockets. Each is redeployed and removed without a trace; addresses have visitors that never retry.
import { randomBytes } from 'node:crypto'
import type { Action, ScheduledRun, Task } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { callEngine } from '../../../scripts/docker-engine.ts'
import {
  BUSYBOX_IMAGE,
  makeNodeImage,
  makePostgresImage,
  makePythonImage,
} from '../../fixtures/docker/images.ts'
import { startRegistry, type TestRegistry } from '../../fixtures/docker/registry.ts'
import { dockerEngine, missing } from '../../fixtures/platform/components.ts'
import { Fixture, until } from '../../fixtures/server/installation.ts'
import { Application, NOTHING } from './application.ts'

const engine = dockerEngine()
const isAbsent = !engine || missing('caddy') || missing('postgres') || missing('registry')
const socket = engine?.socket ?? ''
const secret = (): string => randomBytes(12).toString('hex')

describe.skipIf(isAbsent)('applications of teams', () => {
  let fixture: Fixture
  beforeAll(async () => {
    if (!engine) return
    await makeNodeImage(socket)
    await makePythonImage(socket)
    await makePostgresImage(socket)
    fixture = await Fixture.open({ docker: engine })
  })
  afterAll(() => fixture?.close())

  async function removed(application: Application): Promise<void> {
    expect((await application.destroy()).status).toBe('succeeded')
    expect(await fixture.owned()).toEqual(NOTHING)
  }

  test('five services from a compose file: orders stay, and none is lost', async () => {
    const password = secret()
    const application = await Application.open(fixture, 'five-services', {
      recipe: 'docker',
      init: ['--from-compose'],
      variables: {
        POSTGRES_PASSWORD: password,
        DATABASE_URL: `postgresql://shop:${password}@db:5432/shop`,
      },
    })
    const order = async (what: string, all: string): Promise<void> => {
      expect((await application.ask('/', { method: 'POST' }, what)).status).toBe(200)
      await until('the worker', async () =>
        (await application.ask()).text.endsWith(`orders: ${all}\n`) ? true : undefined,
      )
    }
    const admin = async (): Promise<string> =>
      (await application.ask('/', { service: 'admin' })).text
    await application.deploy()
    const { status, services } = await application.view()
    expect([status, services.map(({ name, url }) => [name, url !== null])]).toEqual([
      'running',
      Object.entries({ web: true, admin: true, worker: false, redis: false, db: false }),
    ])
    await order('tea', 'tea')
    expect(await admin()).toBe('version one, stored: 1\n')

    application.change('version', 'two')
    application.change('admin/version', 'two')
    const visits = await application.visitWhile(
      () => application.deploy(),
      (text) => /^version (one|two), (orders: tea|stored: 1)\n$/.test(text),
    )
    expect(visits.failed).toEqual([])
    expect(visits.good).toBeGreaterThan(0)
    expect((await application.ask()).text).toBe('version two, orders: tea\n')
    await order('cake', 'tea cake')
    expect(await admin()).toBe('version two, stored: 2\n')
    await removed(application)
  })

  describe('with a private registry', () => {
    const password = secret()
    let registry: TestRegistry
    beforeAll(async () => {
      registry = await startRegistry(password)
      await registry.push(socket, BUSYBOX_IMAGE, 'team/base')
    })
    afterAll(() => registry?.close())

    test('a private base image and a build secret', async () => {
      const token = secret()
      const application = await Application.open(fixture, 'private-base', {
        recipe: 'docker',
        variables: { PACKAGE_TOKEN: token },
        registry: registry.host,
      })
      const { id, project_id: project } = application.environment
      const { username, host } = registry
      const refused = await fixture.finished((await fixture.deploy(id)).id)
      expect(refused.failure?.message).toContain(`berth registry add ${host}`)
      const path = `/api/projects/${project}/registries/${host}`
      expect((await fixture.call('PUT', path, { username, password })).status).toBe(200)

      const deployed = await application.deploy()
      const { text } = await application.ask()
      expect(text).toBe(`version one, token of ${token.length} bytes\n`)
      const log = (await fixture.log(deployed.id)).toString()
      expect([log.includes(token), log.includes(password)]).toEqual([false, false])

      application.change('version', 'two')
      const visits = await application.visitWhile(
        () => application.deploy(),
        (page) => /^version (one|two), token of 24 bytes\n$/.test(page),
      )
      expect(visits.failed).toEqual([])
      expect((await application.ask()).text).toContain('version two')
      await removed(application)
      const images = (await callEngine(socket, 'GET', '/images/json')).text
      expect(images).not.toContain(registry.host)
    })
  })

  test('a worker without an address, and an action on a schedule', async () => {
    const application = await Application.open(fixture, 'worker-schedule', { recipe: 'docker' })
    const actions = `/api/environments/${application.environment.id}/actions`
    await application.deploy()
    const { status, url, services } = await application.view()
    expect([status, url, services]).toEqual([
      'running',
      null,
      [expect.objectContaining({ name: 'worker', url: null, status: 'running', replicas: null })],
    ])
    const [action] = await fixture.get<Action[]>(actions)
    expect(action?.schedule).toMatchObject({
      cron: '* * * * *',
      next_run_at: expect.stringMatching(/:00Z$/),
      paused_reason: null,
    })
    const run = await until('the next minute', async () =>
      (await fixture.get<ScheduledRun[]>(`${actions}/report/runs`)).find(
        ({ task_status }) => task_status === 'succeeded',
      ),
    )
    expect(run).toMatchObject({ outcome: 'started', due_at: expect.stringMatching(/:00Z$/) })
    const [later] = await fixture.get<Action[]>(actions)
    expect(Date.parse(later?.schedule?.next_run_at ?? '')).toBeGreaterThan(Date.parse(run.due_at))
    const task = await fixture.finished(run.task_id ?? 0)
    expect(task).toMatchObject({ type: 'action', action: 'report', trigger: 'schedule' })
    expect((await fixture.log(task.id)).toString()).toContain('version one starts\n')

    application.change('version', 'two')
    await application.deploy()
    const { id } = await fixture.post<Task>(`${actions}/report/tasks`, {})
    expect((await fixture.finished(id)).status).toBe('succeeded')
    const journal = (await fixture.log(id)).toString().match(/version \w+ \w+/g)
    expect(journal).toEqual(['version one starts', 'version one ends', 'version two starts'])
    await removed(application)
  })

  test('WebSockets: an open one goes on, and the version before says goodbye', async () => {
    const application = await Application.open(fixture, 'websocket', { recipe: 'docker' })
    await application.deploy()
    const before = await application.openSocket()
    expect(await before.say('hello')).toBe('version one: hello')

    application.change('version', 'two')
    const visits = await application.visitWhile(
      async () => {
        await application.deploy()
        expect(await before.say('still there?')).toBe('version one: still there?')
      },
      (text) => /^version (one|two)\n$/.test(text),
    )
    expect(visits.failed).toEqual([])
    expect(visits.good).toBeGreaterThan(0)
    const after = await application.openSocket()
    expect(await after.say('hello')).toBe('version two: hello')
    expect(await before.closed).toBe(1001)
    expect(await after.say('alone')).toBe('version two: alone')
    await removed(application)
    expect(await after.closed).toBe(1001)
  })
})
