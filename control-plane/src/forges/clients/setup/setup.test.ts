// Deploy keys, webhooks, accounts and lists of repositories at five kinds of forge over real HTTP: paging, searches,
// repeated installation, refusals with the missing permission, and forges that answer wrongly.
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FORGE_API, Sensitive } from '@berth/shared'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { FakeForge, type FakeKind } from '../../../../../test/fixtures/forge/fake-forge.ts'
import { createGuard } from '../../addresses.ts'
import { type ForgeAccount, type ForgeClient, ForgeError, type ForgeProvider } from '../forge.ts'
import {
  candidatesOfApi,
  checkApiUrl,
  forgeAddress,
  openAccount,
  openForge,
  repositoryPath,
} from '../open.ts'
import { explainRefusal, missingPermission } from './permissions.ts'

const guard = createGuard({ privateHosts: [], allowLoopback: true })
const signal = new AbortController().signal
const KINDS: FakeKind[] = ['github', 'gitlab', 'gitea', 'bitbucket_cloud', 'bitbucket_server']
const LINE = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKqP3Cr632C2dNhhgKVcon4ldUSAeKiku2yP9O9 berth'
const URL_ = 'https://deploy.example.com/webhooks/12'

let root: string
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'berth-setup-'))
})
afterAll(() => rmSync(root, { recursive: true, force: true }))

describe.each(KINDS)('%s', (kind) => {
  let host: FakeForge
  let client: ForgeClient
  let account: ForgeAccount
  const open = (token: string) => {
    const address = forgeAddress(host.repoUrl, kind as ForgeProvider)
    if (!address) throw new Error('no address')
    const access = { ...address, guard, signal, token: new Sensitive(token) }
    return {
      client: openForge(kind as ForgeProvider, access),
      account: openAccount(kind as ForgeProvider, access),
    }
  }
  beforeEach(async () => {
    host = await FakeForge.start(kind, root)
    ;({ client, account } = open(host.token))
  })
  afterEach(async () => {
    await host.close()
  })

  test('names the account, and rejects a wrong token', async () => {
    expect(await account.findAccount()).toEqual({ name: 'berth-bot', provider: kind })
    const wrong = await open('wrong-canary')
      .account.findAccount()
      .catch((error: unknown) => error)
    expect(wrong).toMatchObject({ trouble: 'token_rejected', status: 401 })
    expect(String(wrong)).not.toContain('canary')
  })

  test('lists repositories page by page, and finds one by a part of its name', async () => {
    for (let n = 0; n < 120; n++) {
      const name = `acme/${n === 77 ? 'Needle' : `app-${n}`}`
      host.listed.push({ name, isPrivate: n % 2 === 0, isArchived: false })
    }
    const names: string[] = []
    let from: string | null = null
    let pages = 0
    do {
      const page = await account.listRepositories({ search: '', size: 50, from })
      names.push(...page.repositories.map((one) => one.fullName))
      from = page.next
      pages += 1
    } while (from !== null && pages < 10)
    expect(names).toEqual(host.listed.map((one) => one.name))
    expect(pages).toBe(3)
    const found = await account.listRepositories({ search: 'needle', size: 50, from: null })
    expect(found.repositories).toHaveLength(1)
    expect(found.repositories[0]).toMatchObject({
      fullName: 'acme/Needle',
      description: 'About acme/Needle',
      isPrivate: false,
      canAdmin: true,
      sshUrl: expect.stringMatching(/git@git\.example\.com/),
    })
    expect(found.repositories[0]?.httpsUrl).not.toContain('berth-bot@')
    expect(host.refused).toEqual([])
  })

  test('adds a key that may only read, lists it over pages, and removes it twice', async () => {
    for (let n = 0; n < FORGE_API.pageSize + 3; n++) {
      host.keys.push({ id: n + 1, title: 'other', line: `ssh-ed25519 AAAA${n}`, readOnly: true })
    }
    const id = await client.addKey({ title: 'Berth (shop)', line: LINE })
    const keys = await client.listKeys()
    expect(keys).toHaveLength(FORGE_API.pageSize + 4)
    expect(keys.at(-1)).toEqual({ id, line: LINE, readOnly: true })
    await client.removeKey(id)
    await client.removeKey(id)
    expect(host.keys).toHaveLength(FORGE_API.pageSize + 3)
    expect(host.refused).toEqual([])
  })

  test('makes one webhook with its secret, and changes it without a second one', async () => {
    const id = await client.putWebhook({ id: null, url: URL_, secret: 'whsec_one' })
    const next = await client.putWebhook({ id, url: URL_, secret: 'whsec_two' })
    expect(host.hooks).toHaveLength(1)
    expect(host.hooks[0]).toMatchObject({ url: URL_, secret: 'whsec_two', active: true })
    const [hook] = await client.listWebhooks()
    expect(hook).toEqual({ id: next, url: URL_, active: true, sendsEvents: true, failure: null })
    ;(host.hooks[0] as { events: string[] }).events = ['other']
    expect((await client.listWebhooks())[0]?.sendsEvents).toBe(false)
    await client.removeWebhook(next)
    await client.removeWebhook(next)
    expect(host.hooks).toEqual([])
    expect(host.refused).toEqual([])
  })

  test('a refusal names the permission that is missing', async () => {
    host.denied.add('keys').add('hooks')
    for (const [step, work] of [
      ['deploy_key', () => client.addKey({ title: 'x', line: LINE })],
      ['webhook', () => client.listWebhooks()],
    ] as const) {
      const error = await work().catch((e: unknown) => e)
      expect(error).toBeInstanceOf(ForgeError)
      const { message, permission } = explainRefusal(
        error as ForgeError,
        kind as ForgeProvider,
        step,
      )
      expect(permission).toMatch(/admin|Maintainer|write/i)
      expect(message).toContain(permission)
    }
  })

  test('an outage is not a missing permission', async () => {
    host.trouble = { status: 503, json: {} }
    const error = await client.listKeys().catch((e: unknown) => e)
    expect(missingPermission(error as ForgeError, kind as ForgeProvider, 'deploy_key')).toBeNull()
  })
})

