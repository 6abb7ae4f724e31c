// Late, duplicated, lost and shuffled deliveries: a closed pull request is never deployed again, and no event deploys a
// commit older than the branch's. If an event does not follow from the known state, the repository decides.
import { PROVIDERS } from '@berth/shared'
import type { Delivery } from '@berth/shared/api'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { reconcileProject } from '../../control-plane/src/app/forges/reconcile.ts'
import {
  fixture,
  parseFixture,
} from '../../control-plane/src/domain/forges/payloads/fixtures.testing.ts'
import { WEBHOOKS } from '../../control-plane/src/limits/forges.ts'
import { type Host, makeHost, sha } from '../fixtures/forge/webhook-sender.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { until } from '../fixtures/server/installation.ts'

describe.each(ENGINES)('late events on %s', (engine) => {
  let p: Platform
  let h: Host
  beforeEach(async () => {
    p = await Platform.start(engine)
    h = await makeHost(p.cp, p.serverId)
  })
  afterEach(() => p.close())

  const settled = async (identifier: string) => {
    const environment = await h.environment(identifier)
    const tasks = await h.tasks(environment?.id ?? 0)
    for (const task of tasks) await p.settled(task.id)
    return tasks
  }
  const deploys = async (identifier: string) =>
    (await settled(identifier)).filter((task) => task.type === 'deploy').length
  const change = async (identifier: string, body: object) => {
    const path = `/api/environments/${(await h.environment(identifier))?.id}`
    expect((await p.cp.call('PATCH', path, body)).status).toBe(200)
  }

  describe('a pull request that is over', () => {
    const pr = { number: 9, branch: 'cart' }
    const now = () => Math.floor(Date.now() / 1_000)

    test.each(['merged', 'closed'] as const)(
      'and was %s while protected gets nothing after protection was lifted',
      async (ending) => {
        await h.opened({ ...pr, head: sha(1) })
        await settled('pr-9')
        await change('pr-9', { protected: true })
        const at = now()
        expect((await h[ending]({ ...pr, head: sha(1), at })).body.rule).toBe(
          'environment_protected',
        )
        await change('pr-9', { protected: false })
        const answers = [
          await h.push('cart', sha(2), { before: sha(1) }),
          await h.updated({ ...pr, head: sha(3), before: sha(1), at }),
          await h.opened({ ...pr, head: sha(3), at: at + 1 }),
          await h.edited({ ...pr, head: sha(3), title: 'Again', at: at + 1 }),
        ]
        for (const { body } of answers) {
          expect(body).toMatchObject({ outcome: 'ignored', rule: 'pull_request_closed' })
        }
        await reconcileProject(p.cp.running.ctx, h.projectId)
        expect(await deploys('pr-9')).toBe(1)
        expect(await h.environment('pr-9')).toMatchObject({ commit_sha: sha(1) })
        // reopening it makes it deployable again
        await h.reopened({ ...pr, head: sha(3), at: at + 2 })
        expect(await deploys('pr-9')).toBe(2)
      },
    )

    test('does not come back by what is delivered while it is being removed', async () => {
      await h.opened({ ...pr, head: sha(1) })
      await settled('pr-9')
      p.killAgent()
      const at = now()
      expect((await h.merged({ ...pr, head: sha(1), at })).body.rule).toBe('pull_request_merged')
      expect(await h.environment('pr-9')).toMatchObject({ status: 'removing' })
      for (const action of ['opened', 'updated', 'edited'] as const) {
        const { body } = await h[action]({ ...pr, head: sha(2), at })
        expect(body).toMatchObject({ outcome: 'ignored', rule: 'pull_request_closed' })
      }
      await p.startAgent()
      await until('the removal', async () => ((await h.environment('pr-9')) ? undefined : true))
      expect(await h.pullRequests()).toEqual([])
      const again = await h.opened({ ...pr, head: sha(1), at })
      expect(again.body.rule).toBe('pull_request_closed')
      await reconcileProject(p.cp.running.ctx, h.projectId)
      expect(await h.environments()).toEqual([])
    })

    test('gets no place that is freed after its end', async () => {
      await p.cp.call('PUT', `/api/projects/${h.projectId}/environment_limit`, { limit: 1 })
      const first = await p.cp.environment(h.projectId, 'staging')
      expect((await h.opened({ ...pr, head: sha(1) })).body.rule).toBe('environment_limit_reached')
      expect((await h.closed({ ...pr, head: sha(1) })).body.rule).toBe('left_line')
      await p.cp.call('DELETE', `/api/environments/${first.id}`)
      await until('the removal', async () => ((await h.environment('staging')) ? undefined : true))
      expect(await h.environments()).toEqual([])
    })

    test('is not approved any more when it came from a fork', async () => {
      const docker = { default_recipe: 'docker' }
      await p.cp.call('PATCH', `/api/projects/${h.projectId}`, docker)
      const fork = { ...pr, head: sha(1), fork: 99 }
      expect((await h.opened(fork)).body.rule).toBe('approval_required')
      await h.closed(fork)
      const path = `/api/projects/${h.projectId}/pull_requests/9/approve`
      const answer = await p.cp.call('POST', path, { head_sha: sha(1) })
      expect([answer.status, answer.body.code]).toEqual([409, 'pull_request_closed'])
      expect(await h.environments()).toEqual([])
    })

    test('and that nobody knew is not made when its branch is gone', async () => {
      h.refs.set('refs/heads/main', sha('main'))
      h.refs.set('refs/pull/9/head', sha(1))
      const at = now() - WEBHOOKS.lateMs / 1_000 - 60
      const answer = await h.opened({ ...pr, head: sha(1), at, late: true })
      expect(answer.body).toMatchObject({ outcome: 'ignored', rule: 'branch_deleted' })
      expect(await h.environments()).toEqual([])
    })
  })

  describe('a push', () => {
    /** main is deployed at sha(3), which followed sha(2), which followed sha(1). */
    beforeEach(async () => {
      await p.cp.environment(h.projectId, 'staging', { branch: 'main' })
      await h.push('main', sha(1))
      await h.push('main', sha(2), { before: sha(1) })
      await h.push('main', sha(3), { before: sha(2) })
      await settled('staging')
    })
    const shown = () => h.environment('staging')

    test('that follows is believed without a look, also when history was rewritten', async () => {
      const { looks } = h.forge
      const forced = await h.push('main', sha(9), { before: sha(3) })
      expect(forced.body.rule).toBe('redeployed')
      const back = await h.push('main', sha(2), { before: sha(9) })
      expect(back.body.outcome).toBe('queued')
      expect(h.forge.looks).toBe(looks)
      await settled('staging')
      expect(await shown()).toMatchObject({ commit_sha: sha(2) })
    })

    test('that comes late deploys nothing older', async () => {
      const before = await deploys('staging')
      const late = await h.push('main', sha(2), { before: sha(1), late: true })
      expect(late.body).toMatchObject({ outcome: 'ignored', rule: 'already_deployed' })
      expect(late.body.task_ids).toEqual([])
      expect(await deploys('staging')).toBe(before)
      expect(await shown()).toMatchObject({ commit_sha: sha(3) })
    })

    test('that is redelivered from the ledger deploys nothing older', async () => {
      const [first] = (await h.deliveries()).toReversed()
      const path = `/api/deliveries/${first?.id}/redeliver`
      const again = await p.cp.call<Delivery>('POST', path)
      expect(again.body).toMatchObject({ replay_of: first?.id, rule: 'already_deployed' })
      await settled('staging')
      expect(await shown()).toMatchObject({ commit_sha: sha(3) })
    })

    test('after a lost one deploys what the branch has, as its own', async () => {
      h.refs.set('refs/heads/main', sha(6))
      const answer = await h.push('main', sha(5), { before: sha(4), late: true })
      expect(answer.body).toMatchObject({ outcome: 'queued', rule: 'redeployed' })
      const task = await p.settled(answer.body.task_ids[0] ?? 0)
      expect(task).toMatchObject({ commit_sha: sha(6), trigger: 'webhook' })
      // the other events of the branch add nothing
      const next = await h.push('main', sha(6), { before: sha(5), late: true })
      expect(next.body.rule).toBe('already_deployed')
    })

    test('in the wrong order deploys the newest, once', async () => {
      h.refs.set('refs/heads/main', sha(5))
      const second = await h.push('main', sha(5), { before: sha(4), late: true })
      const first = await h.push('main', sha(4), { before: sha(3), late: true })
      expect([second.body.outcome, first.body.outcome]).toEqual(['queued', 'ignored'])
      await settled('staging')
      expect(await shown()).toMatchObject({ commit_sha: sha(5) })
    })

    test('of a deletion that is over marks nothing, one that holds does', async () => {
      const late = await h.push('main', sha(1), { deleted: true, before: sha(1), late: true })
      expect(late.body.rule).toBe('already_deployed')
      expect(await shown()).toMatchObject({ branch_missing: false })
      const deleted = await h.push('main', sha(3), { deleted: true, before: sha(3) })
      expect(deleted.body.rule).toBe('branch_deleted')
      expect(await shown()).toMatchObject({ branch_missing: true })
      const back = await h.push('main', sha(7))
      expect(back.body.rule).toBe('redeployed')
    })

    test('what a person deployed by hand is not undone by what was pushed before', async () => {
      p.executor.script = (a) => {
        a.checkedOut(a.assignment.spec?.repository?.commitSha || sha(5))
        a.succeed()
      }
      h.refs.set('refs/heads/main', sha(5))
      const id = (await shown())?.id ?? 0
      await p.settled((await p.deploy(id)).body.id)
      const late = await h.push('main', sha(4), { before: sha(3), late: true })
      expect(late.body.rule).toBe('already_deployed')
      expect(await shown()).toMatchObject({ commit_sha: sha(5) })
    })

    test('waits for a forge that does not answer, says so, and deploys what the branch has then', async () => {
      const sent = { before: sha(4), late: true }
      h.forge.isDown = true
      h.refs.set('refs/heads/main', sha(6))
      const pending = h.push('main', sha(5), sent)
      const waiting = await until('a first try', async () => {
        const [row] = await h.deliveries()
        return row?.outcome === 'received' && row.reason ? row : undefined
      })
      expect(waiting.reason).toMatch(/^The commit does not follow .* It is tried again soon\.$/)
      expect(waiting.task_ids).toEqual([])
      h.forge.isDown = false
      await p.cp.advance(WEBHOOKS.retryMs[1] ?? 0)
      const { body } = await pending
      expect(body).toMatchObject({ outcome: 'queued', rule: 'redeployed' })
      expect(await p.settled(body.task_ids[0] ?? 0)).toMatchObject({ commit_sha: sha(6) })
    })

    test('of a forge that stays away: the server fetches whatever the branch has', async () => {
      const asked: (string | undefined)[] = []
      p.executor.script = (a) => {
        asked.push(a.assignment.spec?.repository?.commitSha)
        a.checkedOut(sha(8))
        a.succeed()
      }
      h.forge.isDown = true
      const pending = h.push('main', sha(5), { before: sha(4), late: true })
      for (const tries of [1, 2, 3]) {
        await until(`try ${tries}`, async () => {
          const [row] = await h.deliveries()
          const over = row && (row.outcome !== 'received' || (row.tries >= tries && row.reason))
          return over || undefined
        })
        await p.cp.advance(WEBHOOKS.retryMs.at(-1) ?? 0)
      }
      const { body } = await pending
      expect(body).toMatchObject({ outcome: 'queued', rule: 'redeployed' })
      await p.settled(body.task_ids[0] ?? 0)
      expect(asked).toEqual([''])
      expect(await shown()).toMatchObject({ commit_sha: sha(8) })
    })
  })

  describe('an event of a pull request', () => {
    test('in the wrong order deploys the newest head', async () => {
      const pr = { number: 4, branch: 'cart' }
      const at = Math.floor(Date.now() / 1_000)
      await h.opened({ ...pr, head: sha(1), at })
      await settled('pr-4')
      h.refs.set('refs/heads/cart', sha(3))
      // GitHub's times have whole seconds, so both are equal
      const third = { ...pr, head: sha(3), before: sha(2), at: at + 1, late: true }
      const second = { ...pr, head: sha(2), before: sha(1), at: at + 1, late: true }
      expect((await h.updated(third)).body.outcome).toBe('queued')
      expect((await h.updated(second)).body.task_ids).toEqual([])
      await settled('pr-4')
      expect(await h.environment('pr-4')).toMatchObject({
        commit_sha: sha(3),
        pull_request: { head_sha: sha(3) },
      })
    })

    test('that comes after newer pushes goes not back', async () => {
      const pr = { number: 4, branch: 'cart' }
      await h.opened({ ...pr, head: sha(1) })
      await h.push('cart', sha(2), { before: sha(1) })
      await h.push('cart', sha(3), { before: sha(2) })
      await settled('pr-4')
      const late = await h.updated({ ...pr, head: sha(2), before: sha(1), late: true })
      expect(late.body.task_ids).toEqual([])
      expect(await h.environment('pr-4')).toMatchObject({ commit_sha: sha(3) })
    })
  })

  test.each(PROVIDERS)('a late push of %s deploys nothing older', async (provider) => {
    const f = fixture(provider, 'push')
    const parsed = parseFixture(f)
    const [reported] = parsed.ok && parsed.event.kind === 'push' ? parsed.event.changes : []
    const branch = reported?.branch ?? ''
    const { id } = await p.cp.environment(h.projectId, 'staging', { branch })
    h.refs.set(`refs/heads/${branch}`, sha(7))
    await p.settled((await p.deploy(id, { commit_sha: sha(7) })).body.id)
    const late = await h.replay(f, { late: true })
    expect(late.body).toMatchObject({ outcome: 'ignored', rule: 'already_deployed' })
    expect(await deploys('staging')).toBe(1)
    // the same bytes, now that the branch has that commit
    h.refs.set(`refs/heads/${branch}`, reported?.sha ?? '')
    const now = await h.replay(f, { late: true })
    expect(now.body).toMatchObject({ outcome: 'queued', rule: 'redeployed' })
    const task = await p.settled(now.body.task_ids[0] ?? 0)
    expect(task.commit_sha).toBe(reported?.sha)
  })
})
