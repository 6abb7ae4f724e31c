// Environments and projects are removed first from their servers, then from the lists. On both databases.
import type { Environment, ProjectDetail, Task } from '@berth/shared/api'
import { AttemptState, type FailureCode } from '@berth/shared/wire'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { addMember } from '../fixtures/people/members.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import type { ScriptedAttempt } from '../fixtures/platform/scripted-executor.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

const kindOf = (a: ScriptedAttempt) => a.assignment.spec?.kind.case

describe.each(ENGINES)('deletion on %s', (engine) => {
  let p: Platform
  beforeEach(async () => {
    p = await Platform.start(engine)
  })
  afterEach(() => p.close())

  const deployed = async (identifier: string, over: object = {}): Promise<Environment> => {
    const environment = await p.environment(identifier, { variables: { SECRET: 'x' }, ...over })
    const { body } = await p.deploy(environment.id)
    expect((await p.settled(body.id)).status).toBe('succeeded')
    return environment
  }
  const get = (environment: { id: number }) =>
    p.cp.call<Environment>('GET', `/api/environments/${environment.id}`)
  const remove = (environment: { id: number }, query = '') =>
    p.cp.call<Task>('DELETE', `/api/environments/${environment.id}${query}`)
  const project = (id = p.projectId) => p.cp.call<ProjectDetail>('GET', `/api/projects/${id}`)
  const gone = (environment: { id: number }) =>
    until('it to be gone', async () => ((await get(environment)).status === 404 ? true : undefined))
  const rows = (id: number) =>
    p.cp.running.ctx.db
      .selectFrom('variables')
      .selectAll()
      .where('environmentId', '=', id)
      .execute()
  const pause = (paused: boolean) => p.cp.call('PATCH', `/api/servers/${p.serverId}`, { paused })
  const events = async (kind: string) =>
    p.cp.running.ctx.db.selectFrom('events').selectAll().where('kind', '=', kind).execute()

  describe('an environment', () => {
    test('is destroyed on its server, then its row, variables and secrets are closed', async () => {
      const environment = await deployed('main', {
        basic_auth: { mode: 'own', username: 'preview', password: 'long enough' },
      })
      const kinds: unknown[] = []
      p.executor.script = (a) => {
        kinds.push(a.assignment.spec?.kind)
        a.succeed()
      }
      const asked = await remove(environment)
      expect([asked.status, asked.body.type, asked.body.trigger]).toEqual([202, 'destroy', 'api'])
      await gone(environment)
      expect(kinds).toMatchObject([{ case: 'destroy', value: { force: false } }])
      expect(await rows(environment.id)).toEqual([])
      const kept = await p.cp.running.ctx.db
        .selectFrom('environments')
        .selectAll()
        .where('id', '=', environment.id)
        .executeTakeFirstOrThrow()
      expect([kept.basicAuthHash, kept.basicAuthUsername, kept.removedAt === null]).toEqual([
        null,
        null,
        false,
      ])
      expect((await p.task(asked.body.id)).status).toBe('succeeded') // history stays readable
      expect((await events('environment.removed')).length).toBe(1)
      expect((await p.environment('main')).identifier).toBe('main')
    })

    test('a confirmation that is given must fit, needed or not, by REST and by the dashboard', async () => {
      const environment = await deployed('main')
      const path = `/api/environments/${environment.id}`
      for (const query of ['?confirm=wrong-name', '?confirm=', '?force=true&confirm=Main']) {
        const refused = await p.cp.call('DELETE', path + query)
        const { code, confirm, detail } = refused.body
        expect([query, refused.status, code, confirm]).toEqual([
          query,
          409,
          'confirmation_required',
          'main',
        ])
        expect(detail).toContain('identifier: main')
      }
      const input = { environment_id: environment.id, confirm: 'wrong-name' }
      const reported = await p.cp.call('POST', '/trpc/environment.delete', input, {
        origin: p.cp.url,
      })
      expect([reported.status, reported.text.includes('confirmation_required')]).toEqual([
        409,
        true,
      ])
      expect((await get(environment)).body.status).toBe('running')
      expect((await p.cp.call('DELETE', `${path}?confirm=main`)).status).toBe(202)
      await gone(environment)
    })

    test('while it is being removed nothing else is possible', async () => {
      const environment = await deployed('main')
      await pause(true)
      await remove(environment)
      expect((await get(environment)).body).toMatchObject({ status: 'removing', may: [] })
      const path = `/api/environments/${environment.id}`
      const gateways: [string, string, unknown][] = [
        ['POST', `${path}/tasks`, undefined],
        ['DELETE', path, undefined],
        ['POST', `${path}/reset`, { confirm: 'main' }],
        ['PATCH', path, { title: 'x' }],
        ['PATCH', `${path}/variables`, { set: { A: '1' } }],
        ['PUT', `${path}/basic_auth`, { mode: 'off' }],
      ]
      for (const [method, url, body] of gateways) {
        const refused = await p.cp.call(method, url, body)
        expect([url, refused.status, refused.body.code]).toEqual([url, 409, 'environment_removing'])
      }
      await pause(false)
      await gone(environment)
    })

    test('whose removal failed stays, says why, and can be tried again without its own steps', async () => {
      const environment = await deployed('main')
      p.executor.script = (a) => a.fail('`./down.sh` exited with 7.', 7)
      const { body } = await remove(environment)
      expect((await p.settled(body.id)).status).toBe('failed')
      expect((await get(environment)).body).toMatchObject({
        status: 'degraded',
        status_reason: 'Its removal failed: `./down.sh` exited with 7.',
        locked: false,
      })
      expect((await rows(environment.id)).length).toBe(1)
      let forced: unknown
      p.executor.script = (a) => {
        forced = a.assignment.spec?.kind
        a.succeed()
      }
      await remove(environment, '?force=true')
      await gone(environment)
      expect(forced).toMatchObject({ case: 'destroy', value: { force: true } })
    })

    test('that never reached a server goes at once', async () => {
      const idle = await p.cp.server('idle')
      const other = await p.cp.project('other', idle.id)
      const environment = await p.cp.environment(other.id)
      const asked = await remove(environment)
      expect([asked.status, asked.body.status]).toEqual([202, 'succeeded'])
      expect((await get(environment)).status).toBe(404)
    })

    test('whose removal is canceled before it began stays as it was', async () => {
      const environment = await deployed('main')
      await pause(true)
      const { body } = await remove(environment)
      expect((await p.cp.call('POST', `/api/tasks/${body.id}/cancel`)).status).toBe(202)
      expect((await get(environment)).body).toMatchObject({
        status: 'running',
        status_reason: null,
      })
    })

    test('of a server that is away waits without a deadline, over a restart, and can be forgotten', async () => {
      const [first, second] = [await deployed('first'), await deployed('second')]
      p.killAgent()
      await until('offline', async () => {
        const { body } = await p.cp.call('GET', `/api/servers/${p.serverId}`)
        return body.status === 'online' ? undefined : true
      })
      const { body } = await remove(first)
      await remove(second)
      await p.cp.advance(30 * 86_400_000)
      expect((await p.task(body.id)).status).toBe('queued')
      await p.cp.advance(-30 * 86_400_000) // certificates use the real clock
      await p.cp.restart()
      expect((await get(first)).body.status).toBe('removing')
      const developer = await addMember(p.cp, 'Dev', 'developer')
      const url = `/api/environments/${second.id}?forget=true`
      expect((await developer.call('DELETE', url)).body.code).toBe('permission_denied')
      const forgotten = await p.cp.call<Task>('DELETE', url)
      expect([forgotten.status, forgotten.body.status]).toEqual([202, 'canceled'])
      expect((await get(second)).status).toBe(404)
      await p.startAgent()
      await gone(first)
    })

    test('removed while its deployment is running: the deployment is stopped first', async () => {
      const environment = await p.environment('main')
      const running = Promise.withResolvers<void>()
      const order: (string | undefined)[] = []
      p.executor.script = async (a) => {
        order.push(kindOf(a))
        if (kindOf(a) === 'destroy') return a.succeed()
        running.resolve()
        await a.stopAsked()
        order.push('stopped')
        a.cancel()
      }
      const { body } = await p.deploy(environment.id)
      await running.promise
      const deletion = await p.cp.call(
        'DELETE',
        `/api/projects/${p.projectId}?confirm=shop`, // a person cannot delete a locked environment
      )
      expect(deletion.status).toBe(202)
      await until('the project to be gone', async () =>
        (await project()).status === 404 ? true : undefined,
      )
      expect(order).toEqual(['deploy', 'stopped', 'destroy'])
      expect(await p.task(body.id)).toMatchObject({
        status: 'canceled',
        cancel_reason: 'environment_removed',
      })
    })
  })

  describe('a project', () => {
    test('each environment is first stopped and removed from its server, then the project disappears after the last one is gone', async () => {
      const environments = [await deployed('one'), await deployed('two'), await deployed('three')]
      const gates = environments.map(() => Promise.withResolvers<void>())
      let n = 0
      p.executor.script = async (a) => {
        await gates[n++]?.promise
        a.succeed()
      }
      const answer = await p.cp.call<ProjectDetail>(
        'DELETE',
        `/api/projects/${p.projectId}?confirm=shop`,
      )
      expect([answer.status, answer.body.status, answer.body.environment_count]).toEqual([
        202,
        'deleting',
        3,
      ])
      const again = await p.cp.call('DELETE', `/api/projects/${p.projectId}?confirm=shop`)
      expect([again.status, again.body.code]).toEqual([409, 'project_deleting'])
      const create = { identifier: 'x', branch: 'main' }
      const refused = await p.cp.call('POST', `/api/projects/${p.projectId}/environments`, create)
      expect([refused.status, refused.body.code]).toEqual([409, 'project_deleting'])
      for (const gate of gates) {
        expect((await project()).body.status).toBe('deleting')
        gate.resolve()
      }
      await until('the project to be gone', async () =>
        (await project()).status === 404 ? true : undefined,
      )
      for (const environment of environments) expect((await get(environment)).status).toBe(404)
      expect((await p.cp.call('GET', '/api/projects')).text).toBe('[]')
      const kept = await p.cp.running.ctx.db
        .selectFrom('projects')
        .selectAll()
        .where('id', '=', p.projectId)
        .executeTakeFirstOrThrow()
      expect([kept.deployKeySealed, kept.webhookSecretSealed]).toEqual(['', null])
      expect((await events('project.removed')).length).toBe(1)
      await p.cp.project('shop', p.serverId) // its name and its domain are free again
    })

    test('protected environments require confirmation', async () => {
      const guarded = await deployed('guarded', { protected: true })
      await deployed('plain')
      const path = `/api/projects/${p.projectId}`
      const asked = { code: 'confirmation_required', confirm: 'shop' }
      for (const query of [
        '',
        '?confirm=other',
        '?confirm=shop',
        '?confirm=shop&confirm_protected=4711',
        `?confirm_protected=${guarded.id}`,
      ]) {
        const refused = await p.cp.call('DELETE', path + query)
        expect([query, refused.status]).toEqual([query, 409])
        expect(refused.body).toMatchObject(asked)
        expect(refused.body.protected_environments).toEqual([
          { id: guarded.id, identifier: 'guarded' },
        ])
      }
      expect((await project()).body.status).toBe('active')
      const query = `?confirm=shop&confirm_protected=${guarded.id}`
      expect((await p.cp.call('DELETE', path + query)).status).toBe(202)
      await gone(guarded)
    })

    test('protected environments are named as the refusal names them', async () => {
      const guarded = await deployed('guarded', { protected: true })
      const path = `/api/projects/${p.projectId}`
      const refused = await p.cp.call('DELETE', path)
      const [asked] = /confirm=\S+(?=, )/.exec(String(refused.body.detail)) ?? []
      const [named] = /confirm_protected=[^.]+/.exec(String(refused.body.detail)) ?? []
      expect([asked, named]).toEqual(['confirm=shop', 'confirm_protected=guarded'])
      const wrong = await p.cp.call('DELETE', `${path}?${asked}&confirm_protected=other`)
      expect([wrong.status, wrong.body.code]).toEqual([409, 'confirmation_required'])
      const input = { project_id: p.projectId, confirm: 'shop', confirm_protected: ['other'] }
      const reported = await p.cp.call('POST', '/trpc/project.delete', input, { origin: p.cp.url })
      expect(reported.status).toBe(409)
      expect((await p.cp.call('DELETE', `${path}?${asked}&${named}`)).status).toBe(202)
      await gone(guarded)
    })

    test('without environments goes at once', async () => {
      const answer = await p.cp.call('DELETE', `/api/projects/${p.projectId}?confirm=shop`)
      expect([answer.status, answer.body.status]).toEqual([202, 'deleting'])
      expect((await project()).status).toBe(404)
    })

    test('whose environment could not be removed stays until it is, asked again', async () => {
      const environment = await deployed('main')
      p.executor.script = (a) => a.fail('no')
      const path = `/api/projects/${p.projectId}?confirm=shop`
      await p.cp.call('DELETE', path)
      await until('the failure', async () =>
        (await get(environment)).body.status === 'degraded' ? true : undefined,
      )
      expect((await project()).body).toMatchObject({ status: 'deleting', environment_count: 1 })
      expect((await p.deploy(environment.id)).status).toBe(409)
      p.executor.script = (a) => a.succeed()
      expect((await p.cp.call('DELETE', path)).status).toBe(202)
      await until('the project to be gone', async () =>
        (await project()).status === 404 ? true : undefined,
      )
    })

    test('only who may change projects deletes one', async () => {
      const developer = await addMember(p.cp, 'Dev', 'developer')
      const path = `/api/projects/${p.projectId}?confirm=shop`
      expect((await developer.call('DELETE', path)).body.code).toBe('permission_denied')
      const admin = await addMember(p.cp, 'Adm', 'admin')
      expect((await admin.call('DELETE', path)).status).toBe(202)
    })
  })

  describe('a move to another server', () => {
    let other: WireAgent
    let otherId: number
    beforeEach(async () => {
      otherId = (await p.cp.server('other')).id
      other = await WireAgent.join(p.cp, otherId)
      const server_ids = [p.serverId, otherId]
      await p.cp.call('PATCH', `/api/projects/${p.projectId}`, { server_ids })
    })
    afterEach(() => other.close())

    const move = (environment: { id: number }, server_id: number) =>
      p.cp.call<Environment>('PATCH', `/api/environments/${environment.id}`, { server_id })
    const finish = async (
      session: Awaited<ReturnType<WireAgent['active']>>,
      value: { state: AttemptState; code?: FailureCode; message?: string },
    ) => {
      const [a] = await session.assignments()
      if (!a) throw new Error('nothing was assigned')
      const at = { attemptId: a.attemptId, fence: a.fence }
      session.event({ ...at, body: { case: 'attempt', value: { finalLogSeq: 0n, ...value } } })
      return a
    }

    test('takes effect with the next deployment; the old copy is destroyed after it succeeded', async () => {
      const environment = await deployed('main')
      expect((await move(environment, otherId)).body.server.id).toBe(otherId)
      const session = await other.active()
      const kinds: (string | undefined)[] = []
      p.executor.script = (a) => {
        kinds.push(kindOf(a))
        a.succeed()
      }
      await p.deploy(environment.id)
      await finish(session, { state: AttemptState.FAILED, message: 'no' })
      await until('the failure', async () =>
        (await get(environment)).body.last_task?.status === 'failed' ? true : undefined,
      )
      expect(kinds).toEqual([]) // the old copy still serves
      await p.deploy(environment.id)
      await session.assignments() // the first assignment is dropped
      await finish(session, { state: AttemptState.SUCCEEDED })
      await until('the old copy to go', () => (kinds.length > 0 ? true : undefined))
      expect(kinds).toEqual(['destroy'])
      await until('the end', async () => {
        const row = await p.cp.running.ctx.db
          .selectFrom('environments')
          .select(['formerServerId', 'removedAt'])
          .where('id', '=', environment.id)
          .executeTakeFirstOrThrow()
        return row.formerServerId === null && row.removedAt === null ? true : undefined
      })
      expect((await get(environment)).body).toMatchObject({ status: 'running', locked: false })
    })

    test('a former server that is away locks nobody out', async () => {
      const environment = await deployed('main')
      await move(environment, otherId)
      await pause(true)
      const session = await other.active()
      const { body } = await p.deploy(environment.id)
      await finish(session, { state: AttemptState.SUCCEEDED })
      await until('the success', async () =>
        (await p.task(body.id)).status === 'succeeded' ? true : undefined,
      )
      const { locked, may } = (await get(environment)).body
      expect([locked, may.includes('deploy')]).toEqual([false, true])
      const inUse = await p.cp.call('PATCH', `/api/projects/${p.projectId}`, {
        server_ids: [otherId],
      })
      expect([inUse.status, inUse.body.code]).toEqual([409, 'server_in_use'])
    })

    test('removed after a move, it is removed from both', async () => {
      const environment = await deployed('main')
      await move(environment, otherId)
      await pause(true)
      const session = await other.active()
      await p.deploy(environment.id)
      await finish(session, { state: AttemptState.SUCCEEDED })
      await until('the success', async () =>
        (await get(environment)).body.status === 'running' && !(await get(environment)).body.locked
          ? true
          : undefined,
      )
      await remove(environment)
      await session.assignments()
      const destroyed = await finish(session, { state: AttemptState.SUCCEEDED })
      expect(destroyed.spec?.kind.case).toBe('destroy')
      await until('one copy to be left', async () =>
        (await get(environment)).body.server.id === p.serverId ? true : undefined,
      )
      expect((await get(environment)).body.status).toBe('removing')
      await pause(false)
      await gone(environment)
    })

    test('removed before it was deployed there, it is removed where it is', async () => {
      const environment = await deployed('main')
      await move(environment, otherId)
      await remove(environment)
      await gone(environment)
    })
  })
})
