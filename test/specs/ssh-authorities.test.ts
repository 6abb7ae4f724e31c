// The SSH authorities: created when first needed, sent to agents and clients, replaced without interrupting users; and
// the host keys they sign. On both databases.
import { generateKeyPairSync } from 'node:crypto'
import type { SshCertificate } from '@berth/shared/api'
import {
  ed25519PublicKey,
  formatPublicKey,
  parsePublicKey,
  readCertificate,
  verifyCertificate,
} from '@berth/shared/ssh'
import { status } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Actor } from '../../control-plane/src/app/core/audit.ts'
import { change } from '../../control-plane/src/app/core/transaction.ts'
import {
  adoptSshAuthority,
  announceSshAuthority,
  confirmSshAuthorities,
  ensureSshAuthorities,
  publishSshAuthorities,
  retireSshAuthority,
} from '../../control-plane/src/app/ssh/authorities.ts'
import { lineOf, makeEd25519, skEd25519 } from '../../control-plane/src/keys/ssh-craft.testing.ts'
import { addMember } from '../fixtures/people/members.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'

const BY: Actor = { type: 'system', name: 'test' }
const HOUR_MS = 3_600_000
const makeLine = (): string =>
  formatPublicKey(ed25519PublicKey(generateKeyPairSync('ed25519').publicKey))

