// Lost, late and shuffled deliveries converge: reconciliation reaches the state of git and the forge without any
// delivery. Real git repositories over HTTP, on both databases.
import { TASKS } from '@berth/shared'
import type { Delivery, Environment, PullRequest, Task } from '@berth/shared/api'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { RECONCILE } from '../../control-plane/src/limits/forges.ts'
import { updateRepositoryFacts } from '../../control-plane/src/store/forges/repositories.ts'
import { findServerAgent } from '../../control-plane/src/store/servers/agents.ts'
import { RepositoryFixture } from '../fixtures/forge/repository.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { until } from '../fixtures/server/installation.ts'

describe.each(ENGINES)('reconcile on %s', (engine) => {
  let fixture: RepositoryFixture
  beforeEach(async () => {
    fixture = await RepositoryFixture.start(engine)
  })
  afterEach(() => fixture.close())

  const path = (rest: string): string => `/api/projects/${fixture.projectId}/${rest}`
  const ledger = async (): Promise<Delivery[]> =>
    (await fixture.cp.call<Delivery[]>('GET', path('deliveries'))).body
  const pulls = async (): Promise<PullRequest[]> =>
    (await fixture.cp.call<PullRequest[]>('GET', path('pull_requests'))).body
  const newest = async (environmentId: number) => (await fixture.tasks(environmentId))[0]
  const find = async (identifier: string): Promise<Environment | undefined> =>
    (await fixture.environments()).find((e) => e.identifier === identifier)
  /** Resolves when the tasks that reconciliation started have ended. */
  const settle = async (environmentId: number) => {
    const task = await newest(environmentId)
    if (task) await fixture.platform.settled(task.id)
  }

  describe('manual environments', () => {
    let environment: Environment
    beforeEach(async () => {
      fixture.push('release')
      environment = await fixture.environment('staging', { branch: 'release' })
      await fixture.deployAndWait(environment.id, fixture.head('release'))
    })

    test('a push whose delivery was lost is found and deployed, once', async () => {
      await fixture.reconcile()
      expect(await ledger()).toEqual([]) // nothing missed, so no row
      const sha = fixture.push('release')
      await fixture.reconcile()
      await fixture.reconcile()
      const [task, before] = await fixture.tasks(environment.id)
      expect(task).toMatchObject({ commit_sha: sha, trigger: 'reconcile', type: 'deploy' })
      expect(before?.trigger).toBe('api')
      const rows = await ledger()
      expect(rows).toHaveLength(1)
      expect(rows[0]).toMatchObject({
        event: 'reconcile',
        signed_with: null,
        provider: null,
        outcome: 'queued',
        rule: 'redeployed',
        task_ids: [task?.id],
      })
    })

    test('protection and auto-deploy off are kept', async () => {
      const change = (body: object) =>
        fixture.cp.call('PATCH', `/api/environments/${environment.id}`, body)
      expect((await change({ auto_deploy: false })).status).toBe(200)
      fixture.push('release')
      await fixture.reconcile()
      expect((await newest(environment.id))?.trigger).toBe('api')
      await change({ auto_deploy: true, protected: true })
      await fixture.reconcile()
      expect((await newest(environment.id))?.trigger).toBe('api')
      expect(await ledger()).toEqual([])
    })

    test('a branch that is gone is marked, one that is back is deployed when it moved', async () => {
      const marked = async () => {
        const row = await fixture.ctx.db
          .selectFrom('environments')
          .select('branchMissing')
          .where('id', '=', environment.id)
          .executeTakeFirstOrThrow()
        return row.branchMissing
      }
      const before = fixture.head('release')
      fixture.deleteBranch('release')
      await fixture.reconcile()
      await fixture.reconcile()
      expect(await marked()).toBe(1)
      expect((await ledger()).map((row) => row.rule)).toEqual(['branch_deleted'])
      fixture.repository.git('branch', 'release', before)
      await fixture.reconcile()
      expect(await marked()).toBe(0)
      expect((await newest(environment.id))?.trigger).toBe('api') // the same commit
      fixture.deleteBranch('release')
      await fixture.reconcile()
      const sha = fixture.push('release', 'Another')
      await fixture.reconcile()
      expect(await marked()).toBe(0)
      expect(await newest(environment.id)).toMatchObject({ commit_sha: sha, trigger: 'reconcile' })
    })

    test('a rollback stays: a look does not move it, a missed push and a deployment of the branch do', async () => {
      fixture.platform.executor.script = (a) => {
        a.checkedOut(a.assignment.spec?.repository?.commitSha || fixture.head('release'))
        a.succeed()
      }
      const first = fixture.head('release')
      const second = fixture.push('release')
      await fixture.deployAndWait(environment.id)
      await fixture.deployAndWait(environment.id, first)
      const shown = async () =>
        (await fixture.cp.call<Environment>('GET', `/api/environments/${environment.id}`)).body
      expect(await shown()).toMatchObject({ commit_sha: first, target_sha: first, pinned: true })
      await fixture.reconcile()
      await fixture.reconcile()
      expect(await shown()).toMatchObject({ commit_sha: first, pinned: true, locked: false })
      expect(await ledger()).toEqual([])
      const reset = await fixture.cp.call<Task>(
        'POST',
        `/api/environments/${environment.id}/reset`,
        {
          confirm: 'staging',
        },
      )
      await fixture.platform.settled(reset.body.id)
      expect(await shown()).toMatchObject({ commit_sha: first, pinned: true })
      const third = fixture.push('release')
      await fixture.reconcile()
      await settle(environment.id)
      expect(await shown()).toMatchObject({ commit_sha: third, pinned: false })
      await fixture.deployAndWait(environment.id, second)
      await fixture.deployAndWait(environment.id)
      expect(await shown()).toMatchObject({ commit_sha: third, pinned: false })
      await fixture.reconcile()
      expect((await newest(environment.id))?.trigger).toBe('api')
    })

    test('what never was deployed is left alone', async () => {
      fixture.push('later')
      const idle = await fixture.environment('idle', { branch: 'later' })
      fixture.push('later')
      await fixture.reconcile()
      expect(await fixture.tasks(idle.id)).toEqual([])
    })

    test('a deployment that never started is repeated once when the server is back', async () => {
      fixture.platform.killAgent()
      await until('the server to be away', async () => {
        const agent = await findServerAgent(fixture.ctx.db, fixture.platform.serverId)
        return agent?.sessionId === null || undefined
      })
      const sha = fixture.push('release')
      await fixture.reconcile()
      await fixture.cp.advance(TASKS.serverOfflineMs + 60_000)
      const failed = await newest(environment.id)
      expect(failed).toMatchObject({ status: 'failed', failure: { code: 'server_offline' } })
      await fixture.reconcile()
      expect((await newest(environment.id))?.id).toBe(failed?.id) // still offline
      await fixture.platform.startAgent()
      await fixture.reconcile()
      const again = await newest(environment.id)
      expect(again).toMatchObject({ commit_sha: sha, trigger: 'reconcile' })
      expect(again?.id).not.toBe(failed?.id)
      await fixture.platform.settled(again?.id ?? 0)
      await fixture.reconcile()
      expect((await newest(environment.id))?.id).toBe(again?.id)
    })

    test('any other failure is never repeated on its own', async () => {
      fixture.platform.executor.script = (a) => a.fail('no', 1)
      fixture.push('release')
      await fixture.reconcile()
      await settle(environment.id)
      const failed = await newest(environment.id)
      await fixture.reconcile()
      expect((await newest(environment.id))?.id).toBe(failed?.id)
    })

    test('a host that cannot be reached is shown, and nothing follows from it', async () => {
      await fixture.reconcile()
      expect((await fixture.project()).repository).toMatchObject({ reachable: true, error: null })
      const { db } = fixture.ctx
      const move = (repoUrl: string) =>
        db.updateTable('projects').set({ repoUrl }).where('id', '=', fixture.projectId).execute()
      await move('https://10.1.2.3/acme/shop.git')
      fixture.push('release')
      await fixture.reconcile()
      expect((await fixture.project()).repository).toMatchObject({
        reachable: false,
        error: { code: 'address_not_allowed' },
      })
      expect((await newest(environment.id))?.trigger).toBe('api')
      await move(fixture.host.repoUrl)
      await fixture.reconcile()
      expect((await newest(environment.id))?.trigger).toBe('reconcile')
    })
  })

  describe('by the clock', () => {
    test('each project has its round', async () => {
      fixture.push('release')
      const environment = await fixture.environment('staging', { branch: 'release' })
      await fixture.deployAndWait(environment.id, fixture.head('release'))
      const sha = fixture.push('release')
      await fixture.cp.advance(RECONCILE.everyMs * 2)
      const task = await until('the round', async () => {
        const task = await newest(environment.id)
        return task?.trigger === 'reconcile' ? task : undefined
      })
      expect(task.commit_sha).toBe(sha)
    })
  })

  describe('with a host token', () => {
    beforeEach(async () => {
      await fixture.setToken()
    })
    const openAtHost = (number: number, over: object = {}) => {
      const headBranch = `feature-${number}`
      const headSha = fixture.push(headBranch)
      return fixture.host.pull({ number, headBranch, headSha, ...over })
    }

    test('an opened one that was missed gets its environment and is deployed', async () => {
      const { headSha } = openAtHost(42)
      await fixture.reconcile()
      const environment = await find('pr-42')
      expect(environment).toMatchObject({ type: 'pull_request', branch: 'feature-42' })
      expect(await newest(environment?.id ?? 0)).toMatchObject({
        commit_sha: headSha,
        trigger: 'reconcile',
      })
      expect(await pulls()).toMatchObject([{ number: 42, state: 'open', head_sha: headSha }])
      expect(await ledger()).toMatchObject([
        { event: 'reconcile', provider: 'gitea', rule: 'environment_created' },
      ])
      await fixture.reconcile()
      expect(await ledger()).toHaveLength(1)
    })

    test.each(['merged', 'closed'] as const)('a %s one that was missed goes', async (state) => {
      const pull = openAtHost(42)
      await fixture.reconcile()
      const environment = await find('pr-42')
      await settle(environment?.id ?? 0)
      pull.state = state
      pull.updatedAt = Date.now() + 1_000
      await fixture.reconcile()
      await until('the environment to be gone', async () =>
        (await find('pr-42')) === undefined ? true : undefined,
      )
      expect(await pulls()).toEqual([])
      pull.state = 'open'
      pull.updatedAt = Date.now() + 2_000
      await fixture.reconcile()
      expect(await find('pr-42')).toBeDefined() // reopened
    })

    test('one that the host knows no more is closed', async () => {
      openAtHost(42)
      await fixture.reconcile()
      await settle((await find('pr-42'))?.id ?? 0)
      fixture.host.pulls.delete(42)
      await fixture.reconcile()
      await until('the environment to be gone', async () =>
        (await find('pr-42')) === undefined ? true : undefined,
      )
    })

    test('retargeted and drafted ones are noted, and nothing is deployed for it', async () => {
      const pull = openAtHost(42)
      await fixture.reconcile()
      const environment = await find('pr-42')
      await settle(environment?.id ?? 0)
      pull.baseBranch = 'next'
      await fixture.reconcile()
      expect(await pulls()).toMatchObject([{ base_branch: 'next' }])
      expect((await ledger())[0]).toMatchObject({ rule: 'retargeted', task_ids: [] })
      expect(await fixture.tasks(environment?.id ?? 0)).toHaveLength(1)
    })

    test('a fork waits for approval, also when its head moved', async () => {
      await fixture.ctx.db
        .updateTable('projects')
        .set({ defaultRecipe: 'docker' })
        .where('id', '=', fixture.projectId)
        .execute()
      const fork = fixture.host.pull({ number: 9, fromFork: true, headSha: fixture.head('main') })
      await fixture.reconcile()
      expect(await find('pr-9')).toBeUndefined()
      expect(await pulls()).toMatchObject([{ number: 9, waiting_for: 'approval', from_fork: true }])
      fork.headSha = fixture.push('elsewhere')
      await fixture.reconcile()
      expect(await pulls()).toMatchObject([{ waiting_for: 'approval', head_sha: fork.headSha }])
      expect(await find('pr-9')).toBeUndefined()
      await until('the host to know', async () => {
        await fixture.report()
        const reported = fixture.host.statuses.find((s) => s.sha === fork.headSha)
        return reported?.description === 'Waiting for approval by a member' || undefined
      })
    })

    test('at the limit they stand in line, and the commit says where', async () => {
      const { db } = fixture.ctx
      await db
        .updateTable('projects')
        .set({ environmentLimit: 1 })
        .where('id', '=', fixture.projectId)
        .execute()
      const first = openAtHost(1)
      const [second, third] = [openAtHost(2), openAtHost(3)]
      await fixture.reconcile()
      expect((await fixture.environments()).map((e) => e.identifier)).toEqual(['pr-1'])
      const reported = (sha: string) =>
        fixture.host.statuses.filter((s) => s.sha === sha).at(-1)?.description
      const says = (sha: string, place: number) =>
        until(`place ${place}`, async () => {
          await fixture.report()
          const words = `1 of 1 environments in use, place ${place} in line`
          return reported(sha) === words || undefined
        })
      await says(second.headSha, 1)
      await says(third.headSha, 2)
      await settle((await find('pr-1'))?.id ?? 0)
      first.state = 'merged'
      first.updatedAt = Date.now() + 1_000
      await fixture.reconcile()
      await until('the next in line', () => find('pr-2'))
      await says(third.headSha, 1)
    })

    test('what a delivery said during the look is not undone by it', async () => {
      const pull = openAtHost(42)
      await fixture.reconcile()
      await settle((await find('pr-42'))?.id ?? 0)
      // the list says "gone"; while it is being read, the pull request is reopened and a delivery reports it
      pull.state = 'closed'
      fixture.host.onCall = async ({ path }) => {
        if (!path.endsWith('/pulls/42')) return
        await fixture.cp.advance(1_000)
        const { db } = fixture.ctx
        const updatedAt = fixture.ctx.clock.now()
        await db.updateTable('pullRequests').set({ updatedAt }).where('number', '=', 42).execute()
      }
      await fixture.reconcile()
      expect(await find('pr-42')).toMatchObject({ status: 'running' })
      fixture.host.onCall = () => {}
      await fixture.cp.advance(1_000)
      await fixture.reconcile()
      expect((await find('pr-42'))?.status ?? 'removing').toBe('removing')
    })

    test('a host whose API is in trouble is shown; git alone goes on', async () => {
      openAtHost(42)
      await fixture.reconcile()
      const environment = await find('pr-42')
      await settle(environment?.id ?? 0)
      fixture.host.trouble = { status: 500, json: {} }
      const sha = fixture.push('feature-42')
      await fixture.reconcile()
      expect((await fixture.project()).host_token.error).toContain('has trouble (500)')
      expect(await newest(environment?.id ?? 0)).toMatchObject({ commit_sha: sha })
      fixture.host.trouble = undefined
      await fixture.reconcile()
      expect((await fixture.project()).host_token.error).toBeNull()
    })
  })

  describe('by git alone', () => {
    let environment: Environment
    beforeEach(async () => {
      await fixture.setToken()
      fixture.host.pull({ number: 42, headBranch: 'feature', headSha: fixture.push('feature') })
      await fixture.reconcile()
      environment = (await find('pr-42')) as Environment
      await settle(environment.id)
      await fixture.cp.call('DELETE', path('host_token'))
      await updateRepositoryFacts(fixture.ctx.db, fixture.projectId, { provider: 'gitea' })
      await fixture.cp.advance(1_000)
    })

    test('a head that moved is deployed', async () => {
      const sha = fixture.push('feature')
      await fixture.reconcile()
      expect(await newest(environment.id)).toMatchObject({ commit_sha: sha, trigger: 'reconcile' })
      expect(await pulls()).toMatchObject([{ head_sha: sha }])
    })

    test('a branch that stays away: presumed closed after two rounds, removed a day later', async () => {
      fixture.deleteBranch('feature')
      await fixture.reconcile()
      await fixture.cp.advance(RECONCILE.goneMs - 60_000)
      await fixture.reconcile()
      expect(await pulls()).toMatchObject([{ state: 'open' }])
      await fixture.cp.advance(120_000)
      await fixture.reconcile()
      expect(await pulls()).toMatchObject([{ state: 'presumed_closed' }])
      expect((await ledger())[0]).toMatchObject({ rule: 'presumed_closed', outcome: 'applied' })
      await fixture.cp.advance(RECONCILE.presumedMs - 60_000)
      await fixture.reconcile()
      expect(await find('pr-42')).toBeDefined()
      await fixture.cp.advance(120_000)
      await fixture.reconcile()
      await until('the environment to be gone', async () =>
        (await find('pr-42')) === undefined ? true : undefined,
      )
      expect(await pulls()).toEqual([])
    })

    test('unless the branch returns', async () => {
      const before = fixture.head('feature')
      fixture.deleteBranch('feature')
      await fixture.reconcile()
      await fixture.cp.advance(RECONCILE.goneMs)
      await fixture.reconcile()
      expect(await pulls()).toMatchObject([{ state: 'presumed_closed' }])
      fixture.repository.git('branch', 'feature', before)
      await fixture.reconcile()
      expect(await pulls()).toMatchObject([{ state: 'open' }])
      await fixture.cp.advance(RECONCILE.presumedMs * 2)
      await fixture.reconcile()
      expect(await find('pr-42')).toBeDefined()
    })

    test('or the environment is protected', async () => {
      const body = { protected: true }
      const patched = await fixture.cp.call('PATCH', `/api/environments/${environment.id}`, body)
      expect(patched.status).toBe(200)
      fixture.deleteBranch('feature')
      await fixture.reconcile()
      for (const ms of [RECONCILE.goneMs, RECONCILE.presumedMs]) {
        await fixture.cp.advance(ms)
        await fixture.reconcile()
      }
      expect(await find('pr-42')).toMatchObject({ status: 'running' })
      expect(await pulls()).toEqual([]) // the record says closed, the environment stays
    })
  })
})
