// Five kinds of forge over real HTTP: lists, one pull request, statuses, one comment, bad tokens and failing forges.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FORGE_API, Sensitive } from '@berth/shared'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { FakeForge, type FakeKind } from '../../../../test/fixtures/forge/fake-forge.ts'
import { createGuard } from '../addresses.ts'
import { type ForgeClient, ForgeError, type ForgeProvider } from './forge.ts'
import { candidateProviders, forgeAddress, openForge } from './open.ts'

const guard = createGuard({ privateHosts: [], allowLoopback: true })
let root: string
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'berth-hosts-'))
})
afterAll(() => rmSync(root, { recursive: true, force: true }))

const KINDS: FakeKind[] = ['github', 'gitlab', 'gitea', 'bitbucket_cloud', 'bitbucket_server']
const STOPPED: Record<FakeKind, string> = {
  github: 'error',
  gitlab: 'canceled',
  gitea: 'error',
  bitbucket_cloud: 'STOPPED',
  bitbucket_server: 'CANCELLED',
}

describe.each(KINDS)('%s', (kind) => {
  let host: FakeForge
  let client: ForgeClient
  const open = (token: string): ForgeClient => {
    const address = forgeAddress(host.repoUrl, kind as ForgeProvider)
    if (!address) throw new Error('no address')
    const signal = new AbortController().signal
    return openForge(kind as ForgeProvider, {
      ...address,
      guard,
      signal,
      token: new Sensitive(token),
    })
  }
  beforeEach(async () => {
    host = await FakeForge.start(kind, root)
    client = open(host.token)
  })
  afterEach(() => host.close())

  test('lists every open pull request over several pages, as the host has it', async () => {
    const count = FORGE_API.pageSize * 2 + 3
    for (let number = 1; number <= count; number++) {
      host.pull({ number, draft: number === 2, fromFork: number === 3, baseBranch: 'release' })
    }
    host.pull({ number: 900, state: 'merged' })
    const { pullRequests, complete } = await client.listOpenPullRequests()
    expect([complete, pullRequests.length]).toEqual([true, count])
    expect(pullRequests.map((p) => p.number)).toEqual(
      Array.from({ length: count }, (_, i) => i + 1),
    )
    const [first, second, third] = pullRequests
    expect(first).toMatchObject({
      title: 'Change 1',
      author: 'ada',
      state: 'open',
      draft: false,
      headBranch: 'feature-1',
      headSha: kind === 'bitbucket_cloud' ? null : '1'.repeat(40),
      baseBranch: 'release',
      fromFork: false,
    })
    expect(first?.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/.*\/1$/)
    expect(Math.abs((first?.updatedAt ?? 0) - Date.now())).toBeLessThan(600_000)
    expect([second?.draft, third?.fromFork]).toEqual([true, true])
    expect(host.refused).toEqual([])
  })

  test('names that must not reach git are marked, texts are bounded', async () => {
    host.pull({ number: 1, headBranch: '--upload-pack=x' })
    host.pull({ number: 2, baseBranch: 'a..b' })
    host.pull({ number: 3, title: `\u001b[31m${'x'.repeat(2_000)}\n\u202e` })
    const { pullRequests, complete } = await client.listOpenPullRequests()
    expect([complete, pullRequests.map((p) => p.usable)]).toEqual([true, [false, false, true]])
    expect(pullRequests[2]?.title).toMatch(/^\[31mx{496}$/)
  })

  test('says when there are more than it looks at', async () => {
    for (let number = 1; number <= FORGE_API.pageSize * FORGE_API.pages + 1; number++)
      host.pull({ number })
    const { complete, pullRequests } = await client.listOpenPullRequests()
    expect([complete, pullRequests.length]).toEqual([false, FORGE_API.pageSize * FORGE_API.pages])
  })

  test('tells merged from closed from unknown', async () => {
    host.pull({ number: 1, state: 'merged' })
    host.pull({ number: 2, state: 'closed' })
    host.pull({ number: 3 })
    const states = await Promise.all([1, 2, 3, 4].map((n) => client.findPullRequest(n)))
    expect(states.map((p) => p?.state)).toEqual(['merged', 'closed', 'open', undefined])
  })

  test('sets a status on a commit', async () => {
    const status = {
      sha: 'a'.repeat(40),
      context: 'berth/shop',
      description: 'Deploying',
      url: 'https://deploy.example.com/tasks/1',
    }
    for (const state of [
      'pending',
      'pending',
      'running',
      'success',
      'failure',
      'stopped',
    ] as const) {
      await client.setStatus({ ...status, state })
    }
    expect(host.statuses.at(-1)).toEqual({ ...status, state: STOPPED[kind] })
    expect(new Set(host.statuses.map((s) => s.context))).toEqual(new Set(['berth/shop']))
    expect(host.refused).toEqual([])
  })

  test('keeps one comment: made once, found by its marker, edited in place', async () => {
    const comment = { number: 7, marker: 'berth:env:101', knownId: null }
    host.comments.push({ id: 1, number: 7, text: 'looks good', version: 3 })
    const id = await client.putComment({ ...comment, body: 'one' })
    expect(await client.putComment({ ...comment, body: 'two' })).toBe(id)
    expect(await client.putComment({ ...comment, body: 'three', knownId: id })).toBe(id)
    expect(host.comments.map((c) => c.text.includes('three'))).toEqual([false, true])
    expect(host.comments[1]?.text).toContain('berth:env:101')
    expect(host.refused).toEqual([])
  })

  test('a token is checked, and a wrong one is told', async () => {
    expect((await client.findRepository()).externalId).toMatch(/1/)
    const wrong = open('wrong-canary')
    const failure = await wrong.findRepository().catch((error: unknown) => error)
    expect(failure).toMatchObject({ trouble: 'token_rejected' })
    expect(String(failure) + JSON.stringify(failure)).not.toContain('canary')
  })

  test.each([
    [429, {}, 'unavailable'],
    [503, {}, 'unavailable'],
    [403, { 'x-ratelimit-remaining': '0' }, 'unavailable'],
    [403, {}, 'token_rejected'],
    [422, {}, 'refused'],
  ])('%s %j is %s', async (status, headers, trouble) => {
    host.trouble = { status, json: {}, headers: headers as Record<string, string> }
    await expect(client.listOpenPullRequests()).rejects.toMatchObject({ trouble })
  })
})

test('where the API of a repository is', () => {
  const at = (url: string, provider: ForgeProvider) => {
    const found = forgeAddress(url, provider)
    return found && `${found.base} ${found.path}`
  }
  expect(at('git@github.com:acme/shop.git', 'github')).toBe('https://api.github.com acme/shop')
  expect(at('https://ghe.example.com/acme/shop', 'github')).toBe(
    'https://ghe.example.com/api/v3 acme/shop',
  )
  expect(at('ssh://git@git.example.com:2222/a/b/c.git', 'gitlab')).toBe(
    'https://git.example.com/api/v4 a/b/c',
  )
  expect(at('https://git.example.com:8443/a/b.git', 'gitea')).toBe(
    'https://git.example.com:8443/api/v1 a/b',
  )
  expect(at('git@bitbucket.org:acme/shop.git', 'bitbucket_cloud')).toBe(
    'https://api.bitbucket.org/2.0 acme/shop',
  )
  expect(at('https://bb.example.com/ctx/scm/ACME/shop.git', 'bitbucket_server')).toBe(
    'https://bb.example.com/ctx/rest/api/1.0 ACME/shop',
  )
  expect(at('ssh://git@bb.example.com:7999/acme/shop.git', 'bitbucket_server')).toBe(
    'https://bb.example.com/rest/api/1.0 acme/shop',
  )
  expect(at('file:///srv/shop.git', 'github')).toBeUndefined()
  expect(candidateProviders('git@github.com:a/b.git', null)).toEqual(['github'])
  expect(candidateProviders('git@git.example.com:a/b.git', 'forgejo')).toEqual(['forgejo'])
  expect(candidateProviders('git@git.example.com:a/b.git', null)).toHaveLength(4)
})

test('an API inside is not called', async () => {
  const strict = createGuard({ privateHosts: [], allowLoopback: false })
  const address = forgeAddress('https://169.254.169.254/a/b.git', 'gitlab')
  if (!address) throw new Error('no address')
  const signal = new AbortController().signal
  const client = openForge('gitlab', {
    ...address,
    guard: strict,
    signal,
    token: new Sensitive('x'),
  })
  const failure = await client.findRepository().catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(ForgeError)
  expect(failure).toMatchObject({ trouble: 'not_allowed' })
})
