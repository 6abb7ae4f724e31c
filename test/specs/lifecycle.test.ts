// Restart, stop and start of what is deployed: tasks without a deployment, under the same lock and protection, and what
// users see of a stopped environment. On both databases.
import { LIFECYCLE_VERBS } from '@berth/shared'
import type { Environment, Task } from '@berth/shared/api'
import { FailureCode, LifecycleVerb } from '@berth/shared/wire'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { addMember } from '../fixtures/people/members.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import type { ScriptedAttempt } from '../fixtures/platform/scripted-executor.ts'
import { until } from '../fixtures/server/installation.ts'

describe.each(ENGINES)('restart, stop and start on %s', (engine) => {
  let p: Platform
  let environment: Environment
  beforeEach(async () => {
    p = await Platform.start(engine)
    environment = await p.environment('main')
  })
  afterEach(() => p.close())

  const deploy = async (): Promise<void> => {
    p.executor.script = (attempt) => {
      attempt.serve([{ name: 'web', port: 20_000 }, { name: 'worker' }])
      attempt.succeed()
    }
    const { body } = await p.deploy(environment.id)
    expect((await p.settled(body.id)).status).toBe('succeeded')
    p.executor.script = (attempt) => attempt.succeed()
  }
  const ask = (verb: string, body?: unknown) =>
    p.cp.call<Task & Record<string, unknown>>(
      'POST',
      `/api/environments/${environment.id}/${verb}`,
      body,
    )
  const done = async (verb: string, body?: unknown): Promise<Task> => {
    const answer = await ask(verb, body)
    expect(answer.status, answer.text).toBe(201)
    return p.settled(answer.body.id)
  }
  const look = async () =>
    (await p.cp.call<Environment>('GET', `/api/environments/${environment.id}`)).body
  const states = ({ services }: Environment) => services.map((s) => `${s.name} ${s.status}`)

  test('each is a task of its own type that the server performs without values', async () => {
    await deploy()
    const seen: ScriptedAttempt[] = []
    p.executor.script = (attempt) => {
      seen.push(attempt)
      attempt.succeed()
    }
    const verbs = [LifecycleVerb.RESTART, LifecycleVerb.STOP, LifecycleVerb.START]
    for (const verb of LIFECYCLE_VERBS) {
      const answer = await ask(verb, { service: 'web', message: 'for the demo' })
      expect(answer.headers.get('location')).toBe(`/api/tasks/${answer.body.id}`)
      expect(answer.body).toMatchObject({ type: verb, service: 'web', message: 'for the demo' })
      expect(await p.settled(answer.body.id)).toMatchObject({ status: 'succeeded' })
    }
    expect(seen.map(({ assignment }) => assignment.spec?.kind)).toMatchObject(
      verbs.map((verb) => ({ case: 'lifecycle', value: { verb, service: 'web' } })),
    )
    expect(seen.flatMap(({ secrets }) => secrets.variables)).toEqual([])
    // they are no deployments
    const tasks = `/api/environments/${environment.id}/tasks`
    expect((await p.cp.call<Task[]>('GET', tasks)).body).toHaveLength(1)
    const all = (await p.cp.call<Task[]>('GET', `${tasks}?type=all`)).body
    expect(all.map(({ type }) => type)).toEqual(['start', 'stop', 'restart', 'deploy'])
    const stops = (await p.cp.call<Task[]>('GET', `${tasks}?type=stop`)).body
    expect(stops.map(({ type }) => type)).toEqual(['stop'])
    expect((await look()).last_task?.id).toBe(all.at(-1)?.id)
  })

  test('a stopped environment says so, by whom and when, until it is started or deployed', async () => {
    await deploy()
    const task = await done('stop')
    const by = { by: 'Ada', at: task.finished_at, task_id: task.id }
    const stopped = await look()
    expect(stopped).toMatchObject({
      status: 'stopped',
      status_reason: `Stopped by Ada at ${task.finished_at}. A start or a deployment brings it back.`,
      stopped: { ...by, services: ['web', 'worker'] },
    })
    expect(states(stopped)).toEqual(['web stopped', 'worker stopped'])

    await done('start', { service: 'web' })
    const half = await look()
    expect(half).toMatchObject({
      status: 'running',
      status_reason: `worker is stopped by Ada at ${task.finished_at}.`,
      stopped: { ...by, services: ['worker'] },
    })
    await done('restart')
    expect(await look()).toMatchObject({ status: 'running', status_reason: null, stopped: null })

    await done('stop')
    expect((await look()).status).toBe('stopped')
    await deploy()
    const fresh = await look()
    expect(fresh).toMatchObject({ status: 'running', status_reason: null, stopped: null })
    expect(states(fresh)).toEqual(['web running', 'worker running'])
  })

  test('one that fails changes nothing that is shown', async () => {
    await deploy()
    p.executor.script = (attempt) => attempt.fail('no', 1, FailureCode.STEP_FAILED)
    expect((await done('stop')).status).toBe('failed')
    expect(await look()).toMatchObject({ status: 'running', stopped: null })
  })

  test('refused before the first deployment, for an unknown service, and beside a deployment', async () => {
    const before = await ask('stop')
    expect([before.status, before.body.code]).toEqual([409, 'not_deployed'])
    await deploy()
    const unknown = await ask('restart', { service: 'api' })
    expect([unknown.status, unknown.body.detail]).toEqual([
      404,
      "main has no service 'api'. It has: web, worker.",
    ])
    let end: (() => void) | undefined
    p.executor.script = async (attempt) => {
      await new Promise<void>((resolve) => {
        end = resolve
      })
      attempt.succeed()
    }
    const { body: deployment } = await p.deploy(environment.id)
    await until('the deployment to run', () => end)
    for (const verb of LIFECYCLE_VERBS) {
      const refused = await ask(verb)
      expect([refused.status, refused.body.code, refused.body.task_id]).toEqual([
        409,
        'deployment_in_progress',
        deployment.id,
      ])
    }
    end?.()
    await p.settled(deployment.id)
  })

  test('a protected environment is only for its owner', async () => {
    await deploy()
    const path = `/api/environments/${environment.id}`
    await p.cp.call('PATCH', path, { protected: true })
    const other = await addMember(p.cp, 'Grace', 'owner')
    for (const verb of LIFECYCLE_VERBS) {
      const refused = await other.call('POST', `${path}/${verb}`)
      expect([refused.status, refused.body.code]).toEqual([403, 'environment_protected'])
    }
    const viewer = await addMember(p.cp, 'Viewer', 'viewer')
    expect((await viewer.call('POST', `${path}/stop`)).status).toBe(403)
    expect((await done('stop')).status).toBe('succeeded')
  })
})
