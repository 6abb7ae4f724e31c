// A server that one organization shares with another: the guest places environments on it and sees its name and state;
// neither side sees what is the other's; ending it is refused while environments are there.
import type { Environment, Server, ServerUsageHistory } from '@berth/shared/api'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { addMember, addOrganization, type Person } from '../fixtures/people/members.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'
import { publicKey } from '../fixtures/tenants/servers.ts'

describe.each(ENGINES)('a shared server on %s', (engine) => {
  let cp: TestControlPlane
  let serverId: number
  let agent: WireAgent
  let owner: Person
  let guest: Person
  let developer: Person
  let guestOrganization: number
  beforeEach(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    serverId = (await cp.server()).id
    agent = await WireAgent.join(cp, serverId)
    await agent.active()
    guestOrganization = await addOrganization(cp, 'guests')
    owner = await addMember(cp, 'Olga', 'admin')
    guest = await addMember(cp, 'Gus', 'owner', { organizationId: guestOrganization })
    developer = await addMember(cp, 'Dan', 'developer')
  })
  afterEach(async () => {
    agent?.close()
    await cp.close()
  })

  const share = (organization = 'guests', by = owner) =>
    by.call<Server>('POST', `/api/servers/${serverId}/shares`, { organization })
  const unshare = (by = owner) =>
    by.call<Server & { code: string; detail: string }>(
      'DELETE',
      `/api/servers/${serverId}/shares/${guestOrganization}`,
    )
  const look = (by: Person) => by.call<Server>('GET', `/api/servers/${serverId}`)
  const place = async (by: Person, name: string, identifier: string): Promise<Environment> => {
    const project = await by.call<{ id: number }>('POST', '/api/projects', {
      name,
      repo_url: `https://git.example.com/${name}.git`,
      domain: `${name}.example.com`,
      server_ids: [serverId],
    })
    expect([project.status, project.text]).toEqual([201, expect.any(String)])
    const made = await by.call<Environment>(
      'POST',
      `/api/projects/${project.body.id}/environments`,
      { identifier, branch: 'main' },
    )
    expect(made.status).toBe(201)
    return made.body
  }

  test('is somebody else’s until it is shared, and then shows its name and state alone', async () => {
    expect((await look(guest)).status).toBe(404)
    expect((await guest.call<Server[]>('GET', '/api/servers')).body).toEqual([])
    const refused = await guest.call('POST', '/api/projects', {
      name: 'early',
      repo_url: 'https://git.example.com/early.git',
      domain: 'early.example.com',
      server_ids: [serverId],
    })
    expect(refused.status).toBe(422)
    expect((await share('guests', developer)).status).toBe(403)
    expect((await share('guests', guest)).status).toBe(404)
    expect((await share('nobody')).status).toBe(422)

    const shared = await share()
    expect(shared.body.shared_with).toEqual([
      { id: guestOrganization, name: 'guests', slug: 'guests' },
    ])
    expect((await share(String(guestOrganization))).status).toBe(200) // again: no change
    await place(owner, 'secret-shop', 'hidden-main')
    const seen = (await look(guest)).body
    expect(seen).toMatchObject({
      name: 'one',
      status: 'online',
      shared_by: { id: 1, name: expect.any(String) },
      environment_count: 0,
      parts: [],
      facts: null,
      usage: null,
      trust: null,
      settings: { build_slots: null },
      shared_with: [],
    })
    const list = await guest.call<Server[]>('GET', '/api/servers')
    expect(list.body.map(({ id }) => id)).toEqual([serverId])
    const usage = await guest.call<ServerUsageHistory>('GET', `/api/servers/${serverId}/usage`)
    expect(usage.body).toMatchObject({ latest: null, points: [], environments: [] })
  })

  test('gives a guest no right to manage it', async () => {
    await share()
    const at = `/api/servers/${serverId}`
    for (const [method, path, body] of [
      ['PATCH', at, { paused: true }],
      ['DELETE', `${at}?confirm=one`],
      ['POST', `${at}/join_token`],
      ['POST', `${at}/revoke_agent`],
      ['POST', `${at}/shares`, { organization: 'guests' }],
      ['GET', `${at}/ssh`],
    ] as const) {
      expect((await guest.call(method, path, body)).status, `${method} ${path}`).toBe(404)
    }
    const whole = { public_key: publicKey(), purpose: 'shell' }
    expect((await guest.call('POST', `${at}/ssh`, whole)).status).toBe(404)
  })

  test('holds environments of both, and neither sees or enters the other’s', async () => {
    await share()
    const own = await place(owner, 'shop', 'main-of-owner')
    const theirs = await place(guest, 'blog', 'main-of-guest')
    expect((await look(owner)).body.environment_count).toBe(2)
    expect((await look(guest)).body.environment_count).toBe(1)
    const certificate = (by: Person, environment_id: number) =>
      by.call<{ serial: string }>('POST', `/api/servers/${serverId}/ssh`, {
        public_key: publicKey(),
        purpose: 'logs',
        environment_id,
      })
    expect((await certificate(guest, own.id)).status).toBe(404)
    expect((await certificate(owner, theirs.id)).status).toBe(404)
    expect((await certificate(guest, theirs.id)).status).toBe(201)
    expect((await certificate(owner, own.id)).status).toBe(201)
    // the list of the owner's people
    const listed = await owner.call<{ user: { name: string } }[]>(
      'GET',
      `/api/servers/${serverId}/ssh`,
    )
    expect(listed.text).not.toContain('Gus')
    expect(listed.body).toHaveLength(1)
    for (const path of [`/api/servers/${serverId}`, `/api/servers/${serverId}/usage`]) {
      expect((await owner.call('GET', path)).text).not.toContain('main-of-guest')
      expect((await guest.call('GET', path)).text).not.toContain('main-of-owner')
    }
    const removal = await owner.call<{ detail: string }>(
      'DELETE',
      `/api/servers/${serverId}?confirm=one`,
    )
    expect(removal.status).toBe(409)
    expect(removal.body.detail).toContain('main-of-owner, 1 of other organizations')
    expect(removal.text).not.toContain('main-of-guest')
  })

  test('stays shared while the guest uses it; afterwards its projects forget it', async () => {
    await share()
    const { id } = await place(guest, 'blog', 'main-of-guest')
    const refused = await unshare()
    expect([refused.status, refused.body.detail]).toEqual([
      409,
      expect.stringContaining('1 environments of guests are on one'),
    ])
    expect(refused.text).not.toContain('main-of-guest')
    await guest.call('DELETE', `/api/environments/${id}?confirm=main-of-guest`)
    const { db } = cp.running.ctx
    await db.updateTable('environments').set({ removedAt: 1 }).where('id', '=', id).execute()
    const ended = await unshare()
    expect([ended.status, ended.body.shared_with]).toEqual([200, []])
    expect((await look(guest)).status).toBe(404)
    expect(await db.selectFrom('projectServers').selectAll().execute()).toEqual([])
    expect((await unshare()).status).toBe(404)
  })
})
