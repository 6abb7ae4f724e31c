// "While a deployment of an environment is queued or running": the lock at every gateway, for every trigger, also for
// concurrent requests. On both databases.
import type { Environment, Task } from '@berth/shared/api'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { change } from '../../control-plane/src/app/core/transaction.ts'
import { queueTask } from '../../control-plane/src/app/deployments/queue.ts'
import { findEnvironment } from '../../control-plane/src/store/environments/environments.ts'
import { findProject } from '../../control-plane/src/store/projects/projects.ts'
import type { Said } from '../fixtures/people/people.ts'
import type { Answer } from '../fixtures/platform/control-plane.ts'
import { openDashboardClient } from '../fixtures/platform/dashboard-client.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { until } from '../fixtures/server/installation.ts'

describe.each(ENGINES)('the lock on %s', (engine) => {
  let p: Platform
  let environment: Environment
  let path: string
  beforeEach(async () => {
    p = await Platform.start(engine)
    environment = await p.environment('main')
    path = `/api/environments/${environment.id}`
  })
  afterEach(() => p.close())

  const gateways = (): [string, string, unknown][] => [
    ['POST', `${path}/tasks`, undefined],
    ['DELETE', path, undefined],
    ['DELETE', `${path}?force=true`, undefined],
    ['DELETE', `${path}?forget=true`, undefined],
    ['POST', `${path}/reset`, { confirm: 'main' }],
    ['PATCH', path, { server_id: p.serverId }],
    ['PATCH', path, { domain: 'other.shop.example.com' }],
    ['PATCH', path, { recipe: 'docker' }],
    ['PATCH', path, { branch: 'other' }],
  ]
  const expectLocked = async (taskId: number): Promise<void> => {
    for (const [method, url, body] of gateways()) {
      const refused = await p.cp.call(method, url, body)
      expect([method, url, refused.status, refused.body.code, refused.body.task_id]).toEqual([
        method,
        url,
        409,
        'deployment_in_progress',
        taskId,
      ])
      const { task_status: status, started_at: started } = refused.body
      if (status === 'queued') expect(started).toBeNull()
      else expect(started).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
    }
    // and at the dashboard's gateway
    for (const name of ['deploy', 'delete', 'reset']) {
      const input = {
        environment_id: environment.id,
        ...(name === 'reset' ? { confirm: 'main' } : {}),
      }
      const { body } = await p.cp.call<Said<null>>('POST', `/trpc/environment.${name}`, input)
      expect([name, body.error?.data]).toMatchObject([
        name,
        { code: 'deployment_in_progress', task_id: taskId },
      ])
    }
    const { body } = await p.cp.call<Environment>('GET', path)
    expect(body).toMatchObject({ locked: true, locked_by: { task_id: taskId } })
    for (const word of ['deploy', 'delete', 'reset', 'act']) expect(body.may).not.toContain(word)
  }
  /** Queues as a delivery would, without a user. */
  const queueByWebhook = async (): Promise<number> => {
    const { ctx } = p.cp.running
    const row = await findEnvironment(ctx.db, environment.id)
    const project = await findProject(ctx.db, p.projectId)
    if (!row || !project) throw new Error('no environment')
    const by = { type: 'webhook', name: 'ada', deliveryId: 1 } as const
    const asked = { type: 'deploy', by, trigger: 'webhook' } as const
    return change(ctx, (c) => queueTask(c, row, project, asked))
  }

  test('the Deploy and Delete Environment actions are locked while it is queued, and while it is running', async () => {
    const gate = Promise.withResolvers<void>()
    p.executor.script = async (a) => {
      await gate.promise
      a.succeed()
    }
    await p.cp.call('PATCH', `/api/servers/${p.serverId}`, { paused: true })
    const { body } = await p.deploy(environment.id)
    await expectLocked(body.id)
    await p.cp.call('PATCH', `/api/servers/${p.serverId}`, { paused: false })
    await until('running', async () =>
      (await p.task(body.id)).status === 'running' ? true : undefined,
    )
    await expectLocked(body.id)
    // changes that do not affect the deployment stay possible; they apply to the next one
    expect((await p.cp.call('PATCH', path, { title: 'New', sticky: true })).status).toBe(200)
    expect((await p.cp.call('PATCH', `${path}/variables`, { set: { A: '1' } })).status).toBe(200)
    gate.resolve()
    await p.settled(body.id)
  })

  test('This holds also when the running deployment came from a webhook', async () => {
    await p.cp.call('PATCH', `/api/servers/${p.serverId}`, { paused: true })
    const page = openDashboardClient(p.cp, p.cp.token)
    const heard = page.watch(page.client.environment.events, { environment_id: environment.id })
    await heard.started()
    const id = await queueByWebhook()
    // a second browser gets the event without polling
    const [reported] = await heard.hear('task.queued')
    expect(reported?.data.environment).toMatchObject({ id: environment.id, locked: true })
    await page.close()
    await expectLocked(id)
    expect((await p.cp.call<Environment>('GET', path)).body.locked_by?.trigger).toBe('webhook')
  })

  test('The lock is released when the deployment finishes', async () => {
    const ends = [
      (): void => {
        p.executor.script = (a) => a.succeed()
      },
      (): void => {
        p.executor.script = (a) => a.fail('no')
      },
    ]
    for (const prepare of ends) {
      prepare()
      const { body } = await p.deploy(environment.id)
      await p.settled(body.id)
      const after = await p.cp.call<Environment>('GET', path)
      expect(after.body.locked).toBe(false)
      expect(after.body.may).toEqual(expect.arrayContaining(['deploy', 'delete', 'reset']))
    }
    const reset = await p.cp.call<Task>('POST', `${path}/reset`, { confirm: 'main' })
    expect([reset.status, reset.body.reset, reset.body.type]).toEqual([201, true, 'deploy'])
    await p.settled(reset.body.id)
    expect((await p.cp.call('DELETE', path)).status).toBe(202)
  })

  test('of any two that ask at once exactly one wins', async () => {
    await p.cp.call('PATCH', `/api/servers/${p.serverId}`, { paused: true })
    const ask: Record<string, () => Promise<Answer>> = {
      deploy: () => p.cp.call('POST', `${path}/tasks`),
      remove: () => p.cp.call('DELETE', path),
      reset: () => p.cp.call('POST', `${path}/reset`, { confirm: environment.identifier }),
    }
    let n = 0
    for (const a of Object.keys(ask)) {
      for (const b of Object.keys(ask)) {
        environment = await p.environment(`e${++n}`)
        path = `/api/environments/${environment.id}`
        await deployedBefore()
        const answers = await Promise.all([a, b, a, b].map((name) => ask[name]?.()))
        const won = answers.filter((r) => r && r.status < 300)
        const codes = answers.filter((r) => r && r.status >= 300).map((r) => r?.body.code)
        expect([a, b, won.length], JSON.stringify(answers.map((r) => r?.text))).toEqual([a, b, 1])
        for (const code of codes) {
          expect(['deployment_in_progress', 'environment_removing']).toContain(code)
        }
        const open = await p.cp.call<Task[]>('GET', `${path}/tasks?type=all&status=queued`)
        expect(open.body.length).toBe(1)
      }
    }
  })

  /** An attempt that reached the server, so that a removal has something to remove. */
  async function deployedBefore(): Promise<void> {
    await p.cp.call('PATCH', `/api/servers/${p.serverId}`, { paused: false })
    const { body } = await p.deploy(environment.id)
    await p.settled(body.id)
    await p.cp.call('PATCH', `/api/servers/${p.serverId}`, { paused: true })
  }
})