test('GitHub names the permission itself', async () => {
  const host = await FakeForge.start('github', root)
  host.denied.add('keys')
  const access = { base: `${host.url}/api/v3`, guard, signal, token: new Sensitive(host.token) }
  const error = await openForge('github', { ...access, path: 'acme/shop' })
    .listKeys()
    .catch((e: unknown) => e)
  expect(explainRefusal(error as ForgeError, 'github', 'deploy_key').permission).toBe(
    'Administration: read and write (classic token: repo); administration=write',
  )
  await host.close()
})

test('an account token of Bitbucket Cloud is sent with its name, others as they are', async () => {
  const seen: (string | undefined)[] = []
  const server = await listen((request, response) => {
    seen.push(request.headers.authorization)
    response.end('{}')
  })
  for (const token of ['ada@example.com:secret', 'ATCTT3x=']) {
    const place = { base: server.url, guard, signal, token: new Sensitive(token) }
    await openAccount('bitbucket_cloud', place).findAccount()
  }
  const basic = Buffer.from('ada@example.com:secret').toString('base64')
  expect(seen).toEqual([`Basic ${basic}`, 'Bearer ATCTT3x='])
  await server.close()
})

test('Forgejo is told from Gitea by its version', async () => {
  const host = await FakeForge.start('gitea', root)
  host.version = '13.0.0+gitea-1.22.0'
  const place = { base: `${host.url}/api/v1`, guard, signal, token: new Sensitive(host.token) }
  expect((await openAccount('gitea', place).findAccount()).provider).toBe('forgejo')
  await host.close()
})

type Handler = Parameters<typeof createServer>[1]

