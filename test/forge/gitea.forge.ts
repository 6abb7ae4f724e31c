// npm run test:forge: Berth connects to a real Gitea by a token with no more than the documented scopes, whose API has
// another hostname, port and path than its SSH server. A pull request is opened, pushed to and merged; deploy key,
// webhook, statuses and comment are Berth's work, and a real agent deploys.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type {
  Environment,
  ForgeDisconnected,
  ForgeRepository,
  ProjectDetail,
  ProjectForge,
  RepositoryCheck,
  Task,
} from '@berth/shared/api'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Fixture, until } from '../fixtures/server/installation.ts'
import { Gitea } from './gitea.ts'

const SCOPES = 'write:repository,write:issue,read:user'
const REPOSITORY = 'acme/shop'
const CLIENT = fileURLToPath(new URL('../../cli/src/main.ts', import.meta.url))

let gitea: Gitea
let berth: Fixture
let project: ProjectDetail
let token: string
let folder: string

const git = (...args: string[]): string =>
  execFileSync('git', ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', ...args], {
    cwd: folder,
    stdio: 'pipe',
  })
    .toString()
    .trim()

/** Writes a version of the page, pushes the branch and returns the commit. */
function push(branch: string, text: string): string {
  writeFileSync(join(folder, 'index.html'), text)
  writeFileSync(join(folder, '.service.yml'), 'manual: { deploy: [ "cat index.html" ] }\n')
  git('add', '--all')
  git('commit', '--quiet', '--message', text)
  git('push', '--quiet', 'origin', `HEAD:refs/heads/${branch}`)
  return git('rev-parse', 'HEAD')
}

interface Ran {
  code: number | null
  stdout: string
  stderr: string
}

/** The real client, with `input` on stdin. */
async function client(args: string[], input = ''): Promise<Ran> {
  const child = spawn(process.execPath, [CLIENT, ...args], {
    env: { ...process.env, BERTH_URL: berth.url, BERTH_TOKEN: berth.token, HOME: berth.dir },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const said = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk: Buffer) => (said.stdout += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (said.stderr += chunk.toString()))
  child.stdin.end(input)
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, ...said }
}

const api = (path: string): string => `/api/projects/${project.id}${path}`

async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  const answer = await berth.call(method, path, body)
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
  return (await answer.json()) as T
}

const environment = (identifier: string): Promise<Environment | undefined> =>
  berth
    .get<Environment[]>(api('/environments'))
    .then((list) => list.find((one) => one.identifier === identifier))

/** The task that deployed this commit there, once it succeeded. */
const deployed = (identifier: string, sha: string): Promise<Task> =>
  until(`${identifier} at ${sha.slice(0, 7)}`, async () => {
    const found = await environment(identifier)
    if (!found) return undefined
    const tasks = await berth.get<Task[]>(`/api/environments/${found.id}/tasks`)
    return tasks.find((task) => task.commit_sha === sha && task.status === 'succeeded')
  })

interface Status {
  context: string
  status: string
  target_url: string
}

const succeeded = (sha: string): Promise<Status> =>
  until(`the status of ${sha.slice(0, 7)}`, async () => {
    const list = await gitea.call<Status[]>('GET', `/repos/${REPOSITORY}/commits/${sha}/statuses`)
    return list.find((one) => one.context === 'berth/shop' && one.status === 'success')
  })

const comments = (): Promise<{ id: number; body: string }[]> =>
  gitea.call('GET', `/repos/${REPOSITORY}/issues/1/comments`)
const hooks = (): Promise<{ id: number; active: boolean; events: string[] }[]> =>
  gitea.call('GET', `/repos/${REPOSITORY}/hooks`)
const keys = (): Promise<{ id: number; key: string; read_only: boolean }[]> =>
  gitea.call('GET', `/repos/${REPOSITORY}/keys`)

beforeAll(async () => {
  gitea = await Gitea.start()
  await gitea.call('POST', '/orgs', { username: 'acme', visibility: 'private' })
  await gitea.call('POST', '/orgs/acme/repos', { name: 'shop', private: true })
  token = gitea.token(SCOPES)
  berth = await Fixture.open()
  folder = join(berth.dir, 'checkout')
  mkdirSync(folder)
  git('init', '--quiet', '--initial-branch=main')
  git('remote', 'add', 'origin', gitea.pushUrl(REPOSITORY))
  push('main', 'version 1')
  // Gitea notices the first push of a repository some time after it accepted it
  await until('the first commit', async () => {
    const { empty } = await gitea.call<{ empty: boolean }>('GET', `/repos/${REPOSITORY}`)
    return !empty || undefined
  })
  project = await berth.project('shop', gitea.sshUrl(REPOSITORY))
  await call('PATCH', api(''), { comment_on_pull_requests: true })
}, 3_600_000)
afterAll(async () => {
  await berth?.close()
  await gitea?.close()
})

test('a private repository cannot be read before it is connected', async () => {
  const check = await berth.post<RepositoryCheck>(api('/repository_check'))
  expect(check.reachable).toBe(false)
})

test('a token without the scopes is refused with the missing permission', async () => {
  const weak = gitea.token('read:repository')
  const place = { provider: 'gitea', api_url: gitea.url }
  const body = await call<ProjectForge>('PUT', api('/forge'), { token: weak, ...place })
  expect(body.status).toBe('broken')
  const failed = body.checks.filter((check) => check.status === 'failed')
  expect(failed.map((check) => check.name)).toEqual(['deploy_key', 'webhook'])
  for (const check of failed) expect(check.permission).toContain('write:repository')
  expect([await keys(), await hooks()]).toEqual([[], []])
})

