// The forge of `npm start` with a real git: pushes, pull requests, signed deliveries, and who may push.
import { execFile, execFileSync } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Forge, startForge } from '../../scripts/dev/forge/forge.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'

const folder = mkdtempSync(join(tmpdir(), 'berth-forge-'))
chmodSync(folder, 0o755)
const work = join(folder, 'work')
const SECRET = 'hook-secret'
const received: { event: string; body: Record<string, unknown>; isSigned: boolean }[] = []
let forge: Forge
let receiver: Server

interface Done {
  code: number
  text: string
}

/** Never synchronous: the forge answers in this process. */
const run = (program: string, args: string[], home = folder): Promise<Done> =>
  new Promise((resolve) => {
    const env = { PATH: process.env.PATH ?? '', HOME: home }
    execFile(program, args, { env }, (error, stdout, stderr) =>
      resolve({ code: error ? 1 : 0, text: stdout + stderr }),
    )
  })

const git = (...args: string[]): Promise<Done> =>
  run('git', ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', '-C', work, ...args])

const api = (path: string, init: RequestInit = {}, token = forge.token): Promise<Response> =>
  fetch(`${forge.url}/api/v1${path}`, {
    ...init,
    headers: { authorization: `token ${token}`, 'content-type': 'application/json' },
  })

const commit = async (text: string): Promise<void> => {
  writeFileSync(join(work, 'page'), text)
  await git('add', '--all')
  await git('commit', '--quiet', '--message', text)
}

beforeAll(async () => {
  receiver = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const signature = createHmac('sha256', SECRET).update(text).digest('hex')
    received.push({
      event: String(request.headers['x-gitea-event']),
      body: JSON.parse(text),
      isSigned: request.headers['x-gitea-signature'] === signature,
    })
    response.end(JSON.stringify({ delivery: 1, outcome: 'queued', reason: null, task_ids: [7] }))
  })
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  forge = await startForge({
    folder: join(folder, 'repositories'),
    port: await freePort(),
    token: 'forge-token',
    follow: async (event, { task_ids }, say) => say(`followed ${event.kind} ${task_ids}`),
  })
  const files = join(folder, 'files')
  execFileSync('mkdir', [files])
  writeFileSync(join(files, 'page'), 'one')
  await forge.seed('demo/hello', files)
  await forge.seed('demo/hello', files) // the next start
  await run('git', ['clone', '--quiet', `${forge.url}/demo/hello.git`, work])
})

afterAll(async () => {
  await forge?.close()
  receiver?.closeAllConnections()
  receiver?.close()
  rmSync(folder, { recursive: true, force: true })
})

describe('the forge of npm start', () => {
  it('says that no project deploys a repository yet', async () => {
    await commit('two')
    const { code, text } = await git('push', 'origin', 'HEAD')
    expect([code, text]).toEqual([0, expect.stringContaining('No project deploys this repository')])
  })

  it('delivers a push, a pull request, its update and its end, signed', async () => {
    const { port } = receiver.address() as AddressInfo
    const config = { url: `http://127.0.0.1:${port}/hook`, secret: SECRET, content_type: 'json' }
    const body = JSON.stringify({ type: 'gitea', active: true, events: ['push'], config })
    const made = await api('/repos/demo/hello/hooks', { method: 'POST', body })
    expect(made.status).toBe(201)
    expect(await (await api('/repos/demo/hello/hooks')).text()).not.toContain(SECRET)

    await git('switch', '--quiet', '--create', 'evening')
    await commit('Good evening')
    const opened = await git('push', '-o', 'pr', 'origin', 'HEAD')
    expect(opened.text).toContain('Pull request #1 "Good evening" is opened.')
    expect(opened.text).toContain('followed pull_request 7')
    await commit('Good night')
    expect((await git('push', 'origin', 'HEAD')).text).toContain(
      'Pull request #1 "Good evening" is updated.',
    )
    const pulls = (await (await api('/repos/demo/hello/pulls?state=open')).json()) as object[]
    const head = (await git('rev-parse', 'HEAD')).text.trim()
    expect(pulls).toMatchObject([{ number: 1, head: { ref: 'evening', sha: head } }])
    expect((await git('ls-remote', 'origin', 'refs/pull/1/head')).text).toContain(head)
    expect((await git('push', 'origin', '--delete', 'evening')).text).toContain('is closed.')

    expect(received.every(({ isSigned }) => isSigned)).toBe(true)
    expect(received.map(({ event, body: { action } }) => [event, action].join(' ').trim())).toEqual(
      [
        'push',
        'pull_request opened',
        'push',
        'pull_request_sync synchronized',
        'push',
        'pull_request closed',
      ],
    )
  })

  it('marks a pull request as merged when the default branch contains it', async () => {
    await git('switch', '--quiet', 'main')
    await git('switch', '--quiet', '--create', 'pr/dawn')
    await commit('Dawn')
    expect((await git('push', 'origin', 'HEAD')).text).toContain(
      'Pull request #2 "Dawn" is opened.',
    )
    await git('switch', '--quiet', 'main')
    await git('merge', '--quiet', '--ff-only', 'pr/dawn')
    expect((await git('push', 'origin', 'HEAD')).text).toContain(
      'Pull request #2 "Dawn" is merged.',
    )
  })

  it('creates a repository by the first push to it', async () => {
    expect((await git('push', `${forge.url}/me/shop.git`, 'main')).code).toBe(0)
    const list = (await (await api('/repos/search?q=shop')).json()) as { data: object[] }
    expect(list.data).toMatchObject([{ full_name: 'me/shop' }])
  })

  it('takes no push that would change the refs of pull requests, and no other path', async () => {
    expect((await git('push', 'origin', 'HEAD:refs/pull/2/head')).code).not.toBe(0)
    expect((await git('push', `${forge.url}/x.git`, 'main')).code).not.toBe(0)
    expect((await git('push', `${forge.url}/.hidden/x.git`, 'main')).code).not.toBe(0)
  })

  it('refuses its API without the token', async () => {
    expect((await api('/repos/demo/hello', {}, 'wrong')).status).toBe(401)
    const hook = await fetch(`${forge.url}/-/pushed`, { method: 'POST', body: '{}' })
    expect(hook.status).toBe(403)
  })

  it.skipIf(process.getuid?.() !== 0)('refuses a push of another account', async () => {
    const copy = join(folder, 'copy')
    execFileSync('cp', ['-a', work, copy])
    execFileSync('chown', ['-R', '65534', copy])
    const as = ['--reuid', '65534', '--clear-groups', '--', 'git', '-C', copy]
    const read = await run('setpriv', [...as, 'ls-remote', 'origin'], '/nonexistent')
    expect(read.code, read.text).toBe(0)
    const pushed = await run('setpriv', [...as, 'push', 'origin', 'HEAD:stolen'], '/nonexistent')
    expect([pushed.code, pushed.text]).toEqual([1, expect.stringContaining('403')])
    expect((await git('ls-remote', 'origin', 'stolen')).text).toBe('')
  })
})
