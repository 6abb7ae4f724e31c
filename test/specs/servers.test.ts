// Servers: their settings, removing one, revoking an agent. On both databases.
import type { Server } from '@berth/shared/api'
import { GoodbyeReason } from '@berth/shared/wire'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { addMember } from '../fixtures/people/members.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

describe.each(ENGINES)('servers on %s', (engine) => {
  let cp: TestControlPlane
  let server: Server
  let path: string
  beforeEach(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    server = await cp.server()
    path = `/api/servers/${server.id}`
  })
  afterEach(() => cp.close())

  test('name, address, ssh port, shell and pause are settings', async () => {
    expect(server).toMatchObject({ ssh_port: 22, shell_enabled: false, agent_outdated: false })
    const asked = {
      name: 'fra-1',
      hostname: 'fra-1.example.com',
      ssh_port: 2222,
      shell_enabled: true,
      paused: true,
    }
    const changed = await cp.call<Server>('PATCH', path, asked)
    expect(changed.body).toMatchObject(asked)
    await cp.server('other')
    const taken = await cp.call('PATCH', path, { name: 'other' })
    expect([taken.status, taken.body.code]).toEqual([409, 'name_taken'])
    for (const hostname of ['-oProxyCommand=x', 'a b', '1.2.3', '300.1.1.1', 'a..b', 'x:y']) {
      const wrong = await cp.call('PATCH', path, { hostname })
      expect([hostname, wrong.status]).toEqual([hostname, 422])
      expect(wrong.text).toContain('invalid_hostname')
    }
    for (const hostname of ['10.0.0.1', '2001:db8::1', 'fra-1', 'a.b.example.com']) {
      expect((await cp.call('PATCH', path, { hostname })).status).toBe(200)
    }
    const developer = await addMember(cp, 'Dev', 'developer')
    expect((await developer.call('PATCH', path, asked)).body.code).toBe('permission_denied')
  })

  test('one that holds environments stays; otherwise it goes by its name, and its agent with it', async () => {
    const project = await cp.project('shop', server.id)
    const environment = await cp.environment(project.id)
    const inUse = await cp.call('DELETE', `${path}?confirm=one`)
    expect([inUse.status, inUse.body.code, inUse.body.environments]).toEqual([
      409,
      'server_in_use',
      [{ id: environment.id, identifier: 'main' }],
    ])
    await cp.call('DELETE', `/api/environments/${environment.id}`)
    expect((await cp.call('DELETE', path)).body.code).toBe('confirmation_required')
    const agent = await WireAgent.join(cp, server.id)
    const session = await agent.active()
    const gone = await cp.call('DELETE', `${path}?confirm=one`)
    expect([gone.status, gone.text]).toEqual([204, ''])
    expect((await session.next('goodbye')).reason).toBe(GoodbyeReason.REVOKED)
    expect((await cp.call('GET', path)).status).toBe(404)
    expect((await cp.call('GET', '/api/servers')).text).toBe('[]')
    const detail = await cp.call('GET', `/api/projects/${project.id}`)
    expect([detail.body.servers, detail.body.default_server_id]).toEqual([[], null])
    const none = await cp.call('POST', `/api/projects/${project.id}/environments`, {
      identifier: 'x',
      branch: 'main',
    })
    expect([none.status, none.body.code]).toEqual([422, 'project_not_ready'])
    expect((await cp.server()).name).toBe('one') // the name is free again
    agent.close()
  })

  test('a revoked agent loses its session at once, and its certificate opens nothing any more', async () => {
    const agent = await WireAgent.join(cp, server.id)
    const session = await agent.active()
    const revoked = await cp.call<Server>('POST', `${path}/revoke_agent`)
    expect([revoked.status, revoked.body.status]).toEqual([202, 'revoked'])
    expect((await session.next('goodbye')).reason).toBe(GoodbyeReason.REVOKED)
    const again = agent.connect()
    expect((await again.next('goodbye')).reason).toBe(GoodbyeReason.REVOKED)
    agent.close()
    const fresh = await WireAgent.join(cp, server.id)
    await fresh.active()
    expect((await cp.call<Server>('GET', path)).body.status).toBe('online')
    fresh.close()
  })

  test('a join token that was taken back lets nobody in', async () => {
    const token = await cp.joinToken(server.id)
    expect((await cp.call('DELETE', `${path}/join_token`)).status).toBe(204)
    const refused = await cp.call('POST', '/api/agent/enroll', {
      token,
      csr: 'x',
      install_id: '7b1f0c62-0c37-4c2e-9f62-0d4b7c1f2a33',
      host: { hostname: 'h', os: 'linux', arch: 'x64', agent_version: '1.15.0' },
    })
    expect([refused.status, refused.body.code]).toEqual([401, 'join_token_invalid'])
  })

  test('an agent older than the control plane is called outdated', async () => {
    const agent = await WireAgent.join(cp, server.id)
    const outdated = async () => (await cp.call<Server>('GET', path)).body.agent_outdated
    await agent.active({ agentVersion: '1.14.9' })
    expect(await outdated()).toBe(true)
    await agent.active({ agentVersion: '1.15.0' })
    expect(await outdated()).toBe(false)
    agent.close()
  })

  test('whether the newest SSH keys and revocations are in force is told', async () => {
    const trust = async () => (await cp.call<Server>('GET', path)).body.trust
    expect(await trust()).toBeNull()
    const agent = await WireAgent.join(cp, server.id)
    expect(await trust()).toEqual({ state: 'away', reason: null })
    const session = await agent.active()
    const { generation } = await session.next('trust')
    expect(await trust()).toEqual({ state: 'told', reason: null })
    const reason = 'sshd did not take the new files.'
    session.send({ case: 'trustApplied', value: { generation, error: reason } })
    await until('the refusal', async () => (await trust())?.state === 'refused' || undefined)
    expect(await trust()).toEqual({ state: 'refused', reason })
    session.send({ case: 'trustApplied', value: { generation } })
    await until('the confirmation', async () => (await trust())?.state === 'confirmed' || undefined)
    agent.close()
  })
})
