// Lost, late and shuffled deliveries converge: what git and the host say is reached without any delivery. Real git
// repositories over http, on both databases.
import { RECONCILE, TASKS } from '@berth/shared'
import type { Delivery, Environment, PullRequest, Task } from '@berth/shared/api'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { updateRepositoryFacts } from '../../control-plane/src/store/forges/repositories.ts'
import { findServerAgent } from '../../control-plane/src/store/servers/agents.ts'
import { RepositoryLab } from '../fixtures/forge/repository.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { until } from '../fixtures/server/installation.ts'

describe.each(ENGINES)('reconcile on %s', (engine) => {
  let lab: RepositoryLab
  beforeEach(async () => {
    lab = await RepositoryLab.start(engine)
  })
  afterEach(() => lab.close())

  const path = (rest: string): string => `/api/projects/${lab.projectId}/${rest}`
  const ledger = async (): Promise<Delivery[]> =>
    (await lab.cp.call<Delivery[]>('GET', path('deliveries'))).body
  const pulls = async (): Promise<PullRequest[]> =>
    (await lab.cp.call<PullRequest[]>('GET', path('pull_requests'))).body
  const newest = async (environmentId: number) => (await lab.tasks(environmentId))[0]
  const find = async (identifier: string): Promise<Environment | undefined> =>
    (await lab.environments()).find((e) => e.identifier === identifier)
  /** When what reconcile started is over. */
  const settle = async (environmentId: number) => {
    const task = await newest(environmentId)
    if (task) await lab.platform.settled(task.id)
  }

  describe('manual environments', () => {
    let environment: Environment
    beforeEach(async () => {
      lab.push('release')
      environment = await lab.environment('staging', { branch: 'release' })
      await lab.deployAndSettle(environment.id, lab.head('release'))
    })

    test('a push whose delivery was lost is found and deployed, once', async () => {
      await lab.reconcile()
      expect(await ledger()).toEqual([]) // nothing missed, no row
      const sha = lab.push('release')
      await lab.reconcile()
      await lab.reconcile()
      const [task, before] = await lab.tasks(environment.id)
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
        lab.cp.call('PATCH', `/api/environments/${environment.id}`, body)
      expect((await change({ auto_deploy: false })).status).toBe(200)
      lab.push('release')
      await lab.reconcile()
      expect((await newest(environment.id))?.trigger).toBe('api')
      await change({ auto_deploy: true, protected: true })
      await lab.reconcile()
      expect((await newest(environment.id))?.trigger).toBe('api')
      expect(await ledger()).toEqual([])
    })

    test('a branch that is gone is marked, one that is back is deployed when it moved', async () => {
      const marked = async () => {
        const row = await lab.ctx.db
          .selectFrom('environments')
          .select('branchMissing')
          .where('id', '=', environment.id)
          .executeTakeFirstOrThrow()
        return row.branchMissing
      }
      const before = lab.head('release')
      lab.deleteBranch('release')
      await lab.reconcile()
      await lab.reconcile()
      expect(await marked()).toBe(1)
      expect((await ledger()).map((row) => row.rule)).toEqual(['branch_deleted'])
      lab.repository.git('branch', 'release', before)
      await lab.reconcile()
      expect(await marked()).toBe(0)
      expect((await newest(environment.id))?.trigger).toBe('api') // the same commit
      lab.deleteBranch('release')
      await lab.reconcile()
      const sha = lab.push('release', 'Another')
      await lab.reconcile()
      expect(await marked()).toBe(0)
      expect(await newest(environment.id)).toMatchObject({ commit_sha: sha, trigger: 'reconcile' })
    })

    test('a rollback stays: a look does not move it, a missed push and a deployment of the branch do', async () => {
      lab.platform.executor.script = (a) => {
        a.checkedOut(a.assignment.spec?.repository?.commitSha || lab.head('release'))
        a.succeed()
      }
      const first = lab.head('release')
      const second = lab.push('release')
      await lab.deployAndSettle(environment.id)
      await lab.deployAndSettle(environment.id, first)
      const shown = async () =>
        (await lab.cp.call<Environment>('GET', `/api/environments/${environment.id}`)).body
      expect(await shown()).toMatchObject({ commit_sha: first, target_sha: first, pinned: true })
      await lab.reconcile()
      await lab.reconcile()
      expect(await shown()).toMatchObject({ commit_sha: first, pinned: true, locked: false })
      expect(await ledger()).toEqual([])
      const reset = await lab.cp.call<Task>('POST', `/api/environments/${environment.id}/reset`, {
        confirm: 'staging',
      })
      await lab.platform.settled(reset.body.id)
      expect(await shown()).toMatchObject({ commit_sha: first, pinned: true })
      const third = lab.push('release')
      await lab.reconcile()
      await settle(environment.id)
      expect(await shown()).toMatchObject({ commit_sha: third, pinned: false })
      await lab.deployAndSettle(environment.id, second)
      await lab.deployAndSettle(environment.id)
      expect(await shown()).toMatchObject({ commit_sha: third, pinned: false })
      await lab.reconcile()
      expect((await newest(environment.id))?.trigger).toBe('api')
    })

    test('what never was deployed is left alone', async () => {
      lab.push('later')
      const idle = await lab.environment('idle', { branch: 'later' })
      lab.push('later')
      await lab.reconcile()
      expect(await lab.tasks(idle.id)).toEqual([])
    })

    test('a deployment that never started is repeated once when the server is back', async () => {
      lab.platform.killAgent()
      await until('the server to be away', async () => {
        const agent = await findServerAgent(lab.ctx.db, lab.platform.serverId)
        return agent?.sessionId === null || undefined
      })
      const sha = lab.push('release')
      await lab.reconcile()
      await lab.cp.advance(TASKS.serverOfflineMs + 60_000)
      const failed = await newest(environment.id)
      expect(failed).toMatchObject({ status: 'failed', failure: { code: 'server_offline' } })
      await lab.reconcile()
      expect((await newest(environment.id))?.id).toBe(failed?.id) // still away
      await lab.platform.startAgent()
      await lab.reconcile()
      const again = await newest(environment.id)
      expect(again).toMatchObject({ commit_sha: sha, trigger: 'reconcile' })
      expect(again?.id).not.toBe(failed?.id)
      await lab.platform.settled(again?.id ?? 0)
      await lab.reconcile()
      expect((await newest(environment.id))?.id).toBe(again?.id)
    })

    test('any other failure is never repeated on its own', async () => {
      lab.platform.executor.script = (a) => a.fail('no', 1)
      lab.push('release')
      await lab.reconcile()
      await settle(environment.id)
      const failed = await newest(environment.id)
      await lab.reconcile()
      expect((await newest(environment.id))?.id).toBe(failed?.id)
    })

    test('a host that cannot be reached is shown, and nothing follows from it', async () => {
      await lab.reconcile()
      expect((await lab.project()).repository).toMatchObject({ reachable: true, error: null })
      const { db } = lab.ctx
      const move = (repoUrl: string) =>
        db.updateTable('projects').set({ repoUrl }).where('id', '=', lab.projectId).execute()
      await move('https://10.1.2.3/acme/shop.git')
      lab.push('release')
      await lab.reconcile()
      expect((await lab.project()).repository).toMatchObject({
        reachable: false,
        error: { code: 'address_not_allowed' },
      })
      expect((await newest(environment.id))?.trigger).toBe('api')
      await move(lab.host.repoUrl)
      await lab.reconcile()
      expect((await newest(environment.id))?.trigger).toBe('reconcile')
    })
  })

  describe('by the clock', () => {
    test('each project has its round', async () => {
      lab.push('release')
      const environment = await lab.environment('staging', { branch: 'release' })
      await lab.deployAndSettle(environment.id, lab.head('release'))
      const sha = lab.push('release')
      await lab.cp.advance(RECONCILE.everyMs * 2)
      const task = await until('the round', async () => {
        const task = await newest(environment.id)
        return task?.trigger === 'reconcile' ? task : undefined
      })
      expect(task.commit_sha).toBe(sha)
    })
  })

  describe('with a host token', () => {
    beforeEach(async () => {
      await lab.setToken()
    })
    const openAtHost = (number: number, over: object = {}) => {
      const headBranch = `feature-${number}`
      const headSha = lab.push(headBranch)
      return lab.host.pull({ number, headBranch, headSha, ...over })
    }

    test('an opened one that was missed gets its environment and is deployed', async () => {
      const { headSha } = openAtHost(42)
      await lab.reconcile()
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
      await lab.reconcile()
      expect(await ledger()).toHaveLength(1)
    })

    test.each(['merged', 'closed'] as const)('a %s one that was missed goes', async (state) => {
      const pull = openAtHost(42)
      await lab.reconcile()
      const environment = await find('pr-42')
      await settle(environment?.id ?? 0)
      pull.state = state
      pull.updatedAt = Date.now() + 1_000
      await lab.reconcile()
      await until('the environment to be gone', async () =>
        (await find('pr-42')) === undefined ? true : undefined,
      )
      expect(await pulls()).toEqual([])
      pull.state = 'open'
      pull.updatedAt = Date.now() + 2_000
      await lab.reconcile()
      expect(await find('pr-42')).toBeDefined() // reopened
    })

    test('one that the host knows no more is closed', async () => {
      openAtHost(42)
      await lab.reconcile()
      await settle((await find('pr-42'))?.id ?? 0)
      lab.host.pulls.delete(42)
      await lab.reconcile()
      await until('the environment to be gone', async () =>
        (await find('pr-42')) === undefined ? true : undefined,
      )
    })

    test('retargeted and drafted ones are noted, and nothing is deployed for it', async () => {
      const pull = openAtHost(42)
      await lab.reconcile()
      const environment = await find('pr-42')
      await settle(environment?.id ?? 0)
      pull.baseBranch = 'next'
      await lab.reconcile()
      expect(await pulls()).toMatchObject([{ base_branch: 'next' }])
      expect((await ledger())[0]).toMatchObject({ rule: 'retargeted', task_ids: [] })
      expect(await lab.tasks(environment?.id ?? 0)).toHaveLength(1)
    })

    test('a fork waits for approval, also when its head moved', async () => {
      await lab.ctx.db
        .updateTable('projects')
        .set({ defaultRecipe: 'docker' })
        .where('id', '=', lab.projectId)
        .execute()
      const fork = lab.host.pull({ number: 9, fromFork: true, headSha: lab.head('main') })
      await lab.reconcile()
      expect(await find('pr-9')).toBeUndefined()
      expect(await pulls()).toMatchObject([{ number: 9, waiting_for: 'approval', from_fork: true }])
      fork.headSha = lab.push('elsewhere')
      await lab.reconcile()
      expect(await pulls()).toMatchObject([{ waiting_for: 'approval', head_sha: fork.headSha }])
      expect(await find('pr-9')).toBeUndefined()
      await until('the host to know', async () => {
        await lab.report()
        const told = lab.host.statuses.find((s) => s.sha === fork.headSha)
        return told?.description === 'Waiting for approval by a member' || undefined
      })
    })

    test('at the limit they stand in line, and the commit says where', async () => {
      const { db } = lab.ctx
      await db
        .updateTable('projects')
        .set({ environmentLimit: 1 })
        .where('id', '=', lab.projectId)
        .execute()
      const first = openAtHost(1)
      const [second, third] = [openAtHost(2), openAtHost(3)]
      await lab.reconcile()
      expect((await lab.environments()).map((e) => e.identifier)).toEqual(['pr-1'])
      const told = (sha: string) =>
        lab.host.statuses.filter((s) => s.sha === sha).at(-1)?.description
      const says = (sha: string, place: number) =>
        until(`place ${place}`, async () => {
          await lab.report()
          const words = `1 of 1 environments in use, place ${place} in line`
          return told(sha) === words || undefined
        })
      await says(second.headSha, 1)
      await says(third.headSha, 2)
      await settle((await find('pr-1'))?.id ?? 0)
      first.state = 'merged'
      first.updatedAt = Date.now() + 1_000
      await lab.reconcile()
      await until('the next in line', () => find('pr-2'))
      await says(third.headSha, 1)
    })

    test('what a delivery said during the look is not undone by it', async () => {
      const pull = openAtHost(42)
      await lab.reconcile()
      await settle((await find('pr-42'))?.id ?? 0)
      // the list says "gone"; while it is being read, the pull request is reopened and a delivery says so
      pull.state = 'closed'
      lab.host.onCall = async ({ path }) => {
        if (!path.endsWith('/pulls/42')) return
        await lab.cp.advance(1_000)
        const { db } = lab.ctx
        const updatedAt = lab.ctx.clock.now()
        await db.updateTable('pullRequests').set({ updatedAt }).where('number', '=', 42).execute()
      }
      await lab.reconcile()
      expect(await find('pr-42')).toMatchObject({ status: 'running' })
      lab.host.onCall = () => {}
      await lab.cp.advance(1_000)
      await lab.reconcile()
      expect((await find('pr-42'))?.status ?? 'removing').toBe('removing')
    })

    test('a host whose API is in trouble is shown; git alone goes on', async () => {
      openAtHost(42)
      await lab.reconcile()
      const environment = await find('pr-42')
      await settle(environment?.id ?? 0)
      lab.host.trouble = { status: 500, json: {} }
      const sha = lab.push('feature-42')
      await lab.reconcile()
      expect((await lab.project()).host_token.error).toContain('has trouble (500)')
      expect(await newest(environment?.id ?? 0)).toMatchObject({ commit_sha: sha })
      lab.host.trouble = undefined
      await lab.reconcile()
      expect((await lab.project()).host_token.error).toBeNull()
    })
  })

  describe('by git alone', () => {
    let environment: Environment
    beforeEach(async () => {
      await lab.setToken()
      lab.host.pull({ number: 42, headBranch: 'feature', headSha: lab.push('feature') })
      await lab.reconcile()
      environment = (await find('pr-42')) as Environment
      await settle(environment.id)
      await lab.cp.call('DELETE', path('host_token'))
      await updateRepositoryFacts(lab.ctx.db, lab.projectId, { provider: 'gitea' })
      await lab.cp.advance(1_000)
    })

    test('a head that moved is deployed', async () => {
      const sha = lab.push('feature')
      await lab.reconcile()
      expect(await newest(environment.id)).toMatchObject({ commit_sha: sha, trigger: 'reconcile' })
      expect(await pulls()).toMatchObject([{ head_sha: sha }])
    })

    test('a branch that stays away: presumed closed after two rounds, removed a day later', async () => {
      lab.deleteBranch('feature')
      await lab.reconcile()
      await lab.cp.advance(RECONCILE.goneMs - 60_000)
      await lab.reconcile()
      expect(await pulls()).toMatchObject([{ state: 'open' }])
      await lab.cp.advance(120_000)
      await lab.reconcile()
      expect(await pulls()).toMatchObject([{ state: 'presumed_closed' }])
      expect((await ledger())[0]).toMatchObject({ rule: 'presumed_closed', outcome: 'applied' })
      await lab.cp.advance(RECONCILE.presumedMs - 60_000)
      await lab.reconcile()
      expect(await find('pr-42')).toBeDefined()
      await lab.cp.advance(120_000)
      await lab.reconcile()
      await until('the environment to be gone', async () =>
        (await find('pr-42')) === undefined ? true : undefined,
      )
      expect(await pulls()).toEqual([])
    })

    test('unless the branch returns', async () => {
      const before = lab.head('feature')
      lab.deleteBranch('feature')
      await lab.reconcile()
      await lab.cp.advance(RECONCILE.goneMs)
      await lab.reconcile()
      expect(await pulls()).toMatchObject([{ state: 'presumed_closed' }])
      lab.repository.git('branch', 'feature', before)
      await lab.reconcile()
      expect(await pulls()).toMatchObject([{ state: 'open' }])
      await lab.cp.advance(RECONCILE.presumedMs * 2)
      await lab.reconcile()
      expect(await find('pr-42')).toBeDefined()
    })

    test('or the environment is protected', async () => {
      const body = { protected: true }
      const patched = await lab.cp.call('PATCH', `/api/environments/${environment.id}`, body)
      expect(patched.status).toBe(200)
      lab.deleteBranch('feature')
      await lab.reconcile()
      for (const ms of [RECONCILE.goneMs, RECONCILE.presumedMs]) {
        await lab.cp.advance(ms)
        await lab.reconcile()
      }
      expect(await find('pr-42')).toMatchObject({ status: 'running' })
      expect(await pulls()).toEqual([]) // the record says closed, the environment stays
    })
  })
})