async function listen(handler: Handler): Promise<{ url: string; close(): Promise<void> }> {
  const server: Server = createServer(handler as never)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const close = async (): Promise<void> => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  return { url, close }
}

test.each([
  ['a redirect', 302, '', { location: 'http://127.0.0.1:1/' }, /redirects to another address/],
  ['something that is not JSON', 200, '<html>', {}, /not JSON/],
  ['an endless answer', 200, 'x'.repeat(FORGE_API.answerBytes + 1), {}, /too large/],
  ['a rate limit', 429, '{}', { 'retry-after': '7' }, /pause/],
])('a forge that answers with %s is unavailable', async (_what, status, body, headers, message) => {
  const server = await listen((_request, response) => {
    response.writeHead(status as number, headers as Record<string, string>)
    response.end(body)
  })
  const place = { base: server.url, guard, signal, token: new Sensitive('t') }
  const error = await openAccount('gitlab', place)
    .listRepositories({ search: '', size: 30, from: null })
    .catch((e: unknown) => e)
  expect(error).toMatchObject({ trouble: 'unavailable', message: expect.stringMatching(message) })
  if (status === 429) expect((error as ForgeError).retryAfterMs).toBe(7_000)
  await server.close()
})

test('the address of an API: port, path and another hostname', () => {
  const at = (url: string, provider: ForgeProvider) => {
    const checked = checkApiUrl(url, provider, { allowHttp: false })
    return checked.ok ? checked.value : checked.problem
  }
  expect(at('https://git.example.com:8443/gitea/api/v1/', 'gitea')).toBe(
    'https://git.example.com:8443/gitea/api/v1',
  )
  expect(at('https://git.example.com:8443/gitea', 'gitea')).toBe(
    'https://git.example.com:8443/gitea/api/v1',
  )
  expect(at('https://github.com', 'github')).toBe('https://api.github.com')
  expect(at('https://api.acme.ghe.com', 'github')).toBe('https://api.acme.ghe.com')
  expect(at('https://ghe.example.com', 'github')).toBe('https://ghe.example.com/api/v3')
  expect(at('https://bitbucket.org', 'bitbucket_cloud')).toBe('https://api.bitbucket.org/2.0')
  expect(at('https://api.bitbucket.org', 'bitbucket_cloud')).toBe('https://api.bitbucket.org/2.0')
  expect(at('http://git.example.com/api/v1', 'gitea')).toMatch(/https only/)
  expect(at('https://u:p@git.example.com/api/v1', 'gitea')).toMatch(/no user/)
  expect(at('file:///etc', 'gitea')).toMatch(/https only/)
  expect(at('git.example.com', 'gitea')).toMatch(/must be an address/)
  expect(candidatesOfApi('https://git.example.com/gitea/api/v1')).toEqual(['gitea'])
  expect(candidatesOfApi('https://api.github.com')).toEqual(['github'])
  expect(candidatesOfApi('https://git.example.com')).toHaveLength(4)
  expect(candidatesOfApi('nonsense')).toEqual([])
})

test('the name of a repository behind another API address', () => {
  const base = 'https://git.example.com:8443/gitea/api/v1'
  const path = (url: string) => repositoryPath(url, 'gitea', base)
  expect(path('ssh://git@ssh.git.example.com:2222/acme/shop.git')).toBe('acme/shop')
  expect(path('git@ssh.git.example.com:acme/shop.git')).toBe('acme/shop')
  expect(path('https://git.example.com:8443/gitea/acme/shop.git')).toBe('acme/shop')
  expect(path('https://git.example.com:8443/gitea/acme/shop/.git')).toBe('acme/shop')
  expect(path('git@ssh.git.example.com:gitea/shop.git')).toBe('gitea/shop')
  expect(
    repositoryPath('ssh://git@b:7999/acme/shop.git', 'bitbucket_server', 'https://b/rest/api/1.0'),
  ).toBe('acme/shop')
  expect(path('file:///srv/shop.git')).toBeUndefined()
})
