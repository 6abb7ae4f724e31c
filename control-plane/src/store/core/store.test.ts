// The rules that the database itself enforces on both engines, independently of the code above it.
import { TASK_TYPES } from '@berth/shared'
import { AttemptState, Desired } from '@berth/shared/wire'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ENGINES, openEngine } from '../../../../test/fixtures/platform/engines.ts'
import { findAttempt, insertAttempt, raiseAttempt } from '../deployments/attempts.ts'
import { listTasks, type TaskFilter } from '../deployments/task-history.ts'
import {
  findOpenTask,
  findTask,
  insertTask,
  moveTask,
  type ShownTask,
} from '../deployments/tasks.ts'
import { isUniqueViolation, type OpenDatabase } from '../engine/database.ts'
import { migrate } from '../engine/migrate.ts'
import { insertEnvironment, listEnvironments, takeFence } from '../environments/environments.ts'
import { insertOrganization, insertUser } from '../people/people.ts'
import { insertProject } from '../projects/projects.ts'
import { insertAgent, takeSession, updateUnderEpoch } from '../servers/agents.ts'
import { consumeJoinToken, insertJoinToken, insertServer } from '../servers/servers.ts'

const NOW = 1_800_000_000_000
const OPEN = ['queued', 'running'] as const

describe.each(ENGINES)('store on %s', (engine) => {
  let opened: OpenDatabase
  let ids: { organizationId: number; userId: number; serverId: number; projectId: number }
  let counter = 0
  beforeAll(async () => {
    opened = await openEngine(engine)
    const { db } = opened
    const organizationId = await insertOrganization(db, { name: 'A', slug: 'a', createdAt: NOW })
    const userId = await insertUser(db, { name: 'Ada', email: 'a@x.org', createdAt: NOW })
    const server = { organizationId, name: 's', hostname: 'h', createdAt: NOW }
    const serverId = await insertServer(db, server)
    const projectId = await insertProject(
      db,
      {
        organizationId,
        name: 'p',
        repoUrl: 'https://x.org/p',
        domain: 'p.example.com',
        ownerId: userId,
        defaultRecipe: 'manual',
        defaultBranch: 'main',
        environmentLimit: 20,
        lostAfterMs: 600_000,
        deployKeyPublic: '',
        deployKeySealed: '',
        createdAt: NOW,
        updatedAt: NOW,
      },
      [serverId],
    )
    await insertAgent(db, { id: 'agent', serverId, installId: 'i', joinedAt: NOW })
    ids = { organizationId, userId, serverId, projectId }
  })
  afterAll(() => opened.db.destroy())

  const makeEnvironment = (over: object = {}): Promise<number> => {
    counter += 1
    return insertEnvironment(opened.db, {
      organizationId: ids.organizationId,
      projectId: ids.projectId,
      identifier: `e${counter}`,
      title: 'e',
      type: 'manual',
      branch: 'main',
      domain: `e${counter}.p.example.com`,
      serverId: ids.serverId,
      ownerId: ids.userId,
      createdAt: NOW + counter,
      updatedAt: NOW,
      ...over,
    })
  }
  const makeTask = (
    environmentId: number,
    status: 'queued' | 'running' | 'succeeded' = 'queued',
    createdAt = NOW,
  ) =>
    insertTask(opened.db, {
      ...ids,
      environmentId,
      type: 'deploy',
      status,
      triggerBy: 'api',
      triggeredBy: 'Ada',
      branch: 'main',
      recipe: 'manual',
      createdAt,
    })
  const makeAttempt = async (taskId: number, environmentId: number, id: string, number = 1) =>
    insertAttempt(opened.db, {
      id,
      taskId,
      number,
      agentId: 'agent',
      environmentId,
      fence: await takeFence(opened.db, environmentId),
      state: AttemptState.ASSIGNED,
      desired: Desired.RUNNING,
      variablesRevision: 0,
      createdAt: NOW,
    })

  test('migrations run once, and a database of a newer release is refused', async () => {
    expect(await migrate(opened.db, opened.engine)).toEqual([])
    const other = await openEngine(engine)
    await sql`insert into migrations(name, applied_at) values ('9999-later', 1)`.execute(other.db)
    await expect(migrate(other.db, other.engine)).rejects.toThrow(/newer Berth.*9999-later/)
    await other.db.destroy()
  })

  test('a task belongs to the time it has, also when a later one has an earlier time', async () => {
    const day = 86_400_000
    const environment = await makeEnvironment()
    const add = (at: number) => makeTask(environment, 'succeeded', NOW + at)
    const early = await add(day)
    const mine = await add(2 * day + 500)
    // waited for a lock, so it has a higher id and an earlier time
    await makeTask(await makeEnvironment(), 'succeeded', NOW + 2 * day - 500)
    const late = await add(3 * day)
    const found = async (filter: Partial<TaskFilter>) => {
      const scope = { environmentId: environment }
      return (await listTasks(opened.db, scope, { limit: 9, ...filter })).map(({ id }) => id)
    }
    const since = NOW + 2 * day
    expect(await found({ since })).toEqual([late, mine])
    expect(await found({ until: since + 501 })).toEqual([mine, early])
    expect(await found({ since: NOW + day + 1, until: NOW + 3 * day })).toEqual([mine])
    const status: TaskFilter['status'] = ['succeeded', 'queued']
    expect(await found({ status, since: NOW + 3 * day })).toEqual([late])
  })

  test('one queued and one running deployment per environment, whoever asks how often', async () => {
    const environment = await makeEnvironment()
    const tries = await Promise.allSettled([1, 2, 3, 4].map(() => makeTask(environment)))
    expect(tries.filter((t) => t.status === 'fulfilled')).toHaveLength(1)
    for (const t of tries) {
      if (t.status === 'rejected') expect(isUniqueViolation(t.reason)).toBe(true)
    }
    const first = await findOpenTask(opened.db, environment)
    expect(await moveTask(opened.db, first?.id ?? 0, 'running')).toBe(true)
    const second = await makeTask(environment)
    await expect(moveTask(opened.db, second, 'running')).rejects.toSatisfy(isUniqueViolation)
  })

  test('one live attempt per environment', async () => {
    const environment = await makeEnvironment()
    const task = await makeTask(environment)
    await makeAttempt(task, environment, 'one')
    await expect(makeAttempt(task, environment, 'two', 2)).rejects.toSatisfy(isUniqueViolation)
    await raiseAttempt(opened.db, 'one', AttemptState.REFUSED, {})
    await makeAttempt(task, environment, 'two', 2)
  })

  test('attempts only rise, and what is final stays', async () => {
    const environment = await makeEnvironment()
    await makeAttempt(await makeTask(environment), environment, 'rise')
    const { db } = opened
    expect(await raiseAttempt(db, 'rise', AttemptState.RUNNING, {})).toBe(true)
    expect(await raiseAttempt(db, 'rise', AttemptState.ACCEPTED, {})).toBe(false)
    expect(await raiseAttempt(db, 'rise', AttemptState.SUCCEEDED, {})).toBe(true)
    expect(await raiseAttempt(db, 'rise', AttemptState.FAILED, {})).toBe(false)
    expect((await findAttempt(db, 'rise'))?.state).toBe(AttemptState.SUCCEEDED)
  })

  test('a finished task never changes', async () => {
    const task = await makeTask(await makeEnvironment())
    expect(await moveTask(opened.db, task, 'failed', { finishedAt: NOW })).toBe(true)
    for (const to of ['running', 'succeeded', 'canceled'] as const) {
      expect(await moveTask(opened.db, task, to)).toBe(false)
    }
    expect((await findTask(opened.db, task))?.status).toBe('failed')
  })

  test('fences rise without a repeat, also for parallel takers', async () => {
    const environment = await makeEnvironment()
    const fences = await Promise.all([1, 2, 3, 4, 5].map(() => takeFence(opened.db, environment)))
    expect(fences.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5])
  })

  test('one live agent per server', async () => {
    const again = { id: 'other', serverId: ids.serverId, installId: 'i', joinedAt: NOW }
    await expect(insertAgent(opened.db, again)).rejects.toSatisfy(isUniqueViolation)
  })

  test('the newest session wins, and a superseded one writes nothing', async () => {
    const begin = async (sessionId: string): Promise<number> => {
      const agent = await takeSession(opened.db, 'agent', {
        sessionId,
        replicaId: 'r',
        instanceId: 'i',
        version: '1',
        capabilities: [],
        now: NOW,
      })
      return agent?.sessionEpoch ?? 0
    }
    const first = await begin('a')
    const second = await begin('b')
    expect(second).toBe(first + 1)
    const write = (epoch: number) =>
      updateUnderEpoch(opened.db, 'agent', epoch, { lastSeenAt: NOW })
    expect(await write(first)).toBe(false)
    expect(await write(second)).toBe(true)
  })

  test('a join token is used by exactly one of fifty', async () => {
    const token = { id: 'token', secretHash: 'h', serverId: ids.serverId, createdAt: NOW }
    await insertJoinToken(opened.db, { ...token, expiresAt: NOW + 1 })
    const use = { usedAt: NOW, usedKeyHash: 'k', agentId: 'agent' }
    const uses = await Promise.all(
      Array.from({ length: 50 }, () => consumeJoinToken(opened.db, 'token', use)),
    )
    expect(uses.filter(Boolean)).toHaveLength(1)
  })

  test('sticky first, then manual, then pull requests; the newest first in each', async () => {
    const { db } = opened
    const project = ids.projectId
    await db.updateTable('environments').set({ projectId: project, sticky: 0 }).execute()
    const pr = await makeEnvironment({ type: 'pull_request' })
    const manual = await makeEnvironment()
    const sticky = await makeEnvironment({ type: 'pull_request', sticky: 1 })
    const list = (await listEnvironments(db, project)).map((e) => e.id)
    expect(list[0]).toBe(sticky)
    expect(list[1]).toBe(manual)
    expect(list.at(-1)).toBe(pr)
  })

  test('history by key: pages neither miss nor repeat', async () => {
    const environment = await makeEnvironment()
    const made: number[] = []
    for (let i = 0; i < 5; i++) {
      const id = await makeTask(environment)
      await moveTask(opened.db, id, 'succeeded')
      made.unshift(id)
    }
    const first = await listTasks(opened.db, { environmentId: environment }, { limit: 2 })
    const rest = await listTasks(
      opened.db,
      { environmentId: environment },
      { limit: 9, beforeId: first[1]?.id },
    )
    expect([...first, ...rest].map((t) => t.id)).toEqual(made)
  })

  test('a page is what a look through everything would give', async () => {
    const start = NOW + 30 * 86_400_000 // later than the rows of the other tests
    const [mine, other] = [await makeEnvironment(), await makeEnvironment()]
    const ended = ['succeeded', 'failed', 'canceled', 'failed', 'succeeded'] as const
    const made: ShownTask[] = []
    for (let i = 0; i < 36; i++) {
      const type = TASK_TYPES[i % 3] ?? 'deploy'
      const isLate = i > 30 // one running deployment and one waiting action
      const status = !isLate ? ended[i % 5] : type === 'destroy' ? 'canceled' : OPEN[i % 2]
      const row = { ...ids, type, status: status ?? 'failed', createdAt: start + i * 60_000 }
      const by = { triggerBy: i % 4 ? ('api' as const) : ('webhook' as const), triggeredBy: 'Ada' }
      const environmentId = i % 7 === 0 ? other : mine
      const more = { environmentId, branch: 'main', recipe: 'manual' as const }
      const task = await findTask(
        opened.db,
        await insertTask(opened.db, { ...row, ...by, ...more }),
      )
      if (task?.environmentId === mine) made.unshift(task)
    }
    const filters: Omit<TaskFilter, 'limit'>[] = [
      {},
      { status: [] },
      { types: [] },
      { types: ['deploy'] },
      { types: ['action', 'destroy'], beforeId: made[3]?.id },
      { status: ['queued', 'failed'] },
      { status: ['running'], types: ['action', 'deploy'] },
      { status: ['failed', 'canceled'], since: start + 5 * 60_000, until: start + 33 * 60_000 },
      { trigger: 'webhook', types: ['deploy', 'deploy'] },
      { beforeId: made[0]?.id, until: start + 34 * 60_000, trigger: 'api', status: ['succeeded'] },
    ]
    for (const filter of filters) {
      const { status, types, trigger, since = 0, until = Infinity, beforeId = Infinity } = filter
      const fits = made.filter(
        (t) =>
          (!status?.length || status.includes(t.status)) &&
          (types ?? TASK_TYPES).includes(t.type) &&
          (trigger ?? t.triggerBy) === t.triggerBy &&
          t.createdAt >= since &&
          t.createdAt < until &&
          t.id < beforeId,
      )
      for (const limit of [1, 4, 99]) {
        const page = await listTasks(opened.db, { environmentId: mine }, { ...filter, limit })
        const shown = fits.slice(0, limit).map(({ id, status }) => ({ id, status }))
        expect(
          page.map(({ id, status }) => ({ id, status })),
          JSON.stringify(filter),
        ).toEqual(shown)
      }
    }
  })

  test.runIf(engine === 'postgres')('idle connections may be cut', async () => {
    const { rows } = await sql`select pg_terminate_backend(pid) from pg_stat_activity
      where backend_type = 'client backend' and pid <> pg_backend_pid()
      and datname = current_database()`.execute(opened.db)
    expect(rows.length).toBeGreaterThan(0)
    expect(await findTask(opened.db, 1)).toBeDefined()
  })
})