describe.each(ENGINES)('SSH authorities on %s', (engine) => {
  let cp: TestControlPlane
  let agent: WireAgent
  let serverId: number
  let environmentId: number
  const ctx = () => cp.running.ctx
  beforeEach(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    serverId = (await cp.server()).id
    environmentId = (await cp.environment((await cp.project('shop', serverId)).id)).id
    agent = await WireAgent.join(cp, serverId)
  })
  afterEach(async () => {
    agent.close()
    await cp.close()
  })

  const published = async (kind: 'user' | 'host') =>
    (await publishSshAuthorities(ctx(), kind)).map((a) => a.publicKey)
  const issue = () => {
    const asked = { public_key: makeLine(), purpose: 'logs', environment_id: environmentId }
    return cp.make<SshCertificate>(`/api/servers/${serverId}/ssh`, asked)
  }
  const signedBy = (certificate: string) =>
    formatPublicKey(
      readCertificate(Buffer.from(certificate.split(' ')[1] ?? '', 'base64')).authority,
    )
  const signer = async () => signedBy((await issue()).certificate)
  const refusal = (work: Promise<unknown>) =>
    work.then(
      () => 'done',
      (error: { code?: string }) => error.code ?? String(error),
    )
  const signHostKey = (publicKey: string) =>
    new Promise<{ certificate: string; renewAtMs: number } | { code: number; details: string }>(
      (resolve) => {
        agent.client.signSshHostKey(
          { $typeName: 'berth.agent.v1.SignSshHostKeyRequest', publicKey },
          {},
          (error, answer) =>
            resolve(
              error
                ? { code: error.code, details: error.details }
                : {
                    certificate: answer?.certificate ?? '',
                    renewAtMs: Number(answer?.renewAt?.seconds ?? 0) * 1_000,
                  },
            ),
        )
      },
    )
  const hostCertificate = async (line = makeLine()) => {
    const made = await signHostKey(line)
    if (!('certificate' in made)) throw new Error(made.details)
    return made
  }

  test('an agent that joins learns the user authority; looking at the host authority changes nothing', async () => {
    expect(agent.identity.sshUserCaKeys).toEqual(await published('user'))
    expect(agent.identity.sshUserCaKeys).toHaveLength(1)
    const fresh = await TestControlPlane.start(engine)
    await fresh.setUp()
    const look = async () => (await fresh.call<object[]>('GET', '/api/ssh/host_ca')).body
    const rows = () => fresh.running.ctx.db.selectFrom('sshAuthorities').selectAll().execute()
    const before = await rows()
    expect(before).toHaveLength(2) // created at the start
    expect(await look()).toMatchObject([{ fingerprint: expect.stringMatching(/^SHA256:/) }])
    expect(await rows()).toEqual(before) // a GET creates nothing
    expect(
      (await fresh.call('GET', '/api/ssh/host_ca', undefined, { authorization: '' })).status,
    ).toBe(401)
    await fresh.close()
  })

  test('many needing it at once make one of each kind, and it is the same after a restart', async () => {
    const fresh = await TestControlPlane.start(engine)
    await Promise.all(Array.from({ length: 8 }, () => ensureSshAuthorities(fresh.running.ctx)))
    const rows = () =>
      fresh.running.ctx.db.selectFrom('sshAuthorities').selectAll().orderBy('id').execute()
    const made = await rows()
    expect(made.map((a) => [a.kind, a.phase]).toSorted()).toEqual([
      ['host', 'signing'],
      ['user', 'signing'],
    ])
    expect(new Set(made.map((a) => a.publicKey)).size).toBe(2)
    await fresh.restart()
    await ensureSshAuthorities(fresh.running.ctx)
    expect(await rows()).toEqual(made)
    const audits = await fresh.running.ctx.db
      .selectFrom('audit')
      .select('verb')
      .where('verb', 'like', 'ssh_authority.%')
      .execute()
    expect(audits).toHaveLength(2)
    await fresh.close()
  })

  test('the private keys lie sealed: nothing of them is in the database in the clear', async () => {
    const rows = await ctx().db.selectFrom('sshAuthorities').selectAll().execute()
    for (const row of rows) {
      expect(row.keySealed).toMatch(/^v2\|/)
      expect(JSON.stringify(row)).not.toMatch(/PRIVATE|MC4CAQ/)
    }
    const sealed = rows.find((row) => row.kind === 'host')?.keySealed ?? ''
    await ctx()
      .db.updateTable('sshAuthorities')
      .set({ keySealed: sealed })
      .where('kind', '=', 'user')
      .execute()
    await cp.restart() // clears the decrypted key from memory
    const asked = { public_key: makeLine(), purpose: 'logs', environment_id: environmentId }
    const answer = await cp.call('POST', `/api/servers/${serverId}/ssh`, asked)
    expect(answer.status).toBe(500) // the host authority's key cannot be decrypted in the user's row
    const seen = await cp.call<object[]>('GET', `/api/servers/${serverId}/ssh`)
    expect(seen.body).toEqual([])
  })

  test('rotation of the user authority: announced beside the old, adopted when all know it, retired when nothing is left', async () => {
    const [old] = await published('user')
    const announced = await announceSshAuthority(ctx(), BY, 'user')
    expect(await published('user')).toEqual([old, announced.publicKey])
    expect(await signer()).toBe(old) // the old one still signs
    expect((await announceSshAuthority(ctx(), BY, 'user')).id).toBe(announced.id) // idempotent

    await cp.restart() // between any two phases
    const refused = await adoptSshAuthority(ctx(), BY, 'user').catch((e: unknown) => e)
    expect(refused).toMatchObject({
      code: 'confirmation_required',
      details: { servers: [{ id: serverId, name: 'one' }] },
    })
    expect(await signer()).toBe(old)
    await change(ctx(), (c) => confirmSshAuthorities(c, agent.identity.agentId, [announced]))
    const before = await issue()
    await adoptSshAuthority(ctx(), BY, 'user')
    expect(await refusal(adoptSshAuthority(ctx(), BY, 'user'))).toBe('not_found')
    expect(await signer()).toBe(announced.publicKey)
    expect(await published('user')).toEqual([old, announced.publicKey]) // its certificates are still valid
    expect(signedBy(before.certificate)).toBe(old)

    await cp.restart()
    expect(await refusal(retireSshAuthority(ctx(), BY, 'user'))).toBe('confirmation_required')
    expect(await refusal(announceSshAuthority(ctx(), BY, 'user'))).toBe('confirmation_required')
    await cp.advance(HOUR_MS + 1_000)
    await retireSshAuthority(ctx(), BY, 'user')
    expect(await published('user')).toEqual([announced.publicKey])
    expect(await signer()).toBe(announced.publicKey)
    const gone = await ctx()
      .db.selectFrom('sshAuthorities')
      .selectAll()
      .where('phase', '=', 'retired')
      .executeTakeFirstOrThrow()
    expect(gone).toMatchObject({ publicKey: old, keySealed: null })
    const verbs = await ctx()
      .db.selectFrom('audit')
      .select('verb')
      .where('verb', 'like', 'ssh_authority.%')
      .orderBy('id')
      .execute()
    expect(verbs.map((v) => v.verb.replace('ssh_authority.', ''))).toEqual([
      'create',
      'create',
      'announce',
      'adopt',
      'retire',
    ])
  })

  test('an agent that joins during a rotation learns both, and need not be waited for', async () => {
    const announced = await announceSshAuthority(ctx(), BY, 'user')
    const late = await WireAgent.join(cp, (await cp.server('two')).id)
    expect(late.identity.sshUserCaKeys).toEqual(await published('user'))
    late.close()
    const waits = await adoptSshAuthority(ctx(), BY, 'user').catch((e: unknown) => e)
    expect(waits).toMatchObject({ details: { servers: [{ name: 'one' }] } })
    await adoptSshAuthority(ctx(), BY, 'user', { without: ['one'] })
    expect(await signer()).toBe(announced.publicKey)
  })

  test('suspected theft: the same steps without waiting', async () => {
    const [old] = await published('user')
    await announceSshAuthority(ctx(), BY, 'user')
    await adoptSshAuthority(ctx(), BY, 'user', { force: true })
    await retireSshAuthority(ctx(), BY, 'user', { force: true })
    expect(await published('user')).not.toContain(old)
    expect(await signer()).not.toBe(old)
  })

  test('several who adopt at once move it once', async () => {
    for (let round = 1; round <= 4; round++) {
      const { id } = await announceSshAuthority(ctx(), BY, 'host')
      const all = await Promise.all(
        [1, 2, 3, 4].map(() => refusal(adoptSshAuthority(ctx(), BY, 'host'))),
      )
      expect(all.toSorted()).toEqual(['done', 'not_found', 'not_found', 'not_found'])
      const phases = await ctx()
        .db.selectFrom('sshAuthorities')
        .select(['id', 'phase'])
        .where('kind', '=', 'host')
        .where('phase', '!=', 'retired')
        .orderBy('id')
        .execute()
      expect(phases.map((p) => p.phase)).toEqual(['retiring', 'signing'])
      expect(phases[1]?.id).toBe(id)
      await retireSshAuthority(ctx(), BY, 'host', { force: true })
    }
  })

  test('a host key is signed for the server’s alias, by the host authority, for a month', async () => {
    const line = makeLine()
    const { certificate, renewAtMs } = await hostCertificate(`${line} root@one\n`)
    const blob = Buffer.from(certificate.split(' ')[1] ?? '', 'base64')
    const [authority] = (await published('host')).map(parsePublicKey)
    const nowSeconds = Math.floor(Date.now() / 1_000)
    const read = verifyCertificate(blob, authority ? [authority] : [], { kind: 'host', nowSeconds })
    expect(formatPublicKey(read.key)).toBe(line)
    expect(read.principals).toEqual([`server-${serverId}.berth.internal`])
    expect([read.criticalOptions.size, read.extensions.size]).toEqual([0, 0])
    expect(read.validBefore - read.validAfter).toBe(30 * 86_400 + 60)
    const twentyDays = 20 * 86_400_000
    expect(renewAtMs - (read.validAfter + 60) * 1_000).toBe(twentyDays)
    const audit = await ctx()
      .db.selectFrom('audit')
      .selectAll()
      .where('verb', '=', 'ssh_host_key.sign')
      .executeTakeFirstOrThrow()
    expect(audit).toMatchObject({ actorType: 'agent', actorId: agent.identity.agentId })
  })

  test('host keys that are none, of another type, too often, or of a revoked agent', async () => {
    const denied = { code: status.PERMISSION_DENIED }
    expect(await signHostKey('noise')).toMatchObject(denied)
    expect(await signHostKey(`${makeLine()}\n${makeLine()}`)).toMatchObject(denied)
    const sk = lineOf('sk-ssh-ed25519@openssh.com', skEd25519(makeEd25519()))
    expect(await signHostKey(sk)).toMatchObject(denied)
    await hostCertificate()
    expect(await signHostKey(makeLine())).toMatchObject({
      details: expect.stringContaining('a moment ago'),
    })
    await cp.advance(6_000)
    await hostCertificate()
    await cp.advance(6_000)
    await ctx().db.updateTable('agents').set({ revokedAt: 1 }).execute()
    expect(await signHostKey(makeLine())).toMatchObject(denied)
  })

  test('rotation of the host authority: clients know both, the old goes when every server has a new certificate', async () => {
    const [old] = await published('host')
    await hostCertificate()
    const announced = await announceSshAuthority(ctx(), BY, 'host')
    expect((await issue()).host_ca).toEqual([old, announced.publicKey])
    await adoptSshAuthority(ctx(), BY, 'host')
    expect(await refusal(retireSshAuthority(ctx(), BY, 'host'))).toBe('confirmation_required')
    await cp.advance(6_000)
    expect(signedBy((await hostCertificate()).certificate)).toBe(announced.publicKey)
    await retireSshAuthority(ctx(), BY, 'host')
    expect((await issue()).host_ca).toEqual([announced.publicKey])
  })

  describe("the administrator's endpoints", () => {
    interface Authority {
      kind: string
      phase: string
      public_key: string
      waits_for: { name: string }[]
      code?: string
    }
    const step = (path: string, body?: object) =>
      cp.call<Authority>('POST', `/api/admin/ssh_authorities/${path}`, body)
    const listed = async () => {
      const { body, text } = await cp.call<Authority[]>('GET', '/api/admin/ssh_authorities')
      expect(text).not.toMatch(/sealed|PRIVATE/i)
      return body.map((a) => [a.kind, a.phase, a.waits_for.map((s) => s.name).join()].join(' '))
    }

    test('announces, adopts and retires; says what it waits for; leaves a row of each step', async () => {
      expect(await listed()).toEqual(['user signing ', 'host signing '])
      expect((await step('user/adopt')).status).toBe(404)
      const announced = await step('user/announce')
      expect([announced.status, announced.body.phase]).toEqual([201, 'announced'])
      const again = await step('user/announce')
      expect(again.body.public_key).toBe(announced.body.public_key)
      expect(await listed()).toContain('user announced one')
      const early = await step('user/adopt')
      expect([early.status, early.body.code]).toEqual([409, 'confirmation_required'])
      expect((await step('user/adopt', { without: ['another'] })).status).toBe(409)
      const adopted = await step('user/adopt', { without: ['one'] })
      expect([adopted.status, adopted.body.phase]).toEqual([200, 'signing'])
      expect(await signer()).toBe(announced.body.public_key)
      expect((await step('user/announce')).body.code).toBe('confirmation_required')
      expect((await step('user/retire')).body.code).toBe('confirmation_required')
      await cp.advance(3_600_000)
      expect((await step('user/retire')).status).toBe(204)
      expect(await published('user')).toEqual([announced.body.public_key])
      const rows = await ctx().db.selectFrom('audit').selectAll().orderBy('id').execute()
      const own = rows.filter((r) => r.verb.startsWith('ssh_authority.') && r.actorType === 'user')
      expect(own.map((r) => [r.verb, r.actorName])).toEqual([
        ['ssh_authority.announce', 'Ada'],
        ['ssh_authority.adopt', 'Ada'],
        ['ssh_authority.retire', 'Ada'],
      ])
    })

    test('in a hurry waits for nothing', async () => {
      await step('user/announce')
      expect((await step('user/adopt', { force: true })).status).toBe(200)
      expect((await step('user/retire', { force: true })).status).toBe(204)
      expect(await listed()).toEqual(['user signing ', 'host signing '])
    })

    test('is for platform administrators, and knows two kinds', async () => {
      expect((await step('agent/announce')).status).toBeGreaterThanOrEqual(400)
      const owner = await addMember(cp, 'Eve', 'owner')
      for (const path of ['user/announce', 'user/adopt', 'user/retire']) {
        const { body } = await owner.call('POST', `/api/admin/ssh_authorities/${path}`)
        expect(body.code).toBe('platform_admin_only')
      }
      const looked = await owner.call('GET', '/api/admin/ssh_authorities')
      expect(looked.body.code).toBe('platform_admin_only')
    })
  })
})
