// What the specification promises about deployments, tested from outside on the whole system. On both databases.
import { randomUUID } from 'node:crypto'
import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Environment, Task } from '@berth/shared/api'
import { FailureCode } from '@berth/shared/wire'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { sweep } from '../../control-plane/src/app/deployments/deadlines.ts'
import { addMember } from '../fixtures/people/members.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { until } from '../fixtures/server/installation.ts'

describe.each(ENGINES)('deployments on %s', (engine) => {
  let p: Platform
  let environment: Environment
  beforeEach(async () => {
    p = await Platform.start(engine)
    environment = await p.environment('main')
  })
  afterEach(() => p.close())

  test('POST tasks starts a deployment, and the result is the task', async () => {
    p.executor.script = (a) => {
      a.say('building\n')
      a.succeed(20_000)
    }
    const started = await p.deploy(environment.id)
    expect([started.status, started.body.status, started.body.trigger]).toEqual([
      201,
      'queued',
      'api',
    ])
    expect(started.headers.get('location')).toBe(`/api/tasks/${started.body.id}`)
    const task = await p.settled(started.body.id)
    expect(task).toMatchObject({ status: 'succeeded', commit_sha: 'c'.repeat(40), failure: null })
    expect(await p.log(task.id)).toBe('building\n')
    const after = await p.cp.call<Environment>('GET', `/api/environments/${environment.id}`)
    expect(after.body).toMatchObject({
      status: 'running',
      url: 'http://127.0.0.1:20000',
      locked: false,
      last_task: { id: task.id, status: 'succeeded' },
    })
  })

  test('a rollback tells the server to use the release that it kept', async () => {
    const asked: unknown[] = []
    p.executor.script = (a) => {
      asked.push(a.assignment.spec?.kind.value)
      a.succeed()
    }
    const commit = { commit_sha: 'd'.repeat(40) }
    for (const body of [commit, { ...commit, reuse_release: true }]) {
      await p.settled((await p.deploy(environment.id, body)).body.id)
    }
    expect(asked).toMatchObject([{ reuseRelease: false }, { reuseRelease: true }])
  })

  test('when the task cannot be created the failure is reported, never a success', async () => {
    const idle = await p.cp.server('idle')
    const project = await p.cp.project('other', idle.id)
    const lonely = await p.cp.environment(project.id)
    const refused = await p.deploy(lonely.id)
    expect([refused.status, (refused.body as unknown as { code: string }).code]).toEqual([
      422,
      'server_not_ready',
    ])
    expect((await p.cp.call('GET', `/api/environments/${lonely.id}/tasks`)).text).toBe('[]')
  })

  test('whoever may deploy and nothing else gets the task too: no refusal after the effect', async () => {
    const robot = await addMember(p.cp, 'Robot', 'developer', { scopes: ['deploy'] })
    const made = await robot.call<Task>('POST', `/api/environments/${environment.id}/tasks`)
    expect([made.status, made.body.trigger]).toEqual([201, 'api'])
    expect((await p.settled(made.body.id)).status).toBe('succeeded')
    const read = await robot.call('GET', `/api/tasks/${made.body.id}`)
    expect([read.status, read.body.required_scope]).toEqual([403, 'read'])
  })

  test('a failed step and its message are in the task, its output in the log', async () => {
    p.executor.script = (a) => {
      a.say('one\n')
      a.say('error: no such table\n')
      a.fail('`migrate` exited with 3.', 3)
    }
    const { body } = await p.deploy(environment.id)
    const task = await p.settled(body.id)
    expect(task.failure).toEqual({
      code: 'step_failed',
      phase: 'run',
      step: '1',
      step_title: 'Play',
      message: '`migrate` exited with 3.',
      exit_code: 3,
      line: 2,
      is_platform_check: false,
    })
    expect(await p.log(task.id, '?step=1')).toBe('one\nerror: no such table\n')
    const after = await p.cp.call('GET', `/api/environments/${environment.id}`)
    expect(after.body).toMatchObject({ status: 'failed', url: null })
  })

  test("a platform's own check names its step too", async () => {
    p.executor.script = (a) => a.fail('.service.yml was not found.', 0, FailureCode.CONFIG_MISSING)
    const { body } = await p.deploy(environment.id)
    const { failure } = await p.settled(body.id)
    expect(failure).toMatchObject({ code: 'config_missing', step: '1', is_platform_check: true })
  })

  test('variables set before the first deployment take effect from it, with the four system variables', async () => {
    const made = await p.environment('staging', { variables: { API_KEY: 'one\ntwo', EMPTY: '' } })
    const seen: Record<string, string> = {}
    p.executor.script = (a) => {
      for (const v of a.secrets.variables) seen[v.key] = Buffer.from(v.value).toString()
      Object.assign(seen, a.assignment.spec?.systemVariables)
      a.succeed()
    }
    const { body } = await p.deploy(made.id)
    await p.settled(body.id)
    expect(seen).toEqual({
      API_KEY: 'one\ntwo',
      EMPTY: '',
      SERVICE_DOMAIN: 'staging.shop.example.com',
      SERVICE_ENV_IDENTIFIER: 'staging',
      SERVICE_ENV_TYPE: 'manual',
      SERVICE_ENV_BRANCH: 'main',
    })
    const after = await p.cp.call('GET', `/api/environments/${made.id}`)
    expect(after.body.variables_changed).toBe(false)
  })

  test('an environment is locked while a deployment is queued or running, and free after it', async () => {
    const gate = Promise.withResolvers<void>()
    p.executor.script = async (a) => {
      await gate.promise
      a.succeed()
    }
    const { body } = await p.deploy(environment.id)
    const second = await p.deploy(environment.id)
    expect([second.status, (second.body as unknown as { task_id: number }).task_id]).toEqual([
      409,
      body.id,
    ])
    const locked = await p.cp.call<Environment>('GET', `/api/environments/${environment.id}`)
    expect(locked.body).toMatchObject({
      locked: true,
      status: 'deploying',
      locked_by: { task_id: body.id },
    })
    expect(locked.body.may).not.toContain('deploy')
    gate.resolve()
    await p.settled(body.id)
    expect((await p.deploy(environment.id)).status).toBe(201)
  })

  test('a cancel reaches the work, and a finished task cannot be canceled', async () => {
    p.executor.script = async (a) => {
      a.say('working\n')
      await a.stopAsked()
      a.cancel()
    }
    const { body } = await p.deploy(environment.id)
    await until('running', async () =>
      (await p.task(body.id)).status === 'running' ? true : undefined,
    )
    const asked = await p.cp.call<Task>('POST', `/api/tasks/${body.id}/cancel`)
    expect([asked.status, asked.body.cancel_reason]).toEqual([202, 'user'])
    expect((await p.settled(body.id)).status).toBe('canceled')
    const late = await p.cp.call('POST', `/api/tasks/${body.id}/cancel`)
    expect([late.status, late.body.code]).toEqual([409, 'task_finished'])
  })

  test('the control plane restarts in the middle: nothing is lost, nothing starts twice', async () => {
    const gate = Promise.withResolvers<void>()
    p.executor.script = async (a) => {
      a.say('before\n')
      await gate.promise
      a.say('after\n')
      a.succeed()
    }
    const { body } = await p.deploy(environment.id)
    await until('output', async () => ((await p.log(body.id)) === 'before\n' ? true : undefined))
    await p.restartControlPlane()
    gate.resolve()
    expect((await p.settled(body.id)).status).toBe('succeeded')
    expect(await p.log(body.id)).toBe('before\nafter\n')
    expect([...p.executor.starts.values()]).toEqual([1])
  })

  test('the daemon dies in the middle: the work goes on, is adopted, and starts once', async () => {
    const gate = Promise.withResolvers<void>()
    p.executor.script = async (a) => {
      a.say('before\n')
      await gate.promise
      a.say('while nobody looked\n')
      a.succeed()
    }
    const { body } = await p.deploy(environment.id)
    await until('output', async () => ((await p.log(body.id)) === 'before\n' ? true : undefined))
    p.killAgent()
    gate.resolve()
    await p.startAgent()
    expect((await p.settled(body.id)).status).toBe('succeeded')
    expect(await p.log(body.id)).toBe('before\nwhile nobody looked\n')
    expect([...p.executor.starts.values()]).toEqual([1])
  })

  test('the raw log: ranges, lines, steps, JSON lines, following to the end', async () => {
    const gate = Promise.withResolvers<void>()
    p.executor.script = async (a) => {
      a.say('one\n')
      a.say('\u001b[31mtwo\u001b[0m\n')
      await gate.promise
      a.say('three\n')
      a.succeed()
    }
    const { body } = await p.deploy(environment.id)
    await until('two lines', async () =>
      (await p.log(body.id)).includes('two') ? true : undefined,
    )
    const following = p.log(body.id, '?follow=true')
    gate.resolve()
    const whole = 'one\n\u001b[31mtwo\u001b[0m\nthree\n'
    expect(await following).toBe(whole)
    await p.settled(body.id)
    const log = await p.cp.call('GET', `/api/tasks/${body.id}/log`)
    expect([
      log.text,
      log.headers.get('berth-log-lines'),
      log.headers.get('berth-log-complete'),
    ]).toEqual([whole, '3', 'true'])
    const range = await p.cp.call('GET', `/api/tasks/${body.id}/log`, undefined, {
      range: 'bytes=0-2',
    })
    expect([range.status, range.text, range.headers.get('content-range')]).toEqual([
      206,
      'one',
      `bytes 0-2/${whole.length}`,
    ])
    const tail = await p.cp.call('GET', `/api/tasks/${body.id}/log`, undefined, {
      range: 'bytes=-6',
    })
    expect(tail.text).toBe('three\n')
    const beyond = await p.cp.call('GET', `/api/tasks/${body.id}/log`, undefined, {
      range: 'bytes=999-',
    })
    expect([beyond.status, beyond.body.code]).toEqual([416, 'range_not_satisfiable'])
    expect(await p.log(body.id, '?ansi=strip')).toBe('one\ntwo\nthree\n')
    expect(await p.log(body.id, '?from_line=2&lines=1')).toBe('\u001b[31mtwo\u001b[0m\n')
    expect(await p.log(body.id, '?from_line=99')).toBe('')
    const json = await p.cp.call('GET', `/api/tasks/${body.id}/log?from_line=3`, undefined, {
      accept: 'application/x-ndjson',
    })
    expect(JSON.parse(json.text)).toMatchObject({
      n: 3,
      s: 'out',
      phase: 'run',
      step: '1',
      text: 'three\n',
    })
  })

  test('a log older than 24 hours is there, and after 90 days it says that it is gone', async () => {
    const { body } = await p.deploy(environment.id)
    await p.settled(body.id)
    await p.cp.advance(26 * 3_600_000)
    expect(await p.log(body.id)).toBe('hello\n')
    const { expireLogs } = await import('../../control-plane/src/app/deployments/logs.ts')
    await p.cp.advance(90 * 86_400_000)
    await expireLogs(p.cp.running.ctx)
    const gone = await p.cp.call('GET', `/api/tasks/${body.id}/log`)
    expect([gone.status, gone.body.code]).toEqual([410, 'log_expired'])
  })

  test('however many logs are past their time, one sweep takes them all', async () => {
    const { body } = await p.deploy(environment.id)
    await p.settled(body.id)
    const { ctx } = p.cp.running
    const attempts = () => ctx.db.selectFrom('attempts').where('logExpiredAt', 'is', null)
    const one = await attempts().selectAll().executeTakeFirstOrThrow()
    const more = Array.from({ length: 600 }, (_, i) => {
      const n = i + 2
      return { ...one, id: randomUUID(), number: n, fence: one.fence + n }
    })
    for (let at = 0; at < more.length; at += 100) {
      await ctx.db
        .insertInto('attempts')
        .values(more.slice(at, at + 100))
        .execute()
    }
    p.cp.clock.offsetMs += 91 * 86_400_000
    await sweep(ctx)
    expect(await attempts().select('id').execute()).toEqual([])
  })

  test('history: newest first, filtered, in pages', async () => {
    const ids: number[] = []
    for (let i = 0; i < 3; i++) {
      p.executor.script = i === 1 ? (a) => a.fail('no') : (a) => a.succeed()
      const { body } = await p.deploy(environment.id)
      await p.settled(body.id)
      ids.unshift(body.id)
    }
    const path = `/api/environments/${environment.id}/tasks`
    const list = await p.cp.call<Task[]>('GET', path)
    expect(list.body.map((t) => t.id)).toEqual(ids)
    expect(list.body[0]?.phases).toBeUndefined()
    const failed = await p.cp.call<Task[]>('GET', `${path}?status=failed&include=phases`)
    expect(failed.body.map((t) => [t.id, t.phases?.length])).toEqual([[ids[1], 1]])
  })

  test('what was deployed is the last success, in the list and by itself; so is the line of a failure', async () => {
    const path = `/api/environments/${environment.id}`
    const list = `/api/projects/${p.projectId}/environments`
    expect((await p.cp.call<Environment>('GET', path)).body.deployed).toBe(null)
    p.executor.script = (a) => a.succeed(20_000)
    const good = await p.settled((await p.deploy(environment.id)).body.id)
    p.executor.script = (a) => {
      a.checkedOut('d'.repeat(40))
      for (const line of ['one', 'two', 'three']) a.say(`${line}\n`)
      a.fail('no')
    }
    const bad = await p.settled((await p.deploy(environment.id)).body.id)
    const deployed = { task_id: good.id, commit_sha: 'c'.repeat(40), at: good.finished_at }
    const one = await p.cp.call<Environment>('GET', path)
    const [listed] = (await p.cp.call<Environment[]>('GET', list)).body
    for (const shown of [one.body, listed]) {
      expect(shown).toMatchObject({ deployed, last_task: { id: bad.id, status: 'failed' } })
    }
    expect(bad.failure?.line).toBe(3)
    for (const query of ['', '?include=phases', '?status=failed']) {
      const { body } = await p.cp.call<Task[]>('GET', `${path}/tasks${query}`)
      expect([query, body.find(({ id }) => id === bad.id)?.failure]).toEqual([query, bad.failure])
    }
    const input = encodeURIComponent(JSON.stringify({ environment_id: environment.id }))
    const { body } = await p.cp.call<{ result: { data: { tasks: Task[] } } }>(
      'GET',
      `/trpc/task.list?input=${input}`,
    )
    expect(body.result.data.tasks[0]?.failure).toEqual(bad.failure)
  })

  test('a log whose file is gone is 410, and what failed is still known', async () => {
    p.executor.script = (a) => {
      a.say('one\ntwo\n')
      a.fail('`make` exited with 2.', 2)
    }
    const task = await p.settled((await p.deploy(environment.id)).body.id)
    const { db } = p.cp.running.ctx
    const attempt = await db.selectFrom('attempts').select('id').executeTakeFirstOrThrow()
    const asks: [string, Record<string, string>][] = [
      ['', {}],
      ['', { range: 'bytes=0-3' }],
      ['', { accept: 'application/x-ndjson' }],
      ['?from_line=2', {}],
      ['?ansi=strip', {}],
      ['?follow=true', {}],
    ]
    await p.cp.restart() // closes every open file
    for (const { harm, mend } of engine === 'sqlite'
      ? harmFiles(attempt.id)
      : harmBlocks(attempt.id)) {
      await harm()
      for (const [query, headers] of asks) {
        const path = `/api/tasks/${task.id}/log${query}`
        const answer = await p.cp.call('GET', path, undefined, headers)
        expect([query, answer.status, answer.body.code]).toEqual([query, 410, 'log_gone'])
      }
      for (const call of ['task.log', 'task.search']) {
        const input = call === 'task.log' ? { from: 1, to: 9 } : { query: 'one' }
        const given = encodeURIComponent(JSON.stringify({ task_id: task.id, ...input }))
        const answer = await p.cp.call('GET', `/trpc/${call}?input=${given}`)
        expect([call, answer.status, answer.text.includes('log_gone')]).toEqual([call, 410, true])
      }
      const still = await p.task(task.id)
      expect(still).toMatchObject({ status: 'failed', failure: { step: '1', line: null } })
      expect(still.phases?.[0]?.steps[0]).toMatchObject({ status: 'failed', exit_code: 2 })
      const path = `/api/environments/${environment.id}`
      const listed = await p.cp.call<Task[]>('GET', `${path}/tasks`)
      expect(listed.body[0]?.failure).toEqual(still.failure)
      const { status, body } = await p.cp.call('GET', `${path}/diagnostics`)
      expect(status).toBe(200)
      expect(body).toMatchObject({
        failure: { step: '1', exit_code: 2, message: '`make` exited with 2.' },
      })
      await mend()
    }
    expect(await p.log(task.id)).toBe('one\ntwo\n')
  })

  interface Harm {
    harm(): Promise<void>
    mend(): Promise<void>
  }

  const harmFiles = (attemptId: string): Harm[] =>
    ['log', 'idx'].flatMap((ending) => {
      const file = join(p.cp.dir, 'logs', `${attemptId}.${ending}`)
      const bytes = readFileSync(file)
      const mend = async () => writeFileSync(file, bytes)
      return [
        { harm: async () => rmSync(file), mend },
        { harm: async () => truncateSync(file, 1), mend },
      ]
    })

  const harmBlocks = (attemptId: string): Harm[] => {
    const run = async (text: string) => void (await sql.raw(text).execute(p.cp.running.ctx.db))
    const of = `attempt_id = '${attemptId}'`
    return [
      `delete from log_blocks where ${of}`,
      `update log_blocks set bytes = 1 where ${of}`,
    ].map((harm) => ({
      harm: () =>
        run(`create table saved as select * from log_blocks where ${of}`).then(() => run(harm)),
      mend: async () => {
        await run(`delete from log_blocks where ${of}`)
        await run('insert into log_blocks select * from saved')
        await run('drop table saved')
      },
    }))
  }

  test('the keys of a record are those that the documentation names', async () => {
    const { body } = await p.deploy(environment.id)
    await p.settled(body.id)
    const accept = { accept: 'application/x-ndjson' }
    const { text } = await p.cp.call('GET', `/api/tasks/${body.id}/log`, undefined, accept)
    const page = readFileSync(join(import.meta.dirname, '../../docs/reference/api.md'), 'utf8')
    const [, keys = ''] = /Keys of a record: ([^.]+)\./.exec(page) ?? []
    const named = keys.replaceAll(/\([^)]*\)/g, '').match(/(?<=`)\w+(?=`)/g)
    expect(named).toEqual(Object.keys(JSON.parse(text.split('\n')[0] ?? '') as object))
  })

  test('environments of one server deploy side by side', async () => {
    const other = await p.environment('other')
    const both = Promise.withResolvers<void>()
    let running = 0
    p.executor.script = async (a) => {
      running += 1
      if (running === 2) both.resolve()
      await both.promise
      a.succeed()
    }
    const first = await p.deploy(environment.id)
    const second = await p.deploy(other.id)
    expect((await p.settled(first.body.id)).status).toBe('succeeded')
    expect((await p.settled(second.body.id)).status).toBe('succeeded')
  })
})
