// Forks: a pull request gets no environment and no place before a member approved exactly this commit. Unknown origin
// counts as a fork, no payload can approve, and no address of a payload is ever contacted. On both databases.

import type { AddressInfo } from 'node:net'
import { createServer, type Server as TcpServer } from 'node:net'
import type { Environment, PullRequest, Task } from '@berth/shared/api'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { FIXTURES } from '../../control-plane/src/domain/forges/payloads/fixtures.testing.ts'
import {
  type Host,
  makeHost,
  type PullRequestState,
  sha,
} from '../fixtures/forge/webhook-sender.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'

type Approved = PullRequest & { task: Task | null; code?: string; head_sha: string }

describe.each(ENGINES)('forks on %s', (engine) => {
  let p: Platform
  let h: Host
  beforeEach(async () => {
    p = await Platform.start(engine)
    h = await makeHost(p.cp, p.serverId, { default_recipe: 'docker' })
  })
  afterEach(() => p.close())

  const fork = (over: Partial<PullRequestState> = {}): PullRequestState => ({
    number: 51,
    head: sha(1),
    branch: 'main',
    fork: 9_001,
    author: 'mallory',
    ...over,
  })
  const approve = (head: string, number = 51) =>
    p.cp.call<Approved>('POST', `/api/projects/${h.projectId}/pull_requests/${number}/approve`, {
      head_sha: head,
    })

  test('no environment and no place of the limit before approval of this commit', async () => {
    await p.cp.call('PUT', `/api/projects/${h.projectId}/environment_limit`, { limit: 1 })
    const answer = await h.opened(fork())
    expect(answer.body).toMatchObject({ outcome: 'waiting', rule: 'approval_required' })
    expect(await h.environments()).toEqual([])
    expect(await h.pullRequests()).toMatchObject([
      {
        number: 51,
        author: 'mallory',
        from_fork: true,
        waiting_for: 'approval',
        approved_sha: null,
        position: null,
      },
    ])
    const own = await h.opened({ number: 52, head: sha(2) })
    expect(own.body.rule).toBe('environment_created')
  })

  test('an approval deploys exactly that commit, as untrusted, without variables', async () => {
    const seen: object[] = []
    p.executor.script = (a) => {
      const { repository, environment } = a.assignment.spec ?? {}
      const variables = a.secrets.variables.map((v) => v.key)
      seen.push({
        ref: repository?.ref,
        sha: repository?.commitSha,
        url: repository?.url,
        untrusted: environment?.untrusted,
        variables,
      })
      a.succeed()
    }
    await h.opened(fork())
    const answer = await approve(sha(1))
    expect(answer.status).toBe(200)
    expect(answer.body).toMatchObject({
      approved_sha: sha(1),
      approved_by: { name: 'Ada' },
      waiting_for: null,
      task: { status: 'queued', trigger: 'api', commit_sha: sha(1) },
    })
    await p.settled(answer.body.task?.id ?? 0)
    expect(seen).toEqual([
      {
        ref: 'refs/pull/51/head',
        sha: sha(1),
        url: h.repoUrl,
        untrusted: true,
        variables: [],
      },
    ])
    const again = await approve(sha(1))
    expect([again.status, again.body.task]).toEqual([200, null])
  })

  test('a new commit needs its own approval, the running version stays; going back to an approved one needs none', async () => {
    await h.opened(fork())
    const first = await approve(sha(1))
    await p.settled(first.body.task?.id ?? 0)
    const updated = await h.updated(fork({ head: sha(2) }))
    expect(updated.body).toMatchObject({ outcome: 'waiting', rule: 'approval_required' })
    expect(await h.environment('pr-51')).toMatchObject({
      commit_sha: sha(1),
      pull_request: { head_sha: sha(2), approval: 'required' },
    })
    const outdated = await approve(sha(1))
    expect([outdated.status, outdated.body.code, outdated.body.head_sha]).toEqual([
      409,
      'approval_outdated',
      sha(2),
    ])
    const second = await approve(sha(2))
    await p.settled(second.body.task?.id ?? 0)
    const back = await h.updated(fork({ head: sha(1) }))
    expect(back.body).toMatchObject({ outcome: 'queued', rule: 'redeployed' })
  })

  test('people deploy approved commits of a fork only', async () => {
    await h.opened(fork())
    const first = await approve(sha(1))
    await p.settled(first.body.task?.id ?? 0)
    await h.updated(fork({ head: sha(2) }))
    const id = (await h.environment('pr-51'))?.id ?? 0
    const other = await p.deploy(id, { commit_sha: sha(2) })
    const body = other.body as unknown as { code: string; head_sha: string }
    expect([other.status, body.code, body.head_sha]).toEqual([409, 'approval_required', sha(2)])
    const button = await p.deploy(id)
    expect([button.status, button.body.commit_sha]).toEqual([201, sha(1)])
  })

  test('approved at the limit: it joins the line with its time of approval', async () => {
    await p.cp.call('PUT', `/api/projects/${h.projectId}/environment_limit`, { limit: 1 })
    await p.cp.environment(h.projectId, 'staging')
    await h.opened(fork())
    await h.opened({ number: 52, head: sha(2) })
    const answer = await approve(sha(1))
    expect(answer.body).toMatchObject({ waiting_for: 'environment_limit', position: 2, task: null })
  })

  test('a project that is being deleted approves nothing, and gets no environment that way', async () => {
    await h.opened(fork())
    const staging = await p.cp.environment(h.projectId, 'staging')
    await p.settled((await p.deploy(staging.id)).body.id)
    await p.cp.call('PATCH', `/api/servers/${p.serverId}`, { paused: true })
    const { body } = await p.cp.call('GET', `/api/projects/${h.projectId}`)
    const url = `/api/projects/${h.projectId}?confirm=${body.name}`
    expect((await p.cp.call('DELETE', url)).status).toBe(202)
    const answer = await approve(sha(1))
    expect([answer.status, answer.body.code]).toEqual([409, 'project_deleting'])
    expect((await h.environments()).map((e) => e.identifier)).toEqual(['staging'])
  })

  test('a deleted, renamed or unnamed head repository is a fork; an author’s name approves nothing', async () => {
    const deleted = await h.opened(fork({ number: 1, fork: null, author: 'ada' }))
    expect(deleted.body.rule).toBe('approval_required')
    const renamed = await h.opened(fork({ number: 2, fork: 77 }))
    expect(renamed.body.rule).toBe('approval_required')
    const payload = h.pullRequestPayload('opened', fork({ number: 3 })) as {
      pull_request: { head: { repo: object } }
    }
    payload.pull_request.head.repo = { full_name: 'acme/shop' }
    const whole = {
      ...payload,
      repository: { id: 4_711, full_name: 'acme/shop', html_url: null },
      sender: { login: 'Ada', id: 88, email: 'ada@example.com' },
    }
    const unnamed = await h.send(h.sign('github', { 'x-github-event': 'pull_request' }, whole))
    expect(unnamed.body.rule).toBe('approval_required')
    expect(await h.environments()).toEqual([])
  })

  test('what was ours and can not be told apart from a fork any more needs approval from then on', async () => {
    await h.opened({ number: 5, head: sha(1), branch: 'cart' })
    const vanished = await h.updated({ number: 5, head: sha(2), branch: 'cart', fork: null })
    expect(vanished.body.rule).toBe('approval_required')
    const pushed = await h.push('cart', sha(3), { before: sha(1) })
    expect(pushed.body.rule).toBe('no_environment')
  })

  test('a push to a branch of ours with the name of a fork’s branch is not the fork’s', async () => {
    await h.opened(fork({ branch: 'develop' }))
    const first = await approve(sha(1))
    await p.settled(first.body.task?.id ?? 0)
    const pushed = await h.push('develop', sha(9), { before: sha(1) })
    expect(pushed.body.rule).toBe('no_environment')
    expect((await h.pullRequests())[0]?.head_sha).toBe(sha(1))
  })

  test('never, Bitbucket Cloud and the manual recipe: recorded, not deployed, not approvable', async () => {
    const manual = await makeHost(p.cp, p.serverId, { name: 'm', domain: 'm.example.com' })
    expect((await manual.opened(fork())).body.rule).toBe('fork_unsupported')
    await p.cp.call('PATCH', `/api/projects/${h.projectId}`, { fork_pull_requests: 'never' })
    expect((await h.opened(fork())).body.rule).toBe('fork_never')
    expect((await approve(sha(1))).body.code).toBe('approval_not_needed')
  })

  test('what was ours when it was queued and is a stranger’s when it could go is not sent', async () => {
    const sent: (string | undefined)[] = []
    p.executor.script = (a) => {
      sent.push(a.assignment.spec?.repository?.commitSha)
      a.succeed()
    }
    const pause = (paused: boolean) => p.cp.call('PATCH', `/api/servers/${p.serverId}`, { paused })
    await pause(true)
    const [first = 0] = (await h.opened({ number: 60, head: sha(1) })).body.task_ids
    await h.edited({ number: 60, head: sha(1), fork: null, title: 'Whose?' })
    await pause(false)
    expect(await p.settled(first)).toMatchObject({
      status: 'canceled',
      warnings: [{ code: 'approval_required' }],
    })
    expect(sent).toEqual([])
    const { task } = (await approve(sha(1), 60)).body
    expect((await p.settled(task?.id ?? 0)).status).toBe('succeeded')
    expect(sent).toEqual([sha(1)])
  })

  test('the manual recipe never runs a fork’s commands, whoever sets it and when', async () => {
    p.executor.script = (a) => a.succeed()
    await h.opened(fork())
    await approve(sha(1))
    await h.opened({ number: 52, head: sha(2) })
    const [strange, ours] = [await h.environment('pr-51'), await h.environment('pr-52')]
    for (const e of [strange, ours]) await p.settled(e?.last_task?.id ?? 0)
    const set = (id: number | undefined, recipe: string | null) =>
      p.cp.call('PATCH', `/api/environments/${id}`, { recipe })
    expect((await set(strange?.id, 'manual')).text).toContain('fixed_for_pull_request')
    expect((await set(ours?.id, 'manual')).status).toBe(200)
    await p.cp.call('PATCH', `/api/projects/${h.projectId}`, { default_recipe: 'manual' })
    expect((await set(strange?.id, null)).status).toBe(200)
    expect((await h.environment('pr-51'))?.recipe).toBe('docker')
    expect((await h.environment('pr-52'))?.recipe).toBe('manual')
    const asked = await p.cp.make<Task>(`/api/environments/${strange?.id}/tasks`)
    expect([asked.recipe, asked.commit_sha]).toEqual(['docker', sha(1)])
    // its repository was deleted: from now on it counts as a fork
    await h.edited({ number: 52, head: sha(2), fork: null, title: 'Now whose?' })
    expect((await h.environment('pr-52'))?.recipe).toBe('docker')
  })

  test('only an open fork can be approved', async () => {
    await h.opened({ number: 60, head: sha(1) })
    expect((await approve(sha(1), 60)).body.code).toBe('approval_not_needed')
    await h.opened(fork())
    await h.closed(fork())
    expect((await approve(sha(1))).body.code).toBe('pull_request_closed')
    expect((await approve(sha(1), 4_000)).status).toBe(404)
  })

  test('closed while it waits for approval: it leaves', async () => {
    await h.opened(fork())
    expect((await h.closed(fork())).body).toMatchObject({ outcome: 'applied', rule: 'left_line' })
    expect(await h.pullRequests()).toEqual([])
  })

  test('no delivery of any host about a fork makes an environment', async () => {
    for (const f of FIXTURES.filter(
      (one) => one.name.startsWith('fork_') && one.name !== 'fork_inside_fork',
    )) {
      const other = await makeHost(p.cp, p.serverId, {
        name: `${f.provider}-${f.name}`,
        domain: `${f.provider}-${f.name}.example.com`.replaceAll('_', '-'),
        default_recipe: 'docker',
      })
      const answer = await other.replay(f)
      expect(answer.body.rule).toMatch(/^(approval_required|fork_unsupported)$/)
      expect(await other.environments()).toEqual([])
    }
  })

  describe('a hostile clone address', () => {
    let listener: TcpServer
    let connections = 0
    beforeEach(async () => {
      connections = 0
      listener = createServer((socket) => {
        connections += 1
        socket.destroy()
      })
      await new Promise<void>((done) => listener.listen(0, '127.0.0.1', done))
    })
    afterEach(() => new Promise<void>((done) => listener.close(() => done())))

    test('a listener there sees no connection, and it is stored nowhere', async () => {
      const port = (listener.address() as AddressInfo).port
      const hostile = `http://127.0.0.1:${port}/evil.git`
      const payload = h.pullRequestPayload('opened', { number: 70, head: sha(1) }) as {
        pull_request: { head: { repo: object } }
      }
      const urls = { clone_url: hostile, ssh_url: hostile, git_url: hostile, url: hostile }
      Object.assign(payload.pull_request.head.repo, urls)
      const whole = {
        ...payload,
        repository: { id: 4_711, full_name: 'acme/shop', html_url: hostile, ...urls },
        sender: { login: 'ada', id: 88 },
      }
      let url = ''
      p.executor.script = (a) => {
        url = a.assignment.spec?.repository?.url ?? ''
        a.succeed()
      }
      const answer = await h.send(h.sign('github', { 'x-github-event': 'pull_request' }, whole))
      await p.settled(answer.body.task_ids[0] ?? 0)
      expect(url).toBe(h.repoUrl)
      expect(connections).toBe(0)
      const { db } = p.cp.running.ctx
      for (const rows of [
        await db.selectFrom('projects').selectAll().execute(),
        await db.selectFrom('pullRequests').selectAll().execute(),
        await db.selectFrom('environments').selectAll().execute(),
      ]) {
        expect(JSON.stringify(rows)).not.toContain(hostile)
      }
      const [environment]: Environment[] = await h.environments()
      expect(environment?.identifier).toBe('pr-70')
    })
  })
})
