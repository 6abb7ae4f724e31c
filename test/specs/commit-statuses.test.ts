// What a forge receives about deployments: statuses on commits and one comment on a pull request. No failure of a forge
// changes a deployment. On both databases, over real HTTP.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { COMMIT_STATUSES } from '../../control-plane/src/limits/forges.ts'
import { updateEnvironment } from '../../control-plane/src/store/environments/environments.ts'
import { findNewestReport } from '../../control-plane/src/store/forges/commit-statuses.ts'
import { RepositoryFixture } from '../fixtures/forge/repository.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { until } from '../fixtures/server/installation.ts'

const SHA = 'c'.repeat(40) // the commit that the scripted executor reports

describe.each(ENGINES)('feedback to the host on %s', (engine) => {
  let fixture: RepositoryFixture
  let environmentId: number
  beforeEach(async () => {
    fixture = await RepositoryFixture.start(engine)
    // manual only: the scripted executor's commits are not in the repository, and reconcile would notice
    environmentId = (await fixture.environment('main', { auto_deploy: false })).id
  })
  afterEach(() => fixture.close())

  const statuses = () => fixture.host.statuses.map((s) => `${s.state}: ${s.description}`)
  const reported = (what: string) =>
    until(`"${what}" at the host`, async () => {
      await fixture.report()
      return statuses().includes(what) || undefined
    })
  const newest = (subject = SHA, kind: 'status' | 'comment' = 'status') =>
    findNewestReport(fixture.ctx.db, fixture.projectId, kind, subject)

  test('the commit says queued, deploying and deployed, with the links', async () => {
    await fixture.setToken()
    let go = (): void => {}
    const held = new Promise<void>((resolve) => {
      go = resolve
    })
    fixture.platform.executor.script = async (a) => {
      await held
      a.succeed(20_000)
    }
    fixture.platform.killAgent()
    const started = await fixture.platform.deploy(environmentId, { commit_sha: SHA })
    await reported('pending: Waiting for one')
    await fixture.platform.startAgent()
    await reported('pending: Deploying')
    go()
    const task = await fixture.platform.settled(started.body.id)
    await reported('success: Deployed: http://127.0.0.1:20000')
    const [first, , last] = fixture.host.statuses
    expect(first).toMatchObject({
      sha: SHA,
      context: 'berth/webshop',
      url: `${fixture.cp.url}/tasks/${task.id}`,
    })
    expect(last?.url).toBe('http://127.0.0.1:20000')
    expect(fixture.host.refused).toEqual([])
  })

  test('a failure names the failed step', async () => {
    await fixture.setToken()
    fixture.platform.executor.script = (a) => a.fail('`migrate` exited with 3.', 3)
    await fixture.deployAndWait(environmentId, SHA)
    await reported('failure: Failed: Play: `migrate` exited with 3.')
  })

  test('a canceled deployment does not stay pending at the host', async () => {
    await fixture.setToken()
    fixture.platform.killAgent()
    const { body } = await fixture.platform.deploy(environmentId, { commit_sha: SHA })
    await fixture.cp.call('POST', `/api/tasks/${body.id}/cancel`)
    await reported('error: Canceled')
  })

  test('without a token nothing is written and nobody is called', async () => {
    await fixture.deployAndWait(environmentId, SHA)
    await fixture.report()
    expect(await newest()).toBeUndefined()
    expect(fixture.host.calls).toEqual([])
  })

  test('a host in trouble delays reports, never a deployment; then the newest status alone goes out', async () => {
    await fixture.setToken()
    fixture.host.trouble = { status: 503, json: {} }
    const task = await fixture.deployAndWait(environmentId, SHA)
    expect(task.status).toBe('succeeded')
    await until('a try', async () => {
      await fixture.report()
      return (await newest())?.error ?? undefined
    })
    expect((await newest())?.body).toContain('"success"')
    fixture.host.trouble = undefined
    fixture.host.calls.length = 0
    await fixture.report()
    expect(fixture.host.calls).toEqual([]) // not before its back-off ends
    await fixture.cp.advance(COMMIT_STATUSES.backoffMs * 4)
    await reported('success: Deployed')
    expect(fixture.host.statuses).toHaveLength(1)
    expect(await newest()).toMatchObject({ nextAt: null, error: null })
  })

  test('a host that stays away is given up after a bounded number of tries', async () => {
    await fixture.setToken()
    fixture.host.trouble = { status: 503, json: {} }
    await fixture.deployAndWait(environmentId, SHA)
    await until('the end of the tries', async () => {
      await fixture.report()
      await fixture.cp.advance(COMMIT_STATUSES.backoffCapMs + 1)
      return (await newest())?.nextAt === null || undefined
    })
    expect(await newest()).toMatchObject({
      nextAt: null,
      doneAt: null,
      tries: COMMIT_STATUSES.tries,
    })
  })

  test('a report that the host refuses does not hold up the others', async () => {
    await fixture.setToken()
    fixture.platform.killAgent()
    const second = (await fixture.environment('second', { auto_deploy: false })).id
    await fixture.platform.deploy(environmentId, { commit_sha: 'f'.repeat(64) }) // not a commit of this forge
    await fixture.platform.deploy(second, { commit_sha: SHA })
    await reported('pending: Waiting for one')
    await until('the refusal', async () => {
      await fixture.report()
      const refused = await newest('f'.repeat(64))
      return refused?.nextAt === null ? refused : undefined
    })
    expect((await newest('f'.repeat(64)))?.error).toContain('refused it (422)')
  })

  test('a token that stopped working is shown at the project', async () => {
    await fixture.setToken()
    fixture.host.trouble = { status: 401, json: {} }
    await fixture.deployAndWait(environmentId, SHA)
    const error = await until('the error', async () => {
      await fixture.report()
      return (await fixture.project()).host_token.error ?? undefined
    })
    expect(error).toContain('rejected the token (401)')
    fixture.host.trouble = undefined
    await fixture.cp.advance(COMMIT_STATUSES.backoffCapMs)
    await reported('success: Deployed')
    expect((await fixture.project()).host_token).toMatchObject({ set: true, error: null })
  })

  describe('the comment on a pull request', () => {
    beforeEach(async () => {
      await fixture.setToken()
      const { db } = fixture.ctx
      await updateEnvironment(db, environmentId, { pullRequestNumber: 42 })
      await db
        .updateTable('projects')
        .set({ commentOnPullRequests: 1 })
        .where('id', '=', fixture.projectId)
        .execute()
    })

    test('is made at the first success, edited after, ended with the environment', async () => {
      fixture.platform.executor.script = (a) => a.fail('no', 1)
      await fixture.deployAndWait(environmentId, SHA)
      await fixture.report()
      expect(fixture.host.comments).toEqual([])
      fixture.platform.executor.script = (a) => a.succeed(20_000)
      await fixture.deployAndWait(environmentId, SHA)
      const first = await until('a comment', async () => {
        await fixture.report()
        return fixture.host.comments[0]?.text
      })
      expect(first).toContain(`<!-- berth:env:${environmentId} -->`)
      expect(first).toContain('`webshop/main`** is deployed at `ccccccc`: http://127.0.0.1:20000')
      fixture.platform.executor.script = (a) => a.fail('no', 1)
      await fixture.deployAndWait(environmentId, SHA)
      await until('an edit', async () => {
        await fixture.report()
        return fixture.host.comments[0]?.text.includes('could not be deployed') || undefined
      })
      fixture.platform.executor.script = (a) => a.succeed()
      await fixture.cp.call('DELETE', `/api/environments/${environmentId}`)
      await until('its end', async () => {
        await fixture.report()
        return fixture.host.comments[0]?.text.includes('environment removed') || undefined
      })
      expect(fixture.host.comments).toHaveLength(1)
      expect(fixture.host.refused).toEqual([])
    })

    test('that somebody deleted is made anew', async () => {
      await fixture.deployAndWait(environmentId, SHA)
      await until('a comment', async () => {
        await fixture.report()
        return fixture.host.comments[0]
      })
      fixture.host.comments.length = 0
      await fixture.deployAndWait(environmentId, SHA)
      await until('another comment', async () => {
        await fixture.report()
        return fixture.host.comments[0]
      })
    })
  })
})
