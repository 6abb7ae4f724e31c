// SSH access ends in the transaction that removes the right, for every kind of right. On both databases.
import { generateKeyPairSync } from 'node:crypto'
import type { Environment, IssuedSshCertificate, SshCertificate } from '@berth/shared/api'
import { ed25519PublicKey, formatPublicKey } from '@berth/shared/ssh'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { change } from '../../control-plane/src/app/core/transaction.ts'
import { replacePassword } from '../../control-plane/src/app/people/sign-in.ts'
import { issueSshCertificate } from '../../control-plane/src/app/ssh/certificates.ts'
import { deleteUserTokens } from '../../control-plane/src/store/people/tokens.ts'
import { makeHost, sha } from '../fixtures/forge/webhook-sender.ts'
import { type Member, makeMember } from '../fixtures/people/ssh-people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'

describe.each(ENGINES)('the end of access by SSH on %s', (engine) => {
  let cp: TestControlPlane
  const agents: WireAgent[] = []
  let servers: { one: number; two: number }
  let environment: Environment
  let organizationId: number
  let projectId: number
  let other: Member // keeps what others lose

  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    organizationId = (await cp.setUp()).organization.id
    const [one, two] = [await cp.server('one'), await cp.server('two')]
    servers = { one: one.id, two: two.id }
    projectId = (await cp.project('shop', one.id, { server_ids: [one.id, two.id] })).id
    environment = await cp.environment(projectId, 'main', { server_id: one.id })
    for (const id of [one.id, two.id]) agents.push(await WireAgent.join(cp, id))
    other = await makeMember(cp, organizationId, 'developer')
  })
  afterAll(async () => {
    for (const agent of agents) agent.close()
    await cp.close()
  })

  const certify = async (who: Member, purpose: 'logs' | 'shell', over: object = {}) => {
    const publicKey = ed25519PublicKey(generateKeyPairSync('ed25519').publicKey)
    const asked = {
      public_key: formatPublicKey(publicKey),
      purpose,
      environment_id: environment.id,
    }
    const path = `/api/servers/${servers.one}/ssh`
    const answer = await who.call<SshCertificate>('POST', path, { ...asked, ...over })
    if (answer.status !== 201) throw new Error(answer.text)
    return answer.body.serial
  }
  const reasons = async (...serials: string[]) => {
    const path = `/api/servers/${servers.one}/ssh?per_page=100`
    const { body } = await cp.call<IssuedSshCertificate[]>('GET', path)
    return serials.map((serial) => body.find((c) => c.serial === serial)?.revoke_reason ?? null)
  }
  const ok = async (answer: Promise<{ status: number; text: string }>) => {
    const { status, text } = await answer
    expect(status, text).toBeLessThan(300)
  }
  const member = (id: number) => `/api/organizations/${organizationId}/members/${id}`

  test('a lowered role keeps what it still includes', async () => {
    const who = await makeMember(cp, organizationId, 'developer')
    const [logs, shell] = [await certify(who, 'logs'), await certify(who, 'shell')]
    const kept = await certify(other, 'shell')
    await ok(cp.call('PATCH', member(who.id), { role: 'viewer' }))
    expect(await reasons(logs, shell, kept)).toEqual([null, 'role_lowered', null])
  })

  test('removed, or gone by themselves', async () => {
    const removed = await makeMember(cp, organizationId, 'viewer')
    const leaver = await makeMember(cp, organizationId, 'developer')
    const serials = [await certify(removed, 'logs'), await certify(leaver, 'shell')]
    const kept = await certify(other, 'logs')
    await ok(cp.call('DELETE', member(removed.id)))
    await ok(leaver.call('DELETE', member(leaver.id)))
    expect(await reasons(...serials, kept)).toEqual(['member_removed', 'member_removed', null])
  })

  test('a disabled account', async () => {
    const who = await makeMember(cp, organizationId, 'developer')
    const serials = [await certify(who, 'logs'), await certify(other, 'logs')]
    await ok(cp.call('PATCH', `/api/admin/users/${who.id}`, { disabled: true }))
    expect(await reasons(...serials)).toEqual(['account_disabled', null])
  })

  test('a password that was changed or reset', async () => {
    const who = await makeMember(cp, organizationId, 'developer')
    const serials = [await certify(who, 'shell'), await certify(other, 'shell')]
    const from = { address: '127.0.0.1', requestId: 'test' }
    await replacePassword(cp.running.ctx, who.id, 'a hash', from)
    expect(await reasons(...serials)).toEqual(['password_reset', null])
  })

  test('a request that was under way when its token ended', async () => {
    const who = await makeMember(cp, organizationId, 'developer')
    const { ctx } = cp.running
    const caller = await who.caller()
    const publicKey = ed25519PublicKey(generateKeyPairSync('ed25519').publicKey)
    const asked = {
      public_key: formatPublicKey(publicKey),
      purpose: 'logs' as const,
      environment_id: environment.id,
    }
    const ask = () => issueSshCertificate(ctx, caller, servers.one, asked)
    expect((await ask()).row.userId).toBe(who.id) // the positive control
    await change(ctx, (c) => deleteUserTokens(c.db, who.id, c.now))
    await expect(ask()).rejects.toMatchObject({ code: 'token_revoked' })
  })

  test('protection leaves shells to the owner, also to the next one', async () => {
    const path = `/api/environments/${environment.id}`
    const heir = await makeMember(cp, organizationId, 'developer')
    await ok(cp.call('PATCH', path, { owner_id: heir.id }))
    const shells = [await certify(heir, 'shell'), await certify(other, 'shell')]
    const logs = await certify(other, 'logs')
    await ok(cp.call('PATCH', path, { protected: true }))
    expect(await reasons(...shells, logs)).toEqual([null, 'environment_protected', null])
    await ok(heir.call('PATCH', path, { owner_id: other.id }))
    expect(await reasons(...shells, logs)).toEqual([
      'environment_protected',
      'environment_protected',
      null,
    ])
    await ok(other.call('PATCH', path, { protected: false }))
  })

  test('a project that is given away takes the shells of its protected pull requests along', async () => {
    const h = await makeHost(cp, servers.one)
    await h.opened({ number: 3, head: sha(3) })
    const { id } = (await h.environment('pr-3')) ?? { id: 0 }
    await ok(cp.call('PATCH', `/api/environments/${id}`, { protected: true }))
    const publicKey = ed25519PublicKey(generateKeyPairSync('ed25519').publicKey)
    const asked = { public_key: formatPublicKey(publicKey), environment_id: id }
    const path = `/api/servers/${servers.one}/ssh`
    const { serial } = (await cp.call<SshCertificate>('POST', path, asked)).body
    expect(await reasons(serial)).toEqual([null])
    await ok(cp.call('PATCH', `/api/projects/${h.projectId}`, { owner_id: other.id }))
    expect(await reasons(serial)).toEqual(['environment_protected'])
  })

  test('an environment that moves leaves nobody on its former server', async () => {
    const moving = await cp.environment(projectId, 'moving', { server_id: servers.one })
    const gone = await certify(other, 'logs', { environment_id: moving.id })
    const kept = await certify(other, 'logs')
    await ok(cp.call('PATCH', `/api/environments/${moving.id}`, { title: 'Stays' }))
    expect(await reasons(gone)).toEqual([null])
    await ok(cp.call('PATCH', `/api/environments/${moving.id}`, { server_id: servers.two }))
    expect(await reasons(gone, kept)).toEqual(['environment_moved', null])
  })

  test('a server that is removed', async () => {
    const { id } = await cp.server('three')
    agents.push(await WireAgent.join(cp, id))
    const { db } = cp.running.ctx
    await ok(cp.call('PATCH', `/api/servers/${id}`, { shell_enabled: true }))
    const admin = await makeMember(cp, organizationId, 'admin')
    const publicKey = ed25519PublicKey(generateKeyPairSync('ed25519').publicKey)
    const asked = { public_key: formatPublicKey(publicKey), purpose: 'shell' }
    await ok(admin.call('POST', `/api/servers/${id}/ssh`, asked))
    await ok(cp.call('DELETE', `/api/servers/${id}?confirm=three`))
    const rows = await db
      .selectFrom('sshCertificates')
      .select('revokeReason')
      .where('serverId', '=', id)
      .execute()
    expect(rows).toEqual([{ revokeReason: 'server_removed' }])
  })
})
