// The specification's table "Behaviours that are shown", with its rows as titles, tested from outside on the whole
// system; and the life of pull requests around it. On both databases.
import type { Environment, ProjectCreated, Task } from '@berth/shared/api'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { join } from '../../agent/src/link/identity/join.ts'
import { readSettings } from '../../agent/src/settings.ts'
import { Host, makeHost, sha } from '../fixtures/forge/webhook-sender.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { until } from '../fixtures/server/installation.ts'

describe.each(ENGINES)('pull requests on %s', (engine) => {
  let p: Platform
  let h: Host
  beforeEach(async () => {
    p = await Platform.start(engine)
    h = await makeHost(p.cp, p.serverId)
  })
  afterEach(() => p.close())

  const gone = (identifier: string) =>
    until(`${identifier} to go`, async () =>
      (await h.environment(identifier)) === undefined ? true : undefined,
    )
  const settledAll = async () => {
    for (const environment of await h.environments()) {
      for (const task of await h.tasks(environment.id)) await p.settled(task.id)
    }
  }
  const patch = (path: string, body: object) => p.cp.call('PATCH', path, body)

  describe('behaviours that are shown', () => {
    test('Pull request opened, project has fewer environments than its limit: a pull-request environment is created and deployed', async () => {
      const seen: { ref?: string; sha?: string; untrusted?: boolean } = {}
      p.executor.script = (a) => {
        const { repository, environment } = a.assignment.spec ?? {}
        Object.assign(seen, {
          ref: repository?.ref,
          sha: repository?.commitSha,
          untrusted: environment?.untrusted,
        })
        a.succeed()
      }
      const answer = await h.opened({ number: 42, title: 'Checkout v2', head: sha(1) })
      expect(answer.body).toMatchObject({ outcome: 'queued', rule: 'environment_created' })
      const [taskId] = answer.body.task_ids
      const task = await p.settled(taskId ?? 0)
      expect(task).toMatchObject({
        status: 'succeeded',
        trigger: 'webhook',
        triggered_by: { id: null, name: 'ada' },
        delivery_id: answer.body.delivery,
        commit_sha: sha(1),
      })
      expect(seen).toEqual({ ref: 'refs/pull/42/head', sha: sha(1), untrusted: false })
      const environment = await h.environment('pr-42')
      expect(environment).toMatchObject({
        type: 'pull_request',
        title: 'Checkout v2',
        domain: 'pr-42.preview.example.com',
        branch: 'feature-42',
        status: 'running',
        commit_sha: sha(1),
        owner: { name: 'Ada' },
        pull_request: { number: 42, state: 'open', head_sha: sha(1), approval: 'not_needed' },
      })
    })

    test('Pull request opened, project is at its environment limit: no environment is created until one is deleted', async () => {
      await p.cp.call('PUT', `/api/projects/${h.projectId}/environment_limit`, { limit: 1 })
      const manual = await p.cp.environment(h.projectId, 'staging')
      const answer = await h.opened({ number: 1, head: sha(1) })
      expect(answer.body).toMatchObject({ outcome: 'waiting', rule: 'environment_limit_reached' })
      expect((await h.environments()).map((e) => e.identifier)).toEqual(['staging'])
      expect(await h.pullRequests()).toMatchObject([
        { number: 1, waiting_for: 'environment_limit', position: 1, environment_id: null },
      ])
      expect((await p.cp.call('DELETE', `/api/environments/${manual.id}`)).status).toBe(202)
      const made = await until('the place', () => h.environment('pr-1'))
      const [task] = await h.tasks(made.id)
      expect(task).toMatchObject({ trigger: 'system', commit_sha: sha(1) })
      expect(await h.pullRequests()).toMatchObject([{ waiting_for: null, position: null }])
    })

    test('Push to tracked branch or pull-request branch, auto-deploy on push enabled and environment not protected: environment is redeployed', async () => {
      const staging = await p.cp.environment(h.projectId, 'staging', { branch: 'main' })
      await h.opened({ number: 7, head: sha(1), branch: 'cart' })
      await settledAll()
      const toMain = await h.push('main', sha(2))
      expect(toMain.body).toMatchObject({ outcome: 'queued', rule: 'redeployed' })
      const toBranch = await h.push('cart', sha(3), { before: sha(1) })
      expect(toBranch.body).toMatchObject({ outcome: 'queued', rule: 'redeployed' })
      await settledAll()
      const shown = await p.cp.call<Environment>('GET', `/api/environments/${staging.id}`)
      expect(shown.body.commit_sha).toBe(sha(2))
      expect(await h.environment('pr-7')).toMatchObject({ commit_sha: sha(3) })
      // the pull request's event for the same push causes no second deployment
      const same = await h.updated({ number: 7, head: sha(3), branch: 'cart' })
      expect(same.body.task_ids).toEqual([])
    })

    test('Push or webhook event, environment protected: no automatic deployment; protection takes priority over auto-deploy on push', async () => {
      const path = `/api/environments/${(await p.cp.environment(h.projectId, 'live', { protected: true, auto_deploy: true })).id}`
      const answer = await h.push('main', sha(1))
      expect(answer.body).toMatchObject({ outcome: 'ignored', rule: 'environment_protected' })
      expect((await p.cp.call(`GET`, `${path}/tasks`)).text).toBe('[]')
      await patch(path, { protected: false })
      await patch(path, { auto_deploy: false })
      expect((await h.push('main', sha(2))).body.rule).toBe('auto_deploy_off')
      await patch(path, { auto_deploy: true })
      expect((await h.push('main', sha(3))).body.rule).toBe('redeployed')
    })

    test('Pull request merged, pull-request environment exists: environment is removed', async () => {
      await h.opened({ number: 3, head: sha(1) })
      await settledAll()
      const id = (await h.environment('pr-3'))?.id ?? 0
      const answer = await h.merged({ number: 3, head: sha(1) })
      expect(answer.body).toMatchObject({ outcome: 'queued', rule: 'pull_request_merged' })
      await gone('pr-3')
      const [taskId] = answer.body.task_ids
      expect(await p.task(taskId ?? 0)).toMatchObject({ type: 'destroy', trigger: 'webhook' })
      expect((await p.cp.call('GET', `/api/environments/${id}`)).status).toBe(404)
      expect(await h.pullRequests()).toEqual([])
    })

    test('Project deletion: events change nothing any more', async () => {
      await h.opened({ number: 3, head: sha(1) })
      await settledAll()
      p.killAgent()
      await p.cp.call('DELETE', `/api/projects/${h.projectId}?confirm=preview`)
      const answer = await h.opened({ number: 4, head: sha(2) })
      expect(answer.body).toMatchObject({ outcome: 'ignored', rule: 'project_deleting' })
    })
  })

  test('the lock holds when the running deployment came from a webhook, and people get 409 meanwhile', async () => {
    const resolving = Promise.withResolvers<void>()
    const gate = Promise.withResolvers<void>()
    p.executor.script = async (a) => {
      await resolving.promise
      const commitSha = a.assignment.spec?.repository?.commitSha ?? ''
      a.emit({ case: 'commit', value: { commitSha, subject: 'Resolved late' } })
      await gate.promise
      a.succeed()
    }
    await h.opened({ number: 5, head: sha(1) })
    const environment = await until('it to run', async () => {
      const found = await h.environment('pr-5')
      return found?.locked_by?.status === 'running' ? found : undefined
    })
    const behind = await h.updated({ number: 5, head: sha(2) })
    expect(behind.body.rule).toBe('queued_behind_running')
    const refused = await p.deploy(environment.id)
    expect((refused.body as unknown as { code: string }).code).toBe('deployment_in_progress')
    const [queued] = await h.tasks(environment.id)
    expect(queued).toMatchObject({
      status: 'queued',
      waiting_for: { code: 'environment', task_id: environment.locked_by?.task_id },
    })
    // a late result of the running deployment does not change the latest request
    resolving.resolve()
    await until('the commit', async () => {
      const running = (await h.tasks(environment.id)).at(-1)
      return running?.commit_message === 'Resolved late' ? true : undefined
    })
    expect((await h.environment('pr-5'))?.target_sha).toBe(sha(2))
    gate.resolve()
    await settledAll()
    const after = await h.environment('pr-5')
    expect(after).toMatchObject({ locked: false, commit_sha: sha(2), target_sha: sha(2) })
  })

  test('closed while it deploys: the deployment is stopped, then the environment goes', async () => {
    p.executor.script = async (a) => {
      if (a.assignment.spec?.kind.case === 'destroy') return a.succeed()
      await a.stopAsked()
      a.cancel()
    }
    await h.opened({ number: 6, head: sha(1) })
    const id = (await h.environment('pr-6'))?.id ?? 0
    await until('it to run', async () =>
      (await h.tasks(id))[0]?.status === 'running' ? 1 : undefined,
    )
    await h.closed({ number: 6, head: sha(1) })
    await gone('pr-6')
    const { db } = p.cp.running.ctx
    const rows = await db
      .selectFrom('tasks')
      .selectAll()
      .where('environmentId', '=', id)
      .orderBy('id')
      .execute()
    expect(rows.map((t) => [t.type, t.status, t.cancelReason])).toEqual([
      ['deploy', 'canceled', 'environment_removed'],
      ['destroy', 'succeeded', null],
    ])
  })

  test('reopened gets a new environment; reopened while it is being removed waits for the end', async () => {
    await h.opened({ number: 8, head: sha(1) })
    await settledAll()
    const first = (await h.environment('pr-8'))?.id
    const gate = Promise.withResolvers<void>()
    p.executor.script = async (a) => {
      if (a.assignment.spec?.kind.case === 'destroy') await gate.promise
      a.succeed()
    }
    await h.closed({ number: 8, head: sha(1) })
    const waits = await h.reopened({ number: 8, head: sha(2) })
    expect(waits.body).toMatchObject({ outcome: 'waiting', rule: 'environment_removing' })
    expect((await h.pullRequests())[0]?.waiting_for).toBe('environment_removing')
    gate.resolve()
    const second = await until('a new one', async () => {
      const found = await h.environment('pr-8')
      return found && found.id !== first ? found : undefined
    })
    expect((await h.tasks(second.id))[0]).toMatchObject({ trigger: 'system', commit_sha: sha(2) })
  })

  test('a protected environment never goes by a webhook, also after its protection was lifted', async () => {
    await h.opened({ number: 9, head: sha(1) })
    await settledAll()
    const path = `/api/environments/${(await h.environment('pr-9'))?.id}`
    await patch(path, { protected: true })
    const merged = await h.merged({ number: 9, head: sha(1) })
    expect(merged.body).toMatchObject({ outcome: 'applied', rule: 'environment_protected' })
    expect(await h.environment('pr-9')).toMatchObject({ pull_request: { state: 'merged' } })
    await patch(path, { protected: false })
    const again = await h.merged({ number: 9, head: sha(1) })
    expect(again.body).toMatchObject({ outcome: 'ignored', rule: 'pull_request_closed' })
    expect(await h.environment('pr-9')).toBeDefined()
    expect((await p.cp.call('DELETE', path)).status).toBe(202)
    await gone('pr-9')
  })

  test('an old event never undoes a newer one, also when it is redelivered', async () => {
    const closed = await h.closed({ number: 10, head: sha(1), at: 1_794_700_100 })
    expect(closed.body.rule).toBe('no_environment')
    const reopened = await h.reopened({ number: 10, head: sha(1), at: 1_794_700_200 })
    expect(reopened.body.rule).toBe('environment_created')
    const late = await h.closed({ number: 10, head: sha(1), at: 1_794_700_150 })
    expect(late.body).toMatchObject({ outcome: 'ignored', rule: 'stale_event' })
    const replay = await p.cp.call('POST', `/api/deliveries/${closed.body.delivery}/redeliver`)
    expect(replay.body).toMatchObject({ rule: 'stale_event', replay_of: closed.body.delivery })
    expect(await h.environment('pr-10')).toBeDefined()
  })

  test('a redelivery decides the stored event against today’s state, and twice changes nothing more', async () => {
    await p.cp.call('PATCH', `/api/projects/${h.projectId}`, { pull_request_environments: false })
    const first = await h.opened({ number: 11, head: sha(1) })
    expect(first.body.rule).toBe('previews_disabled')
    await p.cp.call('PATCH', `/api/projects/${h.projectId}`, { pull_request_environments: true })
    const path = `/api/deliveries/${first.body.delivery}/redeliver`
    const second = await p.cp.call('POST', path)
    expect([second.status, second.body.rule]).toEqual([202, 'environment_created'])
    const third = await p.cp.call('POST', path)
    expect(third.body.rule).toBe('already_deployed')
    expect((await h.environments()).length).toBe(1)
  })

  test('drafts and bases are filtered by the project’s settings', async () => {
    await p.cp.call('PATCH', `/api/projects/${h.projectId}`, {
      deploy_drafts: false,
      pull_request_bases: ['main', 'release/*'],
    })
    expect((await h.opened({ number: 1, head: sha(1), draft: true })).body.rule).toBe(
      'draft_skipped',
    )
    expect((await h.edited({ number: 1, head: sha(1) })).body.rule).toBe('environment_created')
    const stacked = await h.opened({ number: 2, head: sha(2), base: 'feature-1' })
    expect(stacked.body.rule).toBe('base_filtered')
    const moved = await h.edited({ number: 2, head: sha(2), base: 'release/1.x' })
    expect(moved.body.rule).toBe('environment_created')
    const back = await h.edited({ number: 2, head: sha(2), base: 'elsewhere' })
    expect(back.body).toMatchObject({ outcome: 'applied', rule: 'retargeted' })
    expect(await h.environment('pr-2')).toMatchObject({
      pull_request: { base_branch: 'elsewhere' },
    })
  })

  test('another repository counts its pull requests from 1 again', async () => {
    await h.opened({ number: 1, head: sha(1) })
    await h.merged({ number: 1, head: sha(1) })
    await gone('pr-1')
    const repo_url = 'https://git.example.com/acme/next.git'
    await patch(`/api/projects/${h.projectId}`, { repo_url })
    const project = { id: h.projectId, repo_url, webhook_secret: h.secret } as ProjectCreated
    const next = new Host(p.cp, project)
    const opened = await next.opened({ number: 1, head: sha(2) })
    expect(opened.body.rule).toBe('environment_created')
  })

  test('a deleted branch is shown on a manual environment and ends nothing', async () => {
    await p.cp.environment(h.projectId, 'staging', { branch: 'develop' })
    const { id } = await p.cp.environment(h.projectId, 'moved', { branch: 'develop' })
    await h.opened({ number: 4, head: sha(1), branch: 'develop' })
    const answer = await h.push('develop', sha(1), { deleted: true, before: sha(1) })
    expect(answer.body).toMatchObject({ outcome: 'applied', rule: 'branch_deleted' })
    expect(await h.environment('staging')).toMatchObject({ branch_missing: true })
    expect(await h.environment('pr-4')).toBeDefined()
    const moved = await p.cp.call('PATCH', `/api/environments/${id}`, { branch: 'main' })
    expect(moved.body).toMatchObject({ branch: 'main', branch_missing: false })
    await h.push('develop', sha(2))
    expect(await h.environment('staging')).toMatchObject({ branch_missing: false })
  })

  test('what was wanted on a server before it ever joined is created and deployed when it joins', async () => {
    const idle = await p.cp.server('idle')
    const late = await makeHost(p.cp, idle.id, { name: 'late', domain: 'late.example.com' })
    await p.cp.environment(late.projectId, 'main')
    expect((await late.push('main', sha(1))).body.rule).toBe('server_not_ready')
    expect((await late.push('main', sha(2))).body.rule).toBe('server_not_ready')
    const waits = await late.opened({ number: 1, head: sha(3) })
    expect(waits.body).toMatchObject({ outcome: 'waiting', rule: 'server_not_ready' })
    expect(await late.environment('pr-1')).toBeUndefined()
    const state = `${p.cp.dir}/idle-agent`
    const settings = readSettings({ BERTH_STATE_DIR: state, BERTH_DEV: '1' })
    await join(settings, { url: p.cp.url, token: await p.cp.joinToken(idle.id), force: false })
    const shas: (string | null)[] = []
    for (const environment of await late.environments()) {
      for (const task of await late.tasks(environment.id)) {
        expect(task.trigger).toBe('system')
        shas.push(task.commit_sha)
      }
    }
    expect(shas.toSorted()).toEqual([sha(2), sha(3)])
    expect(await late.pullRequests()).toMatchObject([{ waiting_for: null }])
  })

  test('a marker in the message and unchanged paths skip, never a first deployment, and for both events of a push', async () => {
    await p.cp.call('PATCH', `/api/projects/${h.projectId}`, {
      skip_marker: true,
      watch_paths: ['web'],
    })
    const made = await p.cp.environment(h.projectId, 'main')
    const first = await h.push('main', sha(1), {
      message: 'Start [skip deploy]',
      files: ['docs/a.md'],
    })
    expect(first.body.rule).toBe('redeployed')
    await h.opened({ number: 1, head: sha(1), branch: 'cart' })
    await settledAll()
    const say = async (n: number, o: object, branch = 'main') =>
      (await h.push(branch, sha(n), { before: sha(n - 1), ...o })).body.rule
    expect(await say(2, { files: ['docs/a.md'] })).toBe('paths_unchanged')
    expect(await say(3, { files: ['docs/b.md'] })).toBe('paths_unchanged')
    expect(await say(4, { files: ['web/x.ts'], message: 'Later [skip deploy]' })).toBe(
      'skip_marker',
    )
    // skipped pushes accumulate: the changes of the marked one are not deployed yet
    expect(await say(5, { files: ['docs/c.md'] })).toBe('redeployed')
    await settledAll()
    expect(await say(6, { files: ['web/y.ts'] })).toBe('redeployed')
    expect(await say(2, { files: ['docs/a.md'] }, 'cart')).toBe('paths_unchanged')
    const own = await h.updated({ number: 1, head: sha(2), branch: 'cart' })
    expect(own.body.task_ids).toEqual([])
    expect((await h.tasks(made.id)).length).toBe(3)
  })

  test('limit 20, 25 pull requests: the five get environments in order as places empty', async () => {
    for (let n = 1; n <= 25; n++) await h.opened({ number: n, head: sha(n) })
    expect((await h.environments()).length).toBe(20)
    const line = async () =>
      (await h.pullRequests())
        .filter((pr) => pr.position !== null)
        .toSorted((a, b) => (a.position ?? 0) - (b.position ?? 0))
        .map((pr) => pr.number)
    expect(await line()).toEqual([21, 22, 23, 24, 25])
    const byHand = await p.cp.call('POST', `/api/projects/${h.projectId}/environments`, {
      identifier: 'mine',
      branch: 'main',
    })
    expect(byHand.body.code).toBe('environment_limit_reached')
    await h.updated({ number: 22, head: sha('b2') })
    await h.closed({ number: 23, head: sha(23) })
    expect(await line()).toEqual([21, 22, 24, 25])
    await settledAll()
    for (const [closed, next, head] of [
      [1, 21, sha(21)],
      [2, 22, sha('b2')],
      [3, 24, sha(24)],
    ] as const) {
      await h.merged({ number: closed, head: sha(closed) })
      const made = await until(`pr-${next}`, () => h.environment(`pr-${next}`))
      expect((await h.tasks(made.id)).at(-1)).toMatchObject({ commit_sha: head, trigger: 'system' })
    }
    expect(await line()).toEqual([25])
    await p.cp.call('PUT', `/api/projects/${h.projectId}/environment_limit`, { limit: 21 })
    expect(await line()).toEqual([])
    expect(await h.environment('pr-25')).toBeDefined()
  })

  test('an address that somebody else has is told, and nothing is half made', async () => {
    await p.cp.environment(h.projectId, 'taken', { domain: 'pr-1.preview.example.com' })
    const answer = await h.opened({ number: 1, head: sha(1) })
    expect(answer.body).toMatchObject({ outcome: 'error', rule: 'domain_in_use' })
    expect((await h.environments()).map((e) => e.identifier)).toEqual(['taken'])
  })

  test('only those who may read see deliveries and pull requests, only those who may write redeliver', async () => {
    const answer = await h.opened({ number: 1, head: sha(1) })
    const project = (await p.cp.call<ProjectCreated>('GET', `/api/projects/${h.projectId}`)).body
    expect(project.webhook).toMatchObject({ last_delivery_secret: 'current' })
    const mine = p.cp.token
    p.cp.token = ''
    for (const path of [
      `/api/projects/${h.projectId}/deliveries`,
      `/api/projects/${h.projectId}/pull_requests`,
      `/api/deliveries/${answer.body.delivery}`,
    ]) {
      expect((await p.cp.call('GET', path)).status).toBe(401)
    }
    p.cp.token = mine
    expect((await p.cp.call('GET', '/api/deliveries/99999')).status).toBe(404)
    const tasks: Task[] = await h.tasks((await h.environment('pr-1'))?.id ?? 0)
    expect(tasks[0]?.delivery_id).toBe(answer.body.delivery)
  })
})
