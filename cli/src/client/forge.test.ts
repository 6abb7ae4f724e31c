import type { Provider } from '@berth/shared'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { testIo } from '../testing/io.ts'
import { type Peer, problem, startPeer } from '../testing/peer.ts'
import { createApi } from './api.ts'
import { connectForge, fittingConnections, forgePages } from './forge.ts'

let peer: Peer
beforeEach(async () => {
  peer = await startPeer()
})
afterEach(() => peer.stop())

const open = () =>
  createApi({ baseUrl: peer.url, token: 't', organizationId: null, io: testIo(), debug: false })
const connection = (id: number, provider: Provider, api_url: string) => ({ id, provider, api_url })
const GITHUB = connection(1, 'github', 'https://api.github.com')
const OWN = connection(2, 'forgejo', 'https://code.example.com/api/v1')
const PROJECT = { id: 12, organization_id: 3 }
const FORGE = '/api/projects/12/forge'
const state = (connected: boolean) => ({ connected, checks: [] })

it('asks the connection of the same host first', () => {
  const ids = (host: string) => fittingConnections([GITHUB, OWN], host).map(({ id }) => id)
  expect([ids('github.com'), ids('code.example.com')]).toEqual([
    [1, 2],
    [2, 1],
  ])
})

it('uses the first connection that opens the repository', async () => {
  peer.script(`GET ${FORGE}`, { json: state(false) })
  peer.script('GET /api/organizations/3/forges', { json: [GITHUB, OWN] })
  peer.script(`PUT ${FORGE}`, problem('validation_failed', 'The token does not open it.'), {
    json: state(true),
  })
  expect(await connectForge(open(), PROJECT, 'github.com')).toMatchObject({ connected: true })
  const sent = peer.asked(`PUT ${FORGE}`).map(({ body }) => JSON.parse(body))
  expect(sent).toEqual([{ connection_id: 1 }, { connection_id: 2 }])
})

it('leaves a project that is connected as it is', async () => {
  peer.script(`GET ${FORGE}`, { json: state(true) })
  expect(await connectForge(open(), PROJECT, 'github.com')).toMatchObject({ connected: true })
  expect(peer.asked(`PUT ${FORGE}`)).toEqual([])
})

it('is null without a connection, and on a control plane that knows none', async () => {
  peer.script(`GET ${FORGE}`, { json: state(false) })
  peer.script('GET /api/organizations/3/forges', { json: [] })
  expect(await connectForge(open(), PROJECT, 'github.com')).toBeNull()
  peer.script(`GET ${FORGE}`, problem('not_found', 'Not found.'))
  expect(await connectForge(open(), PROJECT, 'github.com')).toBeNull()
})

it('another refusal is an error', async () => {
  peer.script(`GET ${FORGE}`, problem('permission_denied', 'You may not.'))
  await expect(connectForge(open(), PROJECT, 'github.com')).rejects.toThrow('You may not')
})

it('knows where people add a key and a webhook', () => {
  expect(forgePages('github.com', 'acme/shop')).toEqual({
    keys: 'https://github.com/acme/shop/settings/keys/new',
    hooks: 'https://github.com/acme/shop/settings/hooks/new',
  })
  for (const host of ['gitlab.com', 'bitbucket.org', 'codeberg.org']) {
    expect(forgePages(host, 'a/b')?.keys).toContain(`https://${host}/a/b/`)
  }
  expect(forgePages('git.example.com', 'a/b')).toBeNull()
})