test('the client connects: key, webhook and a test delivery', async () => {
  const flags = ['--forge', 'gitea', '--api', `${gitea.url}/api/v1`, '--with-token']
  const { code, stdout, stderr } = await client(
    ['project', 'connect', 'shop', ...flags],
    `${token}\n`,
  )
  expect([code, stderr]).toEqual([0, expect.stringContaining('connected')])
  expect(stdout).toMatch(/^ok\tdelivery\tA test delivery arrived\./m)
  expect(stdout + stderr).not.toContain(token)
  expect(await keys()).toMatchObject([{ read_only: true }])
  expect(await hooks()).toMatchObject([{ active: true }])
  const check = await berth.post<RepositoryCheck>(api('/repository_check'))
  expect([check.reachable, check.default_branch]).toEqual([true, 'main'])
  const again = await client(['project', 'connect', 'shop'])
  expect(again.code).toBe(0)
  expect([(await keys()).length, (await hooks()).length]).toEqual([1, 1])
})

test('its repositories are listed and found', async () => {
  const { connection } = await berth.get<ProjectForge>(api('/forge'))
  const path = `/api/forges/${connection?.id}/repositories`
  const [found, ...rest] = await berth.get<ForgeRepository[]>(`${path}?search=sho`)
  expect(found).toMatchObject({ full_name: REPOSITORY, private: true, can_admin: true })
  expect([rest, found?.project_ids]).toEqual([[], [project.id]])
  const repos = await client(['repos', 'shop'])
  expect(repos.stdout).toContain(`${REPOSITORY}\tgitea\tmain`)
})

test('a pull request is opened, pushed to and merged', async () => {
  await berth.environment(project.id, 'main')
  const first = push('feature', 'version 2')
  const asked = { head: 'feature', base: 'main', title: 'Version 2' }
  await gitea.call('POST', `/repos/${REPOSITORY}/pulls`, asked)
  const opened = await deployed('pr-1', first)
  expect((await berth.log(opened.id)).toString()).toContain('version 2')
  expect((await succeeded(first)).target_url).toMatch(/^http/)
  const comment = await until('the comment', async () => (await comments())[0])
  expect(comment.body).toContain('berth:env:')

  const second = push('feature', 'version 3')
  const pushed = await deployed('pr-1', second)
  expect((await berth.log(pushed.id)).toString()).toContain('version 3')
  await succeeded(second)
  await until('the edited comment', async () => {
    const [only, ...others] = await comments()
    expect(others).toEqual([])
    return only?.id === comment.id && only.body.includes(second.slice(0, 7)) ? only : undefined
  })

  const pull = `/repos/${REPOSITORY}/pulls/1`
  // Gitea refuses for a moment, until it has checked for conflicts
  await until('the merge', () => gitea.call('POST', `${pull}/merge`, { Do: 'merge' }))
  const { merge_commit_sha: merged } = await gitea.call<{ merge_commit_sha: string }>('GET', pull)
  await until('pr-1 to be removed', async () => ((await environment('pr-1')) ? undefined : true))
  await until('the last words of the comment', async () => {
    const [only] = await comments()
    return /removed/i.test(only?.body ?? '') || undefined
  })
  await deployed('main', merged)
}, 600_000)

test('what breaks at the forge is found, and connecting again repairs it', async () => {
  const [hook] = await hooks()
  await gitea.call('DELETE', `/repos/${REPOSITORY}/hooks/${hook?.id}`)
  const check = await client(['project', 'check', 'shop'])
  expect(check.code).toBe(6)
  expect(check.stdout).toMatch(/^failed\tforge webhook\t/m)
  expect((await client(['project', 'connect', 'shop'])).code).toBe(0)
  expect(await hooks()).toHaveLength(1)
})

test('a new secret and a new key reach the forge by themselves', async () => {
  const [[hook], [key]] = [await hooks(), await keys()]
  await berth.post(api('/webhook_secret'))
  await berth.post(api('/deploy_key'))
  await until('the new key and webhook', async () => {
    const [nextKeys, nextHooks] = [await keys(), await hooks()]
    const isNew = nextKeys[0]?.key !== key?.key && nextHooks[0]?.id !== hook?.id
    return isNew && nextKeys.length === 1 && nextHooks.length === 1 ? true : undefined
  })
  git('fetch', '--quiet', 'origin', 'main')
  git('reset', '--quiet', '--hard', 'FETCH_HEAD')
  await deployed('main', push('main', 'version 4'))
  const { webhook } = await berth.get<ProjectDetail>(api(''))
  expect(webhook.last_delivery_secret).toBe('current')
}, 300_000)

test('disconnecting leaves nothing at the forge', async () => {
  const ended = await call<ForgeDisconnected>('DELETE', api('/forge'))
  expect(ended).toEqual({ removed: ['webhook', 'deploy_key'], left: [] })
  expect([await keys(), await hooks()]).toEqual([[], []])
})

test('so does the deletion of a connected project', async () => {
  await client(
    ['project', 'connect', 'shop', '--forge', 'gitea', '--api', gitea.url, '--with-token'],
    token,
  )
  expect(await hooks()).toHaveLength(1)
  const main = await environment('main')
  expect(main).toBeDefined()
  await berth.call('DELETE', api('?confirm=shop'))
  await until('nothing at the forge', async () => {
    const [left, rest] = [await keys(), await hooks()]
    return left.length + rest.length === 0 || undefined
  })
  rmSync(folder, { recursive: true, force: true })
}, 300_000)
