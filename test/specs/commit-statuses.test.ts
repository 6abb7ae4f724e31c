// What a repository host hears of deployments: statuses on commits, one comment on a pull request; and that nothing a
// host does changes a deployment. On both databases, over real HTTP.
import { HOST_REPORTS } from '@berth/shared'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { updateEnvironment } from '../../control-plane/src/store/environments/environments.ts'
import { findNewestReport } from '../../control-plane/src/store/forges/commit-statuses.ts'
import { RepositoryLab } from '../fixtures/forge/repository.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { until } from '../fixtures/server/installation.ts'

const SHA = 'c'.repeat(40) // what the scripted executor says it checked out

describe.each(ENGINES)('feedback to the host on %s', (engine) => {
  let lab: RepositoryLab
  let environmentId: number
  beforeEach(async () => {
    lab = await RepositoryLab.start(engine)
    // by hand only: the commits of the scripted executor are not those of the repository, and reconcile would see that
    environmentId = (await lab.environment('main', { auto_deploy: false })).id
  })
  afterEach(() => lab.close())

  const statuses = () => lab.host.statuses.map((s) => `${s.state}: ${s.description}`)
  const told = (what: string) =>
    until(`"${what}" at the host`, async () => {
      await lab.report()
      return statuses().includes(what) || undefined
    })
  const newest = (subject = SHA, kind: 'status' | 'comment' = 'status') =>
    findNewestReport(lab.ctx.db, lab.projectId, kind, subject)

  test('the commit says queued, deploying and deployed, with the links', async () => {
    await lab.setToken()
    let go = (): void => {}
    const held = new Promise<void>((resolve) => {
      go = resolve
    })
    lab.platform.executor.script = async (a) => {
      await held
      a.succeed(20_000)
    }
    lab.platform.killAgent()
    const started = await lab.platform.deploy(environmentId, { commit_sha: SHA })
    await told('pending: Waiting for one')
    await lab.platform.startAgent()
    await told('pending: Deploying')
    go()
    const task = await lab.platform.settled(started.body.id)
    await told('success: Deployed: http://127.0.0.1:20000')
    const [first, , last] = lab.host.statuses
    expect(first).toMatchObject({
      sha: SHA,
      context: 'berth/webshop',
      url: `${lab.cp.url}/tasks/${task.id}`,
    })
    expect(last?.url).toBe('http://127.0.0.1:20000')
    expect(lab.host.refused).toEqual([])
  })

  test('a failure names the failed step', async () => {
    await lab.setToken()
    lab.platform.executor.script = (a) => a.fail('`migrate` exited with 3.', 3)
    await lab.deployAndSettle(environmentId, SHA)
    await told('failure: Failed: Play: `migrate` exited with 3.')
  })

  test('a canceled deployment does not stay pending at the host', async () => {
    await lab.setToken()
    lab.platform.killAgent()
    const { body } = await lab.platform.deploy(environmentId, { commit_sha: SHA })
    await lab.cp.call('POST', `/api/tasks/${body.id}/cancel`)
    await told('error: Canceled')
  })

  test('without a token nothing is written and nobody is called', async () => {
    await lab.deployAndSettle(environmentId, SHA)
    await lab.report()
    expect(await newest()).toBeUndefined()
    expect(lab.host.calls).toEqual([])
  })

  test('a host in trouble delays reports, never a deployment; then the newest status alone goes out', async () => {
    await lab.setToken()
    lab.host.trouble = { status: 503, json: {} }
    const task = await lab.deployAndSettle(environmentId, SHA)
    expect(task.status).toBe('succeeded')
    await until('a try', async () => {
      await lab.report()
      return (await newest())?.error ?? undefined
    })
    expect((await newest())?.body).toContain('"success"')
    lab.host.trouble = undefined
    lab.host.calls.length = 0
    await lab.report()
    expect(lab.host.calls).toEqual([]) // not before its time
    await lab.cp.advance(HOST_REPORTS.backoffMs * 4)
    await told('success: Deployed')
    expect(lab.host.statuses).toHaveLength(1)
    expect(await newest()).toMatchObject({ nextAt: null, error: null })
  })

  test('a host that stays away is given up after a bounded number of tries', async () => {
    await lab.setToken()
    lab.host.trouble = { status: 503, json: {} }
    await lab.deployAndSettle(environmentId, SHA)
    await until('the end of the tries', async () => {
      await lab.report()
      await lab.cp.advance(HOST_REPORTS.backoffCapMs + 1)
      return (await newest())?.nextAt === null || undefined
    })
    expect(await newest()).toMatchObject({ nextAt: null, doneAt: null, tries: HOST_REPORTS.tries })
  })

  test('a report that the host refuses does not hold up the others', async () => {
    await lab.setToken()
    lab.platform.killAgent()
    const second = (await lab.environment('second', { auto_deploy: false })).id
    await lab.platform.deploy(environmentId, { commit_sha: 'f'.repeat(64) }) // no commit of this host
    await lab.platform.deploy(second, { commit_sha: SHA })
    await told('pending: Waiting for one')
    await until('the refusal', async () => {
      await lab.report()
      const refused = await newest('f'.repeat(64))
      return refused?.nextAt === null ? refused : undefined
    })
    expect((await newest('f'.repeat(64)))?.error).toContain('refused it (422)')
  })

  test('a token that stopped working is shown at the project', async () => {
    await lab.setToken()
    lab.host.trouble = { status: 401, json: {} }
    await lab.deployAndSettle(environmentId, SHA)
    const error = await until('the error', async () => {
      await lab.report()
      return (await lab.project()).host_token.error ?? undefined
    })
    expect(error).toContain('rejected the token (401)')
    lab.host.trouble = undefined
    await lab.cp.advance(HOST_REPORTS.backoffCapMs)
    await told('success: Deployed')
    expect((await lab.project()).host_token).toMatchObject({ set: true, error: null })
  })

  describe('the comment on a pull request', () => {
    beforeEach(async () => {
      await lab.setToken()
      const { db } = lab.ctx
      await updateEnvironment(db, environmentId, { pullRequestNumber: 42 })
      await db
        .updateTable('projects')
        .set({ commentOnPullRequests: 1 })
        .where('id', '=', lab.projectId)
        .execute()
    })

    test('is made at the first success, edited after, ended with the environment', async () => {
      lab.platform.executor.script = (a) => a.fail('no', 1)
      await lab.deployAndSettle(environmentId, SHA)
      await lab.report()
      expect(lab.host.comments).toEqual([])
      lab.platform.executor.script = (a) => a.succeed(20_000)
      await lab.deployAndSettle(environmentId, SHA)
      const first = await until('a comment', async () => {
        await lab.report()
        return lab.host.comments[0]?.text
      })
      expect(first).toContain(`<!-- berth:env:${environmentId} -->`)
      expect(first).toContain('`webshop/main`** is deployed at `ccccccc`: http://127.0.0.1:20000')
      lab.platform.executor.script = (a) => a.fail('no', 1)
      await lab.deployAndSettle(environmentId, SHA)
      await until('an edit', async () => {
        await lab.report()
        return lab.host.comments[0]?.text.includes('could not be deployed') || undefined
      })
      lab.platform.executor.script = (a) => a.succeed()
      await lab.cp.call('DELETE', `/api/environments/${environmentId}`)
      await until('its end', async () => {
        await lab.report()
        return lab.host.comments[0]?.text.includes('environment removed') || undefined
      })
      expect(lab.host.comments).toHaveLength(1)
      expect(lab.host.refused).toEqual([])
    })

    test('that somebody deleted is made anew', async () => {
      await lab.deployAndSettle(environmentId, SHA)
      await until('a comment', async () => {
        await lab.report()
        return lab.host.comments[0]
      })
      lab.host.comments.length = 0
      await lab.deployAndSettle(environmentId, SHA)
      await until('another comment', async () => {
        await lab.report()
        return lab.host.comments[0]
      })
    })
  })
})
