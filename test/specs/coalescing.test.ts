// Many events, few deployments: repeated deliveries, pushes faster than servers, a control plane that crashes in
// between. The full counts run with BERTH_FULL=1; the rules are the same. On both databases.
import type { Environment, Task } from '@berth/shared/api'
import { AttemptState, Desired, FailureCode } from '@berth/shared/wire'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { recordDelivery } from '../../control-plane/src/app/forges/delivery-queue.ts'
import { type Host, makeHost, sha } from '../fixtures/forge/webhook-sender.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

const FULL = process.env.BERTH_FULL === '1'
const COPIES = FULL ? 10_000 : 200
const PUSHES = FULL ? 500 : 60
const AT_ONCE = 25

/** Runs all of them with limited concurrency. */
async function inParallel(count: number, one: (i: number) => Promise<unknown>): Promise<void> {
  let next = 0
  const lane = async () => {
    while (next < count) await one(next++)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
}

describe.each(ENGINES)('coalescing on %s', (engine) => {
  let p: Platform
  let h: Host
  let environment: Environment
  beforeEach(async () => {
    p = await Platform.start(engine)
    h = await makeHost(p.cp, p.serverId)
    environment = await p.cp.environment(h.projectId, 'main')
  })
  afterEach(() => p.close())

  /** All tasks, oldest first, page by page. */
  const history = async (): Promise<Task[]> => {
    const all: Task[] = []
    let path = `/api/environments/${environment.id}/tasks?type=all&per_page=100`
    while (path !== '') {
      const page = await p.cp.call<Task[]>('GET', path)
      all.push(...page.body)
      const next = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1] ?? ''
      path = next.replace(p.cp.url, '')
    }
    return all.toReversed()
  }
  const idle = () =>
    until('nothing to be left', async () => {
      const tasks = await history()
      return tasks.every((t) => t.finished_at !== null) ? tasks : undefined
    })

  test('a protected environment is never deployed automatically, not even by what was queued before', async () => {
    const sent: number[] = []
    p.executor.script = (a) => {
      sent.push(Number(a.assignment.taskId))
      a.succeed()
    }
    const { id } = environment
    const pause = (paused: boolean) => p.cp.call('PATCH', `/api/servers/${p.serverId}`, { paused })
    await pause(true)
    const [queued = 0] = (await h.push('main', sha(1))).body.task_ids
    await p.cp.call('PATCH', `/api/environments/${id}`, { protected: true })
    await pause(false)
    expect(await p.settled(queued)).toMatchObject({
      status: 'canceled',
      warnings: [{ code: 'environment_protected' }],
    })
    const byHand = await p.cp.make<Task>(`/api/environments/${id}/tasks`)
    expect((await p.settled(byHand.id)).status).toBe('succeeded')
    expect(sent).toEqual([byHand.id])
    // a superseded task that had no successor yet names it once there is one
    const withdrawn = await p.settled(queued)
    expect([withdrawn.cancel_reason, withdrawn.superseded_by]).toEqual(['superseded', byHand.id])
  })

  test(`${COPIES} copies of one delivery: one task`, async () => {
    const rules = new Map<string, number>()
    await inParallel(COPIES, async () => {
      const answer = await h.push('main', sha(1), { id: 'the-same' })
      expect(answer.status).toBe(202)
      const rule = answer.body.rule ?? 'undecided'
      rules.set(rule, (rules.get(rule) ?? 0) + 1)
    })
    await until('every row to be decided', async () => {
      const open = await p.cp.running.ctx.db
        .selectFrom('deliveries')
        .select('id')
        .where('decidedAt', 'is', null)
        .execute()
      return open.length === 0 ? true : undefined
    })
    expect((await idle()).length).toBe(1)
    expect(Object.fromEntries(rules)).toEqual({ redeployed: 1, duplicate: COPIES - 1 })
  })

  test(`${PUSHES} pushes while one deploys: at most two deployments, the last one wins`, async () => {
    const gate = Promise.withResolvers<void>()
    const played: string[] = []
    p.executor.script = async (a) => {
      played.push(a.assignment.spec?.repository?.commitSha ?? '')
      await gate.promise
      a.succeed()
    }
    await h.push('main', sha(1))
    await until('it to run', async () =>
      (await history())[0]?.status === 'running' ? 1 : undefined,
    )
    for (let n = 2; n <= PUSHES; n++) {
      const { rule } = (await h.push('main', sha(n), { before: sha(n - 1) })).body
      // a look at the branch, due half a minute after an event, may find the commit before its delivery
      const first = n === 2 ? 'queued_behind_running' : 'superseded_queued'
      expect([first, 'already_deployed']).toContain(rule)
      const path = `/api/environments/${environment.id}/tasks?status=running&status=queued`
      const open = (await p.cp.call<Task[]>('GET', path)).body
      expect(open.map((t) => t.status)).toEqual(['queued', 'running'])
    }
    gate.resolve()
    const tasks = await idle()
    expect(played).toEqual([sha(1), sha(PUSHES)])
    const superseded = tasks.filter((t) => t.status === 'canceled')
    expect(superseded.length).toBe(PUSHES - 2)
    for (const task of superseded) {
      expect(task.cancel_reason).toBe('superseded')
      expect(task.superseded_by).toBeGreaterThan(task.id)
    }
    const shown = await h.environment('main')
    expect(shown).toMatchObject({ commit_sha: sha(PUSHES), target_sha: sha(PUSHES) })
  }, 300_000)

  test('pushes at once from several sides never leave more than one running and one queued', async () => {
    let running = 0
    let most = 0
    p.executor.script = (a) => {
      running += 1
      most = Math.max(most, running)
      running -= 1
      a.succeed()
    }
    await inParallel(PUSHES, (i) => h.push('main', sha(i + 1)))
    await until('every row to be decided', async () => {
      const { db } = p.cp.running.ctx
      const open = await db
        .selectFrom('deliveries')
        .select('id')
        .where('decidedAt', 'is', null)
        .execute()
      return open.length === 0 ? true : undefined
    })
    await idle()
    expect(most).toBe(1)
    const after = await h.environment('main')
    expect(after?.commit_sha).toBe(after?.target_sha)
  }, 300_000)

  test('a person and a push at once: one of them gets the place, the other its own answer', async () => {
    for (let n = 1; n <= 10; n++) {
      const [person, push] = await Promise.all([p.deploy(environment.id), h.push('main', sha(n))])
      expect([201, 409]).toContain(person.status)
      expect(push.status).toBe(202)
      await idle()
    }
    const { db } = p.cp.running.ctx
    const undecided = await db
      .selectFrom('deliveries')
      .select('id')
      .where('decidedAt', 'is', null)
      .execute()
    expect(undecided).toEqual([])
  })

  test('the control plane dies between ledger row and decision: decided once after the start', async () => {
    const push = h.sign(
      'github',
      { 'x-github-event': 'push' },
      {
        ref: 'refs/heads/main',
        before: sha(0),
        after: sha(1),
        commits: [],
        repository: {
          id: 4_711,
          full_name: 'acme/shop',
          html_url: 'https://git.example.com/acme/shop',
        },
      },
      { id: 'before-the-end' },
    )
    h.refs.set('refs/heads/main', sha(1))
    // the first half of what the gateway does, then a crash
    const id = await recordDelivery(p.cp.running.ctx, {
      projectId: h.projectId,
      provider: 'github',
      headers: push.headers,
      body: Buffer.from(push.body),
      isForm: false,
      verified: { signedWith: 'previous', currentSealed: null },
    })
    expect((await h.deliveries())[0]).toMatchObject({ id, outcome: 'received', task_ids: [] })
    await p.restartControlPlane()
    await p.cp.advance(5_000)
    const decided = await until('the decision', async () => {
      const [row] = await h.deliveries()
      return row?.outcome === 'queued' ? row : undefined
    })
    expect(decided).toMatchObject({ id, rule: 'redeployed', tries: 1 })
    await p.cp.advance(60_000)
    expect((await idle()).length).toBe(1)
    const again = await h.push('main', sha(1), { id: 'before-the-end' })
    expect(again.body.rule).toBe('duplicate')
  })

  test('while the server is away only the newest of many waits for it', async () => {
    p.killAgent()
    await until('it to be offline', async () => {
      const server = await p.cp.call('GET', `/api/servers/${p.serverId}`)
      return server.body.status === 'online' ? undefined : true
    })
    expect((await h.push('main', sha(1))).body.rule).toBe('redeployed')
    expect((await h.push('main', sha(2))).body.rule).toBe('superseded_queued')
    expect((await h.push('main', sha(1))).body.rule).toBe('superseded_queued') // A, B, A
    await p.startAgent()
    const tasks = await idle()
    expect(tasks.map((t) => t.status)).toEqual(['canceled', 'canceled', 'succeeded'])
    expect((await h.environment('main'))?.commit_sha).toBe(sha(1))
  })
})

