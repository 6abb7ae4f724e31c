// Random lives of pull requests, as a forge would report them: in order, duplicated, shuffled, with gaps. No stream may
// break a rule; a complete, ordered one ends in the true state. On both databases.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join as joinPath } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { join } from '../../agent/src/link/identity/join.ts'
import { readSettings } from '../../agent/src/settings.ts'
import { change } from '../../control-plane/src/app/core/transaction.ts'
import { applyEvent } from '../../control-plane/src/app/forges/forge-events.ts'
import type { NormalisedEvent } from '../../control-plane/src/domain/forges/payloads/event.ts'
import { lockProject } from '../../control-plane/src/store/projects/projects.ts'
import { makeHost } from '../fixtures/forge/webhook-sender.ts'
import { type Disturbance, disturbed, eventStreams } from '../fixtures/forge/webhook-streams.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'

const FULL = process.env.BERTH_FULL === '1'

describe.each(ENGINES)('streams of events on %s', (engine) => {
  const RUNS = FULL ? 1_000 : engine === 'sqlite' ? 30 : 8
  const agentDir = mkdtempSync(joinPath(tmpdir(), 'berth-agent-'))
  let cp: TestControlPlane
  let serverId = 0
  let made = 0
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    serverId = (await cp.server()).id
    // joined but offline: everything is queued, nothing runs
    const settings = readSettings({ BERTH_STATE_DIR: agentDir, BERTH_DEV: '1' })
    await join(settings, { url: cp.url, token: await cp.joinToken(serverId), force: false })
  })
  afterAll(async () => {
    await cp.close()
    rmSync(agentDir, { recursive: true, force: true })
  })

  async function newProject(limit: number): Promise<number> {
    made += 1
    const name = `stream-${made}`
    const over = { name, domain: `${name}.example.com`, default_recipe: 'docker' }
    const { projectId } = await makeHost(cp, serverId, over)
    await cp.call('PUT', `/api/projects/${projectId}/environment_limit`, { limit })
    return projectId
  }

  const apply = (projectId: number, event: NormalisedEvent) =>
    change(cp.running.ctx, async (c) => {
      const project = await lockProject(c.db, projectId)
      if (!project) throw new Error('no project')
      const by = { type: 'webhook', name: 'ada', deliveryId: 1 } as const
      return applyEvent(cp.running.ctx, c, project, event, {
        by,
        trigger: 'webhook',
        origin: 'event',
      })
    })

  async function state(projectId: number) {
    const { db } = cp.running.ctx
    const environments = await db
      .selectFrom('environments')
      .selectAll()
      .where('projectId', '=', projectId)
      .where('removedAt', 'is', null)
      .execute()
    const pulls = await db
      .selectFrom('pullRequests')
      .selectAll()
      .where('projectId', '=', projectId)
      .execute()
    const approvals = await db.selectFrom('approvals').selectAll().execute()
    return { environments, pulls, approvals }
  }

  /** What must hold after every single event. */
  async function check(projectId: number, limit: number): Promise<void> {
    const { environments, pulls, approvals } = await state(projectId)
    expect(environments.length).toBeLessThanOrEqual(limit)
    const line = pulls.filter((pr) => pr.waitingFor === 'environment_limit')
    if (line.length > 0) expect(environments.length).toBe(limit)
    for (const environment of environments) {
      const pull = pulls.find((pr) => pr.number === environment.pullRequestNumber)
      // no environment without an open pull request, and none of a fork without approval
      expect(pull?.state).toBe('open')
      expect(pull?.environmentId).toBe(environment.id)
      expect(approvals.length).toBe(0)
      expect(environment.fromFork).toBe(0)
    }
    for (const pull of pulls) {
      if (pull.waitingFor === null) continue
      expect(pull.state).toBe('open')
      expect(pull.waitingSince).not.toBeNull()
      const own = environments.some((e) => e.pullRequestNumber === pull.number)
      if (pull.waitingFor === 'environment_limit') expect(own).toBe(false)
    }
  }

  const each = (o: Disturbance, forks: boolean, limit: number) =>
    fc.assert(
      fc.asyncProperty(disturbed(eventStreams({ forks }), o), async ({ arriving, truth }) => {
        const projectId = await newProject(limit)
        for (const event of arriving) {
          await apply(projectId, event)
          await check(projectId, limit)
        }
        if (o.dropped) return
        // nothing was lost, so the final state of every pull request is known in any order of arrival
        const { pulls, environments } = await state(projectId)
        for (const pr of truth.pullRequests.values()) {
          expect(pulls.find((row) => row.number === pr.number)?.state).toBe(pr.state)
        }
        if (o.shuffle || forks || limit < 10) return
        const open = [...truth.pullRequests.values()].filter((pr) => pr.state === 'open')
        expect(environments.map((e) => [e.pullRequestNumber, e.targetSha]).toSorted()).toEqual(
          open.map((pr) => [pr.number, pr.head]).toSorted(),
        )
      }),
      { numRuns: RUNS, endOnFailure: true },
    )

  test('in order, some twice: the end is what is true', () => each({ doubled: 30 }, false, 20))
  test('in order, at a limit of two, with forks', () => each({ doubled: 10 }, true, 2))
  test('shuffled and doubled: nothing breaks, and the states are right', () =>
    each({ shuffle: true, doubled: 30 }, true, 2))
  test('shuffled, doubled, a third lost: nothing breaks', () =>
    each({ shuffle: true, doubled: 30, dropped: 30 }, true, 2))
})
