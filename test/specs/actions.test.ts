// Actions of the deployed commit: they start as tasks and alternate with deployments. On both databases.
import type { Action, Environment, Task } from '@berth/shared/api'
import { ActionSchema, FailureCode } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import type { ScriptedAttempt } from '../fixtures/platform/scripted-executor.ts'
import { until } from '../fixtures/server/installation.ts'

const ACTIONS = [
  { name: 'seed', title: 'Load demo data' },
  { name: 'export-orders', title: 'Export orders', artifactPaths: ['exports/*.csv'] },
  { name: 'wipe', title: 'Wipe', confirm: 'Delete all orders?' },
  { name: 'legacy', title: 'Legacy', disabledReason: "legacy uses 'result: file'." },
].map((action) => create(ActionSchema, { timeout: durationFromMs(600_000), ...action }))

describe.each(ENGINES)('actions on %s', (engine) => {
  let p: Platform
  let environment: Environment
  let path: string
  beforeEach(async () => {
    p = await Platform.start(engine)
    environment = await p.environment('main')
    path = `/api/environments/${environment.id}/actions`
  })
  afterEach(() => p.close())

  const deployWith = async (actions = ACTIONS): Promise<void> => {
    p.executor.script = (attempt) => {
      attempt.emit({ case: 'actions', value: { actions } })
      attempt.succeed()
    }
    const { body } = await p.deploy(environment.id)
    expect((await p.settled(body.id)).status).toBe('succeeded')
  }
  const start = (name: string, body?: unknown) =>
    p.cp.call<Task & Record<string, unknown>>('POST', `${path}/${name}/tasks`, body)
  const list = async () => (await p.cp.call<Action[]>('GET', path)).body

  test('each deployment that succeeds replaces the list, one that fails leaves it', async () => {
    expect(await list()).toEqual([])
    await deployWith()
    expect(await list()).toMatchObject([
      { name: 'seed', title: 'Load demo data', enabled: true, timeout_seconds: 600, confirm: null },
      { name: 'export-orders', artifact_paths: ['exports/*.csv'] },
      { name: 'wipe', confirm: 'Delete all orders?' },
      { name: 'legacy', enabled: false, disabled_reason: "legacy uses 'result: file'." },
    ])
    p.executor.script = (attempt) => attempt.fail('no')
    await p.settled((await p.deploy(environment.id)).body.id)
    expect((await list()).length).toBe(4)
    await deployWith(ACTIONS.slice(0, 1))
    expect((await list()).map(({ name }) => name)).toEqual(['seed'])
  })

  test('one runs as a task of its own, with nobody but the server knowing its values', async () => {
    await deployWith()
    let seen: ScriptedAttempt | undefined
    p.executor.script = (attempt) => {
      seen = attempt
      attempt.say('200 orders\n')
      attempt.succeed()
    }
    const answer = await start('seed', { message: 'for the demo' })
    expect(answer.status).toBe(201)
    expect(answer.headers.get('location')).toBe(`/api/tasks/${answer.body.id}`)
    expect(answer.body).toMatchObject({ type: 'action', action: 'seed', message: 'for the demo' })
    const task = await p.settled(answer.body.id)
    expect([task.status, task.action]).toEqual(['succeeded', 'seed'])
    expect(seen?.assignment.spec?.kind).toMatchObject({ case: 'action', value: { name: 'seed' } })
    expect(seen?.secrets.variables).toEqual([])
    expect(await p.log(task.id)).toContain('200 orders')
    // an action is not a deployment, so the environment's state does not change
    const { body } = await p.cp.call<Environment>('GET', `/api/environments/${environment.id}`)
    expect(body.status).toBe('running')
    const history = await p.cp.call<Task[]>('GET', `/api/environments/${environment.id}/tasks`)
    expect(history.body.map(({ type }) => type)).not.toContain('action')
  })

  test('one that fails says so and changes nothing of the environment', async () => {
    await deployWith()
    p.executor.script = (attempt) =>
      attempt.fail('`exit 3` exited with 3.', 3, FailureCode.STEP_FAILED)
    const task = await p.settled((await start('seed')).body.id)
    expect(task).toMatchObject({ status: 'failed', failure: { code: 'step_failed', exit_code: 3 } })
    const { body } = await p.cp.call<Environment>('GET', `/api/environments/${environment.id}`)
    expect(body.status).toBe('running')
  })

  test('refused before the first deployment, when unknown, disabled or not confirmed', async () => {
    const before = await start('seed')
    expect([before.status, before.body.code]).toEqual([409, 'not_deployed'])
    await deployWith()
    const unknown = await start('sed')
    expect([unknown.status, unknown.body.detail]).toEqual([
      404,
      "main has no action 'sed'. It has: seed, export-orders, wipe, legacy.",
    ])
    const disabled = await start('legacy')
    expect([disabled.status, disabled.body.code]).toEqual([409, 'action_disabled'])
    const asked = await start('wipe')
    expect([asked.status, asked.body.code, asked.body.confirm]).toEqual([
      409,
      'confirmation_required',
      'Delete all orders?',
    ])
    expect((await start('wipe', { confirm: true })).status).toBe(201)
  })

  test('takes turns: refused beside a deployment, and a deployment waits for it', async () => {
    await deployWith()
    let end: (() => void) | undefined
    p.executor.script = async (attempt) => {
      if (attempt.assignment.spec?.kind.case !== 'action') return attempt.succeed()
      await new Promise<void>((resolve) => {
        end = resolve
      })
      attempt.succeed()
    }
    const action = (await start('seed')).body
    await until('the action to run', () => end)
    const deployment = await p.deploy(environment.id)
    expect(deployment.status).toBe(201)
    const waiting = await until('the reason', async () => {
      const { waiting_for } = await p.task(deployment.body.id)
      return waiting_for?.task_id === action.id ? waiting_for : undefined
    })
    expect(waiting.code).toBe('environment')
    const refused = await start('seed')
    expect([refused.status, refused.body.code]).toEqual([409, 'deployment_in_progress'])
    end?.()
    expect((await p.settled(action.id)).status).toBe('succeeded')
    expect((await p.settled(deployment.body.id)).status).toBe('succeeded')
  })

  test('at most five wait', async () => {
    await deployWith()
    let end: (() => void) | undefined
    p.executor.script = async (attempt) => {
      if (end) return attempt.succeed()
      await new Promise<void>((resolve) => {
        end = resolve
      })
      attempt.succeed()
    }
    const first = (await start('seed')).body.id
    await until('the first to run', () => end)
    await until('its status', async () => (await p.task(first)).status === 'running' || undefined)
    const queued = await Promise.all([1, 2, 3, 4, 5].map(() => start('seed')))
    expect(queued.map(({ status }) => status)).toEqual([201, 201, 201, 201, 201])
    const refused = await start('seed')
    expect([refused.status, refused.body.code, refused.body.limit]).toEqual([
      409,
      'too_many_tasks',
      5,
    ])
    end?.()
    for (const { body } of queued) expect((await p.settled(body.id)).status).toBe('succeeded')
  })

  test('can be canceled, and ends with its environment', async () => {
    await deployWith()
    p.executor.script = async (attempt) => {
      if (attempt.assignment.spec?.kind.case !== 'action') return attempt.succeed()
      await attempt.stopAsked()
      attempt.cancel()
    }
    const one = (await start('seed')).body
    await until('it to run', async () => (await p.task(one.id)).status === 'running' || undefined)
    expect((await p.cp.call('POST', `/api/tasks/${one.id}/cancel`)).status).toBe(202)
    expect((await p.settled(one.id)).status).toBe('canceled')
  })
})