describe.each(ENGINES)('sent and not started on %s', (engine) => {
  let cp: TestControlPlane
  let agent: WireAgent
  let h: Host
  beforeEach(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    const serverId = (await cp.server()).id
    agent = await WireAgent.join(cp, serverId)
    h = await makeHost(cp, serverId)
  })
  afterEach(async () => {
    agent.close()
    await cp.close()
  })

  test('a deployment that lies on its server and has not begun is replaced; the newest follows its end', async () => {
    const environment = await cp.environment(h.projectId, 'main')
    const session = await agent.active()
    await h.push('main', sha(1))
    const [first] = await session.assignments()
    if (!first) throw new Error('nothing was assigned')
    const { attemptId, fence } = first
    const says = (state: AttemptState, code: FailureCode = FailureCode.UNSPECIFIED) =>
      session.event({ attemptId, fence, body: { case: 'attempt', value: { state, code } } })
    says(AttemptState.ACCEPTED)
    await session.next('eventAck')
    expect((await h.push('main', sha(2))).body.rule).toBe('superseded_queued')
    const [stopped] = await session.assignments()
    expect(stopped).toMatchObject({ attemptId, desired: Desired.STOPPED })
    expect((await h.push('main', sha(3))).body.rule).toBe('superseded_queued')
    const open = async () =>
      (await h.tasks(environment.id)).map((t) => [t.status, t.commit_sha, t.cancel_reason])
    expect(await open()).toEqual([
      ['queued', sha(3), null],
      ['canceled', sha(2), 'superseded'],
      ['queued', sha(1), 'superseded'],
    ])
    says(AttemptState.REFUSED, FailureCode.NOT_STARTED)
    const next = await until('the newest commit', async () =>
      (await session.assignments()).find((a) => a.spec?.repository?.commitSha === sha(3)),
    )
    expect(next.desired).toBe(Desired.RUNNING)
    expect((await open()).at(-1)).toEqual(['canceled', sha(1), 'superseded'])
    const [newest, second, oldest] = await h.tasks(environment.id)
    expect([newest?.superseded_by, second?.superseded_by, oldest?.superseded_by]).toEqual([
      null,
      newest?.id,
      second?.id,
    ])
  })
})
