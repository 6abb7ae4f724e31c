// What the specification promises about failed deployments: diagnostics, their output, and logs of any age. On both
// databases. Titles are sentences of the specification where it has one.
import type { Diagnostics, Environment, TaskDiagnostics } from '@berth/shared/api'
import { FailureCode } from '@berth/shared/wire'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { expireLogs } from '../../control-plane/src/app/deployments/logs.ts'
import { makePerson } from '../fixtures/platform/dashboard-client.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import type { Script } from '../fixtures/platform/scripted-executor.ts'
import { until } from '../fixtures/server/installation.ts'

const A = 'a'.repeat(40)
const B = 'b'.repeat(40)

describe.each(ENGINES)('diagnostics on %s', (engine) => {
  let p: Platform
  let environment: Environment
  beforeEach(async () => {
    p = await Platform.start(engine)
    environment = await p.environment('main')
  })
  afterEach(() => p.close())

  async function play(script: Script): Promise<number> {
    p.executor.script = script
    const { body } = await p.deploy(environment.id)
    await p.settled(body.id)
    return body.id
  }

  const succeed = (sha = A) =>
    play((a) => {
      a.checkedOut(sha)
      a.succeed()
    })
  const fail = (said = 'it broke\n', sha = A) =>
    play((a) => {
      a.checkedOut(sha)
      a.say(said)
      a.fail('`make` exited with 2.', 2)
    })
  const path = () => `/api/environments/${environment.id}/diagnostics`
  const diagnose = async (query = '') =>
    (await p.cp.call<Diagnostics>('GET', `${path()}${query}`)).body
  const setVariables = (body: object) =>
    p.cp.call('PATCH', `/api/environments/${environment.id}/variables`, body)

  test('an environment of which no deployment has failed has none, and says so', async () => {
    const none = {
      environment_id: environment.id,
      status: 'none',
      task: null,
      failure: null,
      output: null,
      output_first_line: null,
      output_last_line: null,
      output_truncated: false,
      output_complete: true,
      hints: [],
      since_last_success: null,
      log_url: null,
      web_url: null,
      superseded_by: null,
    }
    expect(await diagnose()).toEqual(none)
    await succeed()
    expect(await diagnose()).toEqual(none)
  })

  test('Diagnostics report the real failed step and output', async () => {
    const id = await play((a) => {
      a.checkedOut(B)
      a.say('installing\nall is well here\n')
      a.step('2', 'npm run build')
      a.say("\u001b[96msrc/cart.ts\u001b[0m(14,7): error TS2322: Type 'string' is not…\n")
      a.fail('`npm run build` exited with 1.', 1)
    })
    const url = `${p.cp.url}/tasks/${id}`
    expect(await diagnose()).toEqual({
      environment_id: environment.id,
      status: 'failed',
      task: {
        id,
        status: 'failed',
        commit_sha: B,
        branch: 'main',
        trigger: 'api',
        finished_at: expect.stringMatching(/^\d{4}-.*Z$/),
        url,
      },
      failure: {
        code: 'step_failed',
        phase: 'run',
        step: '2',
        step_title: 'npm run build',
        message: '`npm run build` exited with 1.',
        exit_code: 1,
        line: 3,
        is_platform_check: false,
      },
      output: "src/cart.ts(14,7): error TS2322: Type 'string' is not…",
      output_first_line: 3,
      output_last_line: 3,
      output_truncated: false,
      output_complete: true,
      hints: [
        {
          code: 'compile_error',
          message: "The TypeScript build failed in src/cart.ts:14: Type 'string' is not…",
        },
      ],
      since_last_success: null,
      log_url: `${p.cp.url}/api/tasks/${id}/log`,
      web_url: `${url}#L3`,
      superseded_by: null,
    })
  })

  test("A deployment that fails in one of the platform's own checks (for example a missing repository configuration file) exposes the failed step and its message in the deployment output", async () => {
    const message =
      '.service.yml was not found in the root of main at bbbbbbb. Add one with: berth config init'
    const id = await play((a) => {
      a.say('Fetching main\n')
      a.checkedOut(B)
      a.step('read-config', 'Read .service.yml', 'configure')
      a.say(`✗ ${message}\n`)
      a.fail(message, 0, FailureCode.CONFIG_MISSING)
    })
    expect(await p.log(id)).toContain(message)
    const reported = await diagnose()
    expect(reported.failure).toMatchObject({
      code: 'config_missing',
      phase: 'configure',
      step: 'read-config',
      step_title: 'Read .service.yml',
      message,
      is_platform_check: true,
    })
    expect(reported.output).toBe(`✗ ${message}`)
  })

  test("Diagnostics report the failed step and its output, not a generic 'unparsed failure' text", async () => {
    // a check that wrote nothing, one without a step, and a refusal before anything ran
    const full = 'Server one has 1.2 GB free; this deployment needs about 2.1 GB.'
    await play((a) => {
      a.step('admit', 'Check the server', 'checkout')
      a.fail(full, 0, FailureCode.DISK_FULL)
    })
    expect(await diagnose()).toMatchObject({
      output: full,
      output_first_line: null,
      failure: { step: 'admit', code: 'disk_full' },
      hints: [{ code: 'disk_full' }],
    })
    p.killAgent()
    const { body } = await p.deploy(environment.id)
    await p.cp.advance(16 * 60_000)
    expect((await p.task(body.id)).status).toBe('failed')
    const offline = await diagnose()
    expect(offline).toMatchObject({
      task: { id: body.id },
      failure: { code: 'server_offline', step: null },
    })
    expect(offline.output).toBe(offline.failure?.message)
    expect(offline.output).toContain('offline for 15 minutes')
  })

  test('Diagnostics point at the most recent failed deployment, not merely the latest one', async () => {
    const older = await fail('the older one\n')
    const failed = await fail('the newer one\n')
    expect((await diagnose()).task?.id).toBe(failed)
    p.executor.script = async (a) => {
      await a.stopAsked()
      a.cancel()
    }
    const canceled = (await p.deploy(environment.id)).body.id
    await p.cp.call('POST', `/api/tasks/${canceled}/cancel`)
    await p.settled(canceled)
    expect(await diagnose()).toMatchObject({
      status: 'failed',
      task: { id: failed },
      superseded_by: null,
    })
    await succeed()
    const good = await succeed()
    expect(older).toBeLessThan(failed)
    expect(await diagnose()).toMatchObject({
      status: 'recovered',
      task: { id: failed },
      output: 'the newer one',
      superseded_by: { id: good, status: 'succeeded' },
    })
    const again = await fail('and again\n')
    expect(await diagnose()).toMatchObject({ status: 'failed', task: { id: again } })
  })

  test('a failed removal is no failed deployment', async () => {
    p.executor.script = (a) => (a.isDestroy ? a.fail('`drop` exited with 1.') : a.succeed())
    await p.settled((await p.deploy(environment.id)).body.id)
    const removal = await p.cp.call<{ id: number }>(
      'DELETE',
      `/api/environments/${environment.id}?confirm=main`,
    )
    expect(removal.status).toBe(202)
    await p.settled(removal.body.id)
    expect((await diagnose()).status).toBe('none')
  })

  test('what changed since the last success: commit, .service.yml, names of variables', async () => {
    const sha = (text: string) => Buffer.from(text.repeat(32)).subarray(0, 32)
    const read = (text: string) => ({
      case: 'serviceFile' as const,
      value: { path: '.service.yml', sha256: sha(text) },
    })
    await setVariables({ set: { KEPT: 'one-value', CHANGED: 'two-value', GONE: 'x-value' } })
    const good = await play((a) => {
      a.checkedOut(A)
      a.emit(read('1'))
      a.succeed()
    })
    await setVariables({ set: { CHANGED: 'secret-three' }, unset: ['GONE'] })
    await setVariables({ set: { KEPT: 'one-value' } }) // the same value is not a change
    await play((a) => {
      a.checkedOut(B)
      a.emit(read('2'))
      a.fail('no')
    })
    await setVariables({ set: { LATER: 'after-it' } })
    const reported = await diagnose()
    expect(reported.since_last_success).toEqual({
      task_id: good,
      commit_sha: A,
      service_file_changed: true,
      variable_keys_changed: ['CHANGED', 'GONE'],
    })
    expect(reported.hints.map(({ code }) => code)).toEqual([
      'commit_changed',
      'service_file_changed',
      'variables_changed',
    ])
    expect(JSON.stringify(reported)).not.toContain('secret-three')
  })

  test('a file that was never read is neither the same nor another', async () => {
    await succeed()
    await fail()
    expect((await diagnose()).since_last_success).toMatchObject({
      commit_sha: A,
      service_file_changed: null,
      variable_keys_changed: [],
    })
  })

  test('output: the last 200 lines or 16 KiB of the step alone, more when asked for', async () => {
    const lines = Array.from({ length: 2_500 }, (_, i) => `line ${i + 1}\n`)
    await play((a) => {
      a.say('not of this step\n')
      a.step('2', 'Loud')
      for (let i = 0; i < 25; i++) a.say(lines.slice(i * 100, i * 100 + 100).join(''))
      a.fail('loud')
    })
    const usual = await diagnose()
    expect(usual.output?.split('\n')).toHaveLength(200)
    expect([usual.output_first_line, usual.output_last_line]).toEqual([2_302, 2_501])
    expect([usual.output?.split('\n')[0], usual.output_truncated]).toEqual(['line 2301', true])
    const few = await diagnose('?lines=2')
    expect(few.output).toBe('line 2499\nline 2500')
    expect([few.output_first_line, few.output_last_line]).toEqual([2_500, 2_501])
    expect((await diagnose('?lines=2000')).output?.split('\n')).toHaveLength(2_000)
    for (const wrong of ['0', '2001', 'many']) {
      expect((await p.cp.call('GET', `${path()}?lines=${wrong}`)).status).toBe(400)
    }
    await play((a) => {
      for (let i = 0; i < 40; i++) a.say(`${'x'.repeat(1_000)}\n`)
      a.fail('long')
    })
    const long = await diagnose()
    expect(long.output?.length).toBeLessThanOrEqual(16 * 1_024)
    expect(long.output?.length).toBeGreaterThan(15 * 1_024)
    expect(long.output_truncated).toBe(true)
  })

  test('The raw deployment log of any task can be fetched by the client, and logs older than 24 hours can be reached', async () => {
    const id = await fail('why it broke\n')
    await p.cp.advance(26 * 3_600_000)
    expect(await p.log(id)).toBe('why it broke\n')
    expect((await diagnose()).output).toBe('why it broke')
    await p.cp.advance(90 * 86_400_000)
    await expireLogs(p.cp.running.ctx)
    const gone = await p.cp.call('GET', `/api/tasks/${id}/log`)
    expect([gone.status, gone.body.code]).toEqual([410, 'log_expired'])
    // the failure itself outlives its log
    expect(await diagnose()).toMatchObject({
      output: '`make` exited with 2.',
      output_first_line: null,
      failure: { step: '1', exit_code: 2 },
    })
  })

  test('tasks and logs of a removed environment stay readable, in the history of its project', async () => {
    const id = await fail('why it broke\n')
    p.executor.script = (a) => {
      a.say('removed\n')
      a.succeed()
    }
    const removal = await p.cp.call<{ id: number }>(
      'DELETE',
      `/api/environments/${environment.id}?confirm=main`,
    )
    await p.settled(removal.body.id)
    expect((await p.cp.call('GET', path())).status).toBe(404)
    expect((await p.task(id)).status).toBe('failed')
    expect(await p.log(id)).toBe('why it broke\n')
    expect(await p.log(removal.body.id)).toBe('removed\n')
    const history = `/api/projects/${p.projectId}/tasks`
    const ids = async (query: string) =>
      (await p.cp.call<{ id: number }[]>('GET', history + query)).body.map((task) => task.id)
    expect(await ids('')).toEqual([id])
    expect(await ids('?type=all')).toEqual([removal.body.id, id])
    expect(await ids('?type=destroy')).toEqual([removal.body.id])
    expect(await ids('?type=all&status=failed&status=canceled')).toEqual([id])
    expect(await ids('?trigger=webhook')).toEqual([])
  })

  test('history by time, trigger and status, in pages that neither repeat nor miss one', async () => {
    const made: number[] = []
    for (const ending of ['succeed', 'fail', 'succeed'] as const) {
      made.unshift(ending === 'fail' ? await fail() : await succeed())
      await p.cp.advance(3_600_000)
    }
    const [newest = 0, middle = 0, oldest = 0] = made
    const of = { environments: environment.id, projects: p.projectId }
    for (const [noun, id] of Object.entries(of)) {
      const list = async (query: string) => {
        const answer = await p.cp.call<{ id: number }[]>('GET', `/api/${noun}/${id}/tasks${query}`)
        return { ids: answer.body.map((task) => task.id), link: answer.headers.get('link') ?? '' }
      }
      const at = async (task: number) => (await p.task(task)).created_at
      expect((await list('')).ids).toEqual([newest, middle, oldest])
      expect((await list(`?since=${await at(middle)}`)).ids).toEqual([newest, middle])
      expect((await list(`?until=${await at(middle)}`)).ids).toEqual([oldest])
      expect((await list(`?since=${await at(middle)}&until=${await at(newest)}`)).ids).toEqual([
        middle,
      ])
      expect((await list('?since=2999-01-01T00:00:00Z')).ids).toEqual([])
      expect((await list('?status=succeeded&trigger=api')).ids).toEqual([newest, oldest])
      const first = await list('?per_page=2&status=succeeded&status=failed')
      expect(first.ids).toEqual([newest, middle])
      const next = /<([^>]+)>; rel="next"/.exec(first.link)?.[1] ?? ''
      const rest = await list(new URL(next).search)
      expect(rest.ids).toEqual([oldest])
      expect(rest.link).not.toContain('rel="next"')
    }
  })

  test('neither diagnostics nor history without a token, or of what does not exist', async () => {
    await fail()
    const token = p.cp.token
    p.cp.token = `${token.slice(0, -4)}xxxx`
    expect((await p.cp.call('GET', path())).status).toBe(401)
    p.cp.token = token
    expect((await p.cp.call('GET', '/api/environments/999999/diagnostics')).status).toBe(404)
    expect((await p.cp.call('GET', '/api/projects/999999/tasks')).status).toBe(404)
  })

  describe('of any one task', () => {
    const of = async (id: number, query = '') => {
      const answer = await p.cp.call<TaskDiagnostics>('GET', `/api/tasks/${id}/diagnostics${query}`)
      expect(answer.status).toBe(200)
      return answer.body
    }

    test('failed: the step, its output, the causes and the difference from the last success', async () => {
      const good = await succeed(A)
      const bad = await fail('one\nENOSPC: No space left on device\n', B)
      expect(await of(bad)).toMatchObject({
        task_id: bad,
        type: 'deploy',
        status: 'failed',
        summary: '`make` exited with 2.',
        step: { title: 'Play' },
        failure: { exit_code: 2 },
        output: 'one\nENOSPC: No space left on device',
        output_complete: true,
        hints: [{ code: 'disk_full' }, { code: 'commit_changed' }],
        since_last_success: { task_id: good },
        superseded_by: null,
      })
      expect((await of(bad, '?lines=1')).output).toBe('ENOSPC: No space left on device')
      const again = await succeed(A)
      expect((await of(bad)).superseded_by).toEqual({ id: again, status: 'succeeded' })
    })

    test('succeeded: the end of its output', async () => {
      const id = await play((a) => {
        a.say('all is well\n')
        a.succeed()
      })
      expect(await of(id)).toMatchObject({
        status: 'succeeded',
        summary: 'It succeeded.',
        failure: null,
        output: 'all is well',
        hints: [],
      })
    })

    test('queued, then canceled: what it waits for, and that a user ended it', async () => {
      p.killAgent()
      const { body } = await p.deploy(environment.id)
      expect(await of(body.id)).toMatchObject({
        status: 'queued',
        summary: expect.stringMatching(/^It waits\. ./),
        output: null,
        output_complete: false,
      })
      await p.cp.call('POST', `/api/tasks/${body.id}/cancel`)
      expect(await of(body.id)).toMatchObject({
        status: 'canceled',
        summary: 'Ada canceled it.',
        step: null,
        output: null,
      })
    })

    test('running: what it wrote so far', async () => {
      let go = (): void => {}
      const held = new Promise<void>((resolve) => {
        go = resolve
      })
      p.executor.script = async (a) => {
        a.say('so far\n')
        await held
        a.succeed()
      }
      const { body } = await p.deploy(environment.id)
      const shown = await until('its output', async () => {
        const now = await of(body.id)
        return now.output === null ? undefined : now
      })
      expect(shown).toMatchObject({ status: 'running', output: 'so far', output_complete: false })
      go()
      await p.settled(body.id)
    })

    test('a failed removal, and one whose log is past its retention', async () => {
      await succeed()
      p.executor.script = (a) => {
        a.say('umount: target is busy\n')
        a.fail('The folder cannot be removed.')
      }
      const { body } = await p.cp.call<{ id: number }>(
        'DELETE',
        `/api/environments/${environment.id}`,
      )
      await p.settled(body.id)
      expect(await of(body.id)).toMatchObject({
        type: 'destroy',
        status: 'failed',
        output: 'umount: target is busy',
        since_last_success: null,
      })
      await p.cp.advance(90 * 86_400_000)
      await expireLogs(p.cp.running.ctx)
      expect(await of(body.id)).toMatchObject({ output: 'The folder cannot be removed.' })
    })

    test('of another organization does not exist', async () => {
      const id = await succeed()
      const stranger = await makePerson(p.cp, 'stranger')
      const headers = { authorization: `Bearer ${stranger.token}` }
      const path = `/api/tasks/${id}/diagnostics`
      expect((await p.cp.call('GET', path, undefined, headers)).status).toBe(404)
    })
  })
})
