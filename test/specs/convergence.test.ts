// A stream of events that is shuffled, duplicated and partly lost: with a forge token one round of reconciliation
// reaches the state that the forge reports, and no environment is left over. Seeded; a failure prints its seed.
import type { Environment, PullRequest } from '@berth/shared/api'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { change } from '../../control-plane/src/app/core/transaction.ts'
import { applyEvent } from '../../control-plane/src/app/forges/forge-events.ts'
import type { NormalisedEvent } from '../../control-plane/src/domain/forges/payloads/event.ts'
import { lockProject, updateProject } from '../../control-plane/src/store/projects/projects.ts'
import { RepositoryFixture } from '../fixtures/forge/repository.ts'
import { disturbed, eventStreams, type ForgeTruth } from '../fixtures/forge/webhook-streams.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { until } from '../fixtures/server/installation.ts'

const RUNS = 20
const LIMIT = 3

// the default size makes streams of few events, in which little can go wrong
fc.configureGlobal({ baseSize: 'large' })

const arriving = disturbed(
  eventStreams({ provider: 'gitea', pullRequests: 5, commands: 50, forks: true }),
  { shuffle: true, doubled: 30, dropped: 30 },
)

describe.each(ENGINES)('events that are shuffled, doubled and lost on %s', (engine) => {
  let fixture: RepositoryFixture
  let serverId: number
  let round = 0
  beforeAll(async () => {
    fixture = await RepositoryFixture.start(engine)
    serverId = fixture.platform.serverId
    // joined but offline: nothing is ever sent, so a removal ends immediately
    fixture.platform.killAgent()
    await until('the server to be away', async () => {
      const agent = await fixture.ctx.db.selectFrom('agents').select('sessionId').executeTakeFirst()
      return agent?.sessionId === null || undefined
    })
  })
  afterAll(() => fixture.close())

  const deliver = (event: NormalisedEvent) =>
    change(fixture.ctx, async (c) => {
      const project = await lockProject(c.db, fixture.projectId)
      if (!project) throw new Error('no project')
      const by = { type: 'system', name: 'test' } as const
      await applyEvent(fixture.ctx, c, project, event, {
        by,
        trigger: 'webhook',
        origin: 'reconcile',
      })
    })

  /** Makes the forge report the true state. */
  function show(truth: ForgeTruth): void {
    fixture.host.pulls.clear()
    const refs = new Map([...truth.branches].map(([name, sha]) => [`refs/heads/${name}`, sha]))
    for (const pr of truth.pullRequests.values()) {
      refs.set(`refs/pull/${pr.number}/head`, pr.head)
      fixture.host.pull({
        number: pr.number,
        state: pr.state,
        draft: pr.draft,
        headBranch: pr.branch,
        headSha: pr.head,
        baseBranch: pr.base,
        fromFork: pr.fromFork,
      })
    }
    fixture.host.refs = refs
  }

  async function start(limit: number): Promise<Environment> {
    round += 1
    fixture.host.pulls.clear()
    fixture.host.refs = new Map()
    const project = await fixture.cp.project(`shop-${round}`, serverId, {
      repo_url: fixture.host.repoUrl,
      default_recipe: 'docker',
    })
    fixture.projectId = project.id
    await updateProject(fixture.ctx.db, project.id, { environmentLimit: limit })
    expect((await fixture.setToken()).status).toBe(200)
    // only the test's own round may run: an earlier scheduled one would see an empty forge
    const never = fixture.ctx.clock.now() + 1e10
    await updateProject(fixture.ctx.db, project.id, { reconcileAt: never })
    return fixture.environment('main')
  }

  async function read() {
    const environments = await fixture.environments()
    const path = `/api/projects/${fixture.projectId}/pull_requests`
    const pulls = (await fixture.cp.call<PullRequest[]>('GET', path)).body
    return { environments, pulls }
  }

  async function converge(events: NormalisedEvent[], truth: ForgeTruth, limit: number) {
    const main = await start(limit)
    show(truth)
    const first = events.find((e) => e.kind === 'push')
    const before = first?.kind === 'push' ? (first.changes[0]?.sha ?? null) : null
    if (before) await fixture.platform.deploy(main.id, { commit_sha: before })
    for (const event of events) await deliver(event)
    await fixture.reconcile()
    return { main, before, ...(await read()) }
  }

  test('after one round the state is the host’s, and no environment is left over', async () => {
    await fc.assert(
      fc.asyncProperty(arriving, async ({ arriving: events, truth }) => {
        const { main, before, environments, pulls } = await converge(events, truth, 50)
        const open = [...truth.pullRequests.values()].filter((p) => p.state === 'open')
        const reported = pulls.map((p) => ({
          number: p.number,
          head: p.head_sha,
          base: p.base_branch,
          draft: p.draft,
          state: p.state,
          fromFork: p.from_fork,
          waiting: p.waiting_for,
        }))
        const wanted = open.map((p) => ({
          number: p.number,
          head: p.head,
          base: p.base,
          draft: p.draft,
          state: 'open',
          fromFork: p.fromFork,
          waiting: p.fromFork ? 'approval' : null,
        }))
        const byNumber = (a: { number: number }, b: { number: number }) => a.number - b.number
        expect(reported.toSorted(byNumber)).toEqual(wanted.toSorted(byNumber))
        const heads = environments
          .filter((e) => e.type === 'pull_request')
          .map((e) => `${e.identifier} ${e.target_sha}`)
        expect(heads.toSorted()).toEqual(
          open
            .filter((p) => !p.fromFork)
            .map((p) => `pr-${p.number} ${p.head}`)
            .toSorted(),
        )
        if (before) {
          const now = environments.find((e) => e.id === main.id)
          expect(now?.target_sha).toBe(truth.branches.get('main'))
        }
        // the next round finds nothing to do
        const rows = await countLedger()
        await fixture.reconcile()
        expect(await countLedger()).toBe(rows)
      }),
      { numRuns: RUNS, seed: 20_261_115, endOnFailure: true },
    )
  }, 600_000)

  test('at the limit every place is used and everybody else stands in line', async () => {
    await fc.assert(
      fc.asyncProperty(arriving, async ({ arriving: events, truth }) => {
        const { environments, pulls } = await converge(events, truth, LIMIT)
        const open = [...truth.pullRequests.values()].filter((p) => p.state === 'open')
        const own = open.filter((p) => !p.fromFork).length
        const paths = Math.min(own, LIMIT - 1) // one place is taken by the manual environment
        expect(environments.length).toBe(paths + 1)
        const waiting = pulls.filter((p) => p.waiting_for === 'environment_limit')
        expect(waiting.length).toBe(own - paths)
        expect(waiting.map((p) => p.position).toSorted()).toEqual(
          Array.from({ length: own - paths }, (_, i) => i + 1),
        )
      }),
      { numRuns: RUNS, seed: 20_261_116, endOnFailure: true },
    )
  }, 600_000)

  const countLedger = async (): Promise<number> =>
    (
      await fixture.ctx.db
        .selectFrom('deliveries')
        .select('id')
        .where('projectId', '=', fixture.projectId)
        .execute()
    ).length
})
