// The repository of a project and its forge token, from outside over the API. On both databases.

import type { Problem } from '@berth/shared/api'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { RECONCILE, REPOSITORY_CHECKS } from '../../control-plane/src/limits/forges.ts'
import { updateRepositoryFacts } from '../../control-plane/src/store/forges/repositories.ts'
import { FakeForge } from '../fixtures/forge/fake-forge.ts'
import { RepositoryFixture } from '../fixtures/forge/repository.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { until } from '../fixtures/server/installation.ts'

describe.each(ENGINES)('the repository on %s', (engine) => {
  let fixture: RepositoryFixture
  beforeEach(async () => {
    fixture = await RepositoryFixture.start(engine)
  })
  afterEach(() => fixture.close())
  const at = (path: string): string => `/api/projects/${fixture.projectId}/${path}`

  describe('repository_check', () => {
    test('tells what is there, and keeps that it was reached', async () => {
      fixture.push('feature')
      const answer = await fixture.cp.call('POST', at('repository_check'))
      expect([answer.status, answer.body]).toEqual([
        200,
        {
          reachable: true,
          default_branch: 'main',
          branch_count: 2,
          service_file: { found: true, recipes: ['manual'], errors: [] },
          error: null,
        },
      ])
      const { repository } = await fixture.project()
      expect(repository).toMatchObject({ reachable: true, error: null })
      expect(repository.checked_at).not.toBeNull()
    })

    test('learns the default branch where nobody named one, and keeps to one that was named', async () => {
      expect((await fixture.project()).default_branch).toBe('main')
      fixture.repository.git('branch', '-m', 'main', 'trunk')
      const check = async () => (await fixture.cp.call('POST', at('repository_check'))).body
      const found = { default_branch: 'trunk', service_file: { found: true } }
      expect(await check()).toMatchObject(found)
      expect((await fixture.project()).default_branch).toBe('trunk')
      await fixture.cp.call('PATCH', `/api/projects/${fixture.projectId}`, {
        default_branch: 'gone',
      })
      expect(await check()).toMatchObject({ ...found, service_file: { found: false } })
      expect((await fixture.project()).default_branch).toBe('gone')
    })

    test('shows the mistakes of the service file', async () => {
      fixture.repository.commit({ '.service.yml': 'manual: { deplyo: [ "true" ] }\n' })
      const { body } = await fixture.cp.call('POST', at('repository_check'))
      expect(body).toMatchObject({
        reachable: true,
        service_file: { found: true, errors: [{ line: 1, code: 'unknown_key' }] },
      })
      fixture.repository.commit({ '.service.yml': null })
      const without = await fixture.cp.call('POST', at('repository_check'))
      expect(without.body).toMatchObject({
        service_file: { found: false, recipes: [], errors: [] },
      })
    })

    test('says why it cannot be reached', async () => {
      const gone = await fixture.cp.project('gone', fixture.platform.serverId, {
        repo_url: `${fixture.host.url}/acme/none.git`,
      })
      const { body } = await fixture.cp.call('POST', `/api/projects/${gone.id}/repository_check`)
      expect(body).toMatchObject({
        reachable: false,
        default_branch: null,
        service_file: null,
        error: { code: 'not_found' },
      })
      const inside = await fixture.cp.project('inside', fixture.platform.serverId, {
        repo_url: 'https://169.254.169.254/acme/shop.git',
      })
      const refused = await fixture.cp.call('POST', `/api/projects/${inside.id}/repository_check`)
      expect(refused.body).toMatchObject({ error: { code: 'address_not_allowed' } })
      const shown = await fixture.cp.call('GET', `/api/projects/${inside.id}`)
      expect(shown.body.repository).toMatchObject({
        reachable: false,
        error: { code: 'address_not_allowed' },
      })
    })

    test('has a rate', async () => {
      const answers = []
      for (let i = 0; i <= REPOSITORY_CHECKS.perMinute; i++) {
        answers.push(await fixture.cp.call('POST', '/api/projects/999/repository_check'))
      }
      expect(answers[0]?.status).toBe(404)
      const last = answers.at(-1)
      expect([last?.status, last?.body.code]).toEqual([429, 'rate_limited'])
      expect(Number(last?.headers.get('retry-after'))).toBeGreaterThan(0)
    })
  })

  describe('a short SHA', () => {
    const deploy = async (id: number, given: string) => {
      const answer = await fixture.platform.deploy(id, { commit_sha: given })
      const { errors } = answer.body as unknown as { errors?: { code: string; message: string }[] }
      return { status: answer.status, task: answer.body, problem: errors?.[0] }
    }

    test('names a commit in the history of the branch, or at the head of another one', async () => {
      const old = fixture.head()
      fixture.push('main')
      const other = fixture.push('feature')
      const { id } = await fixture.environment('main')
      for (const sha of [old, other]) {
        const { status, task } = await deploy(id, sha.slice(0, 7))
        expect([status, task.commit_sha]).toEqual([201, sha])
        await fixture.platform.settled(task.id)
      }
    })

    test('names an earlier deployment without a look at the repository', async () => {
      const { id } = await fixture.environment('main')
      const gone = `feed123${'0'.repeat(33)}`
      await fixture.deployAndWait(id, gone)
      await fixture.host.close()
      const { status, task } = await deploy(id, 'feed123')
      expect([status, task.commit_sha]).toEqual([201, gone])
      await fixture.platform.settled(task.id)
      const unread = await deploy(id, 'beef123')
      expect(unread.problem?.code).toBe('unknown_commit')
      expect(unread.problem?.message).toContain('the repository cannot be searched')
    })

    test('that names none or several commits starts nothing, and the answer says what to do', async () => {
      const { id } = await fixture.environment('main')
      const none = await deploy(id, '0000000')
      expect([none.status, none.problem?.code]).toEqual([422, 'unknown_commit'])
      expect(none.problem?.message).toContain('Give the full SHA')
      const twins = ['1', '2'].map((digit) => `feed123${digit.repeat(33)}`)
      for (const sha of twins) await fixture.deployAndWait(id, sha)
      const several = await deploy(id, 'feed123')
      expect([several.status, several.problem]).toEqual([
        422,
        {
          field: 'commit_sha',
          code: 'ambiguous_commit',
          message:
            'feed123 names several commits, such as feed1231 and feed1232. Give more digits.',
        },
      ])
      const short = await deploy(id, 'feed12')
      expect([short.status, short.problem?.message]).toEqual([
        422,
        'commit_sha: must be the first 7 or more hex digits of a commit.',
      ])
      expect(await fixture.tasks(id)).toHaveLength(2)
    })
  })

  describe('reconcile', () => {
    test('is answered at once and happens behind the answer, once a minute', async () => {
      const answer = await fixture.cp.call('POST', at('reconcile'))
      expect([answer.status, Object.keys(answer.body)]).toEqual([202, ['started_at']])
      await until(
        'the look',
        async () => (await fixture.project()).repository.checked_at ?? undefined,
      )
      const again = await fixture.cp.call('POST', at('reconcile'))
      expect([again.status, again.body.code]).toEqual([429, 'rate_limited'])
      expect(Number(again.headers.get('retry-after'))).toBeGreaterThan(30)
      await fixture.cp.advance(RECONCILE.askedMs)
      expect((await fixture.cp.call('POST', at('reconcile'))).status).toBe(202)
    })
  })

  describe('host_token', () => {
    test('is checked at the host, learns the kind of host, and is shown nowhere', async () => {
      const set = await fixture.setToken()
      expect([set.status, set.body]).toEqual([
        200,
        { set: true, host: 'gitea', checked_at: expect.any(String), error: null },
      ])
      const project = await fixture.project()
      expect(project.host_token).toMatchObject({ set: true, error: null })
      expect(project.repository).toMatchObject({ provider: 'gitea', external_id: '1' })
      const { db } = fixture.ctx
      const rows = [
        ...(await db.selectFrom('projects').selectAll().execute()),
        ...(await db.selectFrom('audit').selectAll().execute()),
        ...(await db.selectFrom('events').selectAll().execute()),
      ]
      expect(JSON.stringify([rows, set.body, project])).not.toContain(fixture.host.token)
      // the canary reached its only destination, the forge
      expect(JSON.stringify(fixture.host.calls.map((c) => c.headers))).toContain(fixture.host.token)
    })

    test('that the host rejects is refused, and an earlier one stays', async () => {
      await fixture.setToken()
      const refused = await fixture.setToken('wrong')
      expect(refused.status).toBe(422)
      expect((refused.body as unknown as Problem).errors).toEqual([
        { field: 'token', code: 'host_token_rejected', message: expect.stringContaining('401') },
      ])
      expect((await fixture.project()).host_token.set).toBe(true)
      expect((await fixture.setToken('two words')).status).toBe(422)
      expect((await fixture.setToken('x'.repeat(1_001))).status).toBe(422)
    })

    test('goes with DELETE', async () => {
      await fixture.setToken()
      expect((await fixture.cp.call('DELETE', at('host_token'))).status).toBe(204)
      expect((await fixture.project()).host_token).toEqual({
        set: false,
        checked_at: null,
        error: null,
      })
    })

    test('is not sent to another host when the project moves there', async () => {
      await fixture.setToken()
      const thief = await FakeForge.start('gitea', '/nonexistent')
      try {
        const { db } = fixture.ctx
        await db
          .updateTable('projects')
          .set({ repoUrl: thief.repoUrl })
          .where('id', '=', fixture.projectId)
          .execute()
        await updateRepositoryFacts(db, fixture.projectId, { provider: 'gitea' })
        const { id } = await fixture.environment('main')
        await fixture.deployAndWait(id, 'c'.repeat(40))
        await fixture.reconcile()
        await fixture.report()
        expect(thief.calls).toEqual([])
      } finally {
        await thief.close()
      }
    })
  })
})
