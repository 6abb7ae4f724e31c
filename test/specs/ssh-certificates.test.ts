// Requesting an SSH certificate for a server: who gets which one, its contents, and its end. On both databases.
import { generateKeyPairSync } from 'node:crypto'
import type { IssuedSshCertificate, SshCertificate } from '@berth/shared/api'
import {
  ed25519PublicKey,
  fingerprintOf,
  formatPublicKey,
  parsePublicKey,
  verifyCertificate,
} from '@berth/shared/ssh'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { change } from '../../control-plane/src/app/core/transaction.ts'
import { beginRemoval } from '../../control-plane/src/app/environments/removal.ts'
import { issueSshCertificate } from '../../control-plane/src/app/ssh/certificates.ts'
import {
  endShellsOfOthers,
  endSshAccess,
  endSshAccessBeyondRole,
} from '../../control-plane/src/app/ssh/revocation.ts'
import { lineOf, oddNumber, rsa } from '../../control-plane/src/keys/ssh-craft.testing.ts'
import { listPublishedAuthorities } from '../../control-plane/src/store/ssh/authorities.ts'
import { listRevokedSerials } from '../../control-plane/src/store/ssh/certificates.ts'
import { type Member, makeMember, makeOrganization } from '../fixtures/people/ssh-people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { WireAgent } from '../fixtures/platform/wire-agent.ts'
import { until } from '../fixtures/server/installation.ts'

const makeLine = (): string =>
  formatPublicKey(ed25519PublicKey(generateKeyPairSync('ed25519').publicKey))

describe.each(ENGINES)('SSH certificates on %s', (engine) => {
  let cp: TestControlPlane
  let agents: WireAgent[]
  let people: Record<'viewer' | 'developer' | 'admin' | 'owner', Member>
  let ids: { server: number; other: number; never: number; environment: number; elsewhere: number }
  let organizationId: number
  let projectId: number
  const db = () => cp.running.ctx.db
  const path = (server = ids.server) => `/api/servers/${server}/ssh`
  const body = (over: object = {}) => ({
    public_key: makeLine(),
    purpose: 'logs',
    environment_id: ids.environment,
    ...over,
  })
  const ask = (who: Member, over: object = {}, server = ids.server) =>
    who.call<SshCertificate>('POST', path(server), body(over))
  const issue = async (who: Member, over: object = {}) => {
    const answer = await ask(who, over)
    if (answer.status !== 201) throw new Error(answer.text)
    return answer.body
  }
  const code = async (who: Member, over: object = {}, server = ids.server) => {
    const { status, body } = await ask(who, over, server)
    return status === 201 ? 'issued' : (body as unknown as { code: string }).code
  }
  const listed = async () =>
    (await people.admin.call<IssuedSshCertificate[]>('GET', `${path()}?per_page=100`)).body
  const statusOf = async (serial: string) => (await listed()).find((c) => c.serial === serial)
  const counts = async () => {
    const { rows } = await sql<{ certificates: number; audits: number }>`select
      (select count(*) from ssh_certificates) as certificates,
      (select count(*) from audit where verb = 'ssh_certificate.issue') as audits`.execute(db())
    return rows[0]
  }
  const setShell = (enabled: 0 | 1) =>
    db()
      .updateTable('servers')
      .set({ shellEnabled: enabled })
      .where('id', '=', ids.server)
      .execute()
  const setEnvironment = (id: number, change: object) =>
    db().updateTable('environments').set(change).where('id', '=', id).execute()

  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    organizationId = (await cp.setUp()).organization.id
    const [one, two, never] = [
      await cp.server('one'),
      await cp.server('two'),
      await cp.server('new'),
    ]
    const project = await cp.project('shop', one.id, { server_ids: [one.id, two.id, never.id] })
    projectId = project.id
    const environment = await cp.environment(project.id, 'main', { server_id: one.id })
    const elsewhere = await cp.environment(project.id, 'two', { server_id: two.id })
    agents = [await WireAgent.join(cp, one.id), await WireAgent.join(cp, two.id)]
    ids = {
      server: one.id,
      other: two.id,
      never: never.id,
      environment: environment.id,
      elsewhere: elsewhere.id,
    }
    people = {
      viewer: await makeMember(cp, organizationId, 'viewer'),
      developer: await makeMember(cp, organizationId, 'developer'),
      admin: await makeMember(cp, organizationId, 'admin'),
      owner: await makeMember(cp, organizationId, 'owner'),
    }
  })
  afterAll(async () => {
    for (const agent of agents) agent.close()
    await cp.close()
  })

  describe('the reply', () => {
    test('has exactly the documented fields, and the certificate says the same', async () => {
      const line = makeLine()
      const who = people.developer
      const answer = await ask(who, { public_key: `${line} ada@laptop\n`, purpose: undefined })
      const c = answer.body
      expect(answer.status).toBe(201)
      expect(answer.headers.get('cache-control')).toBe('no-store')
      expect(Object.keys(c)).toEqual(
        `certificate serial key_id principals grant extensions valid_after valid_before server host port
        user host_alias host_ca`.split(/\s+/),
      )
      expect(c).toMatchObject({
        key_id: `user=${who.id};env=${ids.environment};server=${ids.server};jti=${c.serial}`,
        principals: [`berth:server:${ids.server}:shell`],
        grant: { environment_id: ids.environment, can: ['shell', 'exec'] },
        extensions: ['grant@berth.dev', 'permit-pty'],
        server: { id: ids.server, name: 'one', hostname: '127.0.0.1' },
        host: '127.0.0.1',
        port: 22,
        user: 'berth-shell',
        host_alias: `server-${ids.server}.berth.internal`,
      })
      expect(Date.parse(c.valid_before) - Date.parse(c.valid_after)).toBe(360_000)
      const [type, blob = ''] = c.certificate.split(' ')
      expect(type).toBe('ssh-ed25519-cert-v01@openssh.com')
      const authorities = (await listPublishedAuthorities(db(), 'user')).map((a) =>
        parsePublicKey(a.publicKey),
      )
      const nowSeconds = Math.floor(Date.now() / 1_000)
      const at = { kind: 'user', nowSeconds } as const
      const read = verifyCertificate(Buffer.from(blob, 'base64'), authorities, at)
      expect(formatPublicKey(read.key)).toBe(line)
      expect(read).toMatchObject({
        serial: BigInt(c.serial),
        keyId: c.key_id,
        principals: c.principals,
        validAfter: Date.parse(c.valid_after) / 1_000,
        validBefore: Date.parse(c.valid_before) / 1_000,
        criticalOptions: new Map(),
      })
      expect([...read.extensions.keys()]).toEqual(c.extensions)
      expect(JSON.parse(read.extensions.get('grant@berth.dev') ?? '')).toEqual({
        v: 1,
        server: ids.server,
        user: who.id,
        organization: organizationId,
        environment: ids.environment,
        can: ['shell', 'exec'],
        until: Date.parse((await statusOf(c.serial))?.session_until ?? '') / 1_000,
      })
      const hosts = await who.call<{ public_key: string }[]>('GET', '/api/ssh/host_ca')
      expect(c.host_ca).toEqual(hosts.body.map((h) => h.public_key))
      expect(c.host_ca).toHaveLength(1)
      expect(c.host_ca).not.toContain(formatPublicKey(read.authority))
    })

    test('logs and artifacts: no terminal, the other account', async () => {
      for (const purpose of ['logs', 'artifact'] as const) {
        const c = await issue(people.viewer, { purpose })
        expect(c).toMatchObject({
          user: 'berth-ssh',
          principals: [`berth:server:${ids.server}`],
          grant: { environment_id: ids.environment, can: [purpose] },
          extensions: ['grant@berth.dev'],
        })
      }
    })

    test('the port of the server, and a life from 60 to 3600 seconds', async () => {
      const at = (sshPort: number) =>
        db().updateTable('servers').set({ sshPort }).where('id', '=', ids.server).execute()
      await at(2_222)
      const c = await issue(people.viewer, { ttl_seconds: 3_600 })
      await at(22)
      expect(c.port).toBe(2_222)
      expect(Date.parse(c.valid_before) - Date.parse(c.valid_after)).toBe(3_660_000)
      for (const ttl_seconds of [59, 3_601, 60.5, '300', 0, -1]) {
        expect([ttl_seconds, await code(people.viewer, { ttl_seconds })]).toEqual([
          ttl_seconds,
          'validation_failed',
        ])
      }
    })
  })

  describe('who gets what', () => {
    const ROWS = [
      ['logs', true, 'issued', 'issued', 'issued', 'issued'],
      ['artifact', true, 'issued', 'issued', 'issued', 'issued'],
      ['shell', true, 'permission_denied', 'issued', 'issued', 'issued'],
      ['shell', false, 'permission_denied', 'permission_denied', 'issued', 'issued'],
    ] as const
    test.each(ROWS)('%s, with an environment %s', async (purpose, within, ...expected) => {
      await setShell(1)
      const over = { purpose, environment_id: within ? ids.environment : undefined }
      const got: string[] = []
      for (const role of ['viewer', 'developer', 'admin', 'owner'] as const) {
        got.push(await code(people[role], over))
      }
      await setShell(0)
      expect(got).toEqual(expected)
    })

    test('the whole server only where it is switched on', async () => {
      const over = { purpose: 'shell', environment_id: null }
      expect(await code(people.owner, over)).toBe('server_shell_disabled')
      await setShell(1)
      const c = await issue(people.owner, over)
      await setShell(0)
      expect(c.grant).toEqual({ environment_id: null, can: ['server'] })
      expect(c.key_id).toContain(';env=-;')
    })

    test('a token gives no more than its scopes', async () => {
      const reader = await makeMember(cp, organizationId, 'owner', ['read'])
      expect(await code(reader, { purpose: 'logs' })).toBe('issued')
      const shell = await ask(reader, { purpose: 'shell' })
      expect(shell.body).toMatchObject({ code: 'insufficient_scope', required_scope: 'ssh' })
      const whole = await ask(reader, { purpose: 'shell', environment_id: null })
      expect(whole.body).toMatchObject({ code: 'insufficient_scope', required_scope: 'admin' })
      const deployer = await makeMember(cp, organizationId, 'developer', ['deploy'])
      expect(await code(deployer, { purpose: 'logs' })).toBe('insufficient_scope')
    })

    test('a protected environment: only its owner opens a shell, others read', async () => {
      const { ownerId } = await db()
        .selectFrom('environments')
        .select('ownerId')
        .where('id', '=', ids.environment)
        .executeTakeFirstOrThrow()
      await setEnvironment(ids.environment, { protected: 1, ownerId: people.developer.id })
      const refused = await ask(people.owner, { purpose: 'shell' })
      expect(refused.status).toBe(403)
      expect(refused.body).toMatchObject({
        code: 'environment_protected',
        owner: { id: people.developer.id, name: people.developer.name },
      })
      expect(await code(people.developer, { purpose: 'shell' })).toBe('issued')
      expect(await code(people.viewer, { purpose: 'logs' })).toBe('issued')
      expect(await code(people.viewer, { purpose: 'artifact' })).toBe('issued')
      await setEnvironment(ids.environment, { protected: 0, ownerId })
    })

    test('an environment that is being removed, and one that is gone', async () => {
      const { id } = await cp.environment(projectId, 'leaving', { server_id: ids.server })
      const before = await counts()
      await setEnvironment(id, { removingAt: 1 })
      for (const purpose of ['logs', 'artifact', 'shell']) {
        expect(await code(people.owner, { purpose, environment_id: id })).toBe(
          'environment_removing',
        )
      }
      await setEnvironment(id, { removedAt: 1 })
      expect(await code(people.owner, { environment_id: id })).toBe('not_found')
      expect(await counts()).toEqual(before)
    })

    test('an environment that lives on another server answers as one that does not exist', async () => {
      const [foreign, missing] = [
        await ask(people.owner, { environment_id: ids.elsewhere }),
        await ask(people.owner, { environment_id: 3_999_999 }),
      ]
      const plain = (text: string) => text.replace(/req_[\w-]+/, '')
      expect(foreign.status).toBe(404)
      expect(plain(foreign.text)).toBe(plain(missing.text))
      expect(await code(people.owner, { environment_id: ids.elsewhere }, ids.other)).toBe('issued')
    })

    test('a server of another organization answers as one that does not exist', async () => {
      const stranger = await makeMember(cp, await makeOrganization(cp, engine), 'owner')
      const plain = (text: string) => text.replaceAll(/req_[\w-]+|servers\/\d+/g, '')
      for (const [method, tail, sent] of [
        ['POST', '/ssh', body({ public_key: 'ssh-ed25519 AAAA' })],
        ['POST', '/ssh', body()],
        ['GET', '/ssh', undefined],
        ['DELETE', '/ssh/4711', undefined],
      ] as const) {
        const foreign = await stranger.call(method, `/api/servers/${ids.server}${tail}`, sent)
        const missing = await stranger.call(method, `/api/servers/3999999${tail}`, sent)
        expect([method, foreign.status]).toEqual([method, missing.status])
        expect(plain(foreign.text)).toBe(plain(missing.text))
        expect(foreign.status).toBeGreaterThanOrEqual(404)
      }
    })

    test('a server that never joined; one that is offline does not matter', async () => {
      const { id } = await cp.environment(projectId, 'early', { server_id: ids.never })
      const refused = await ask(people.owner, { environment_id: id }, ids.never)
      expect(refused.status).toBe(422)
      expect(refused.body).toMatchObject({ code: 'server_not_ready' })
      const server = await cp.call('GET', `/api/servers/${ids.server}`)
      expect(server.body.status).toBe('offline') // joined, never connected
      expect(await code(people.owner)).toBe('issued')
    })

    test('whoever was a member a moment ago is none', async () => {
      const leaving = await makeMember(cp, organizationId, 'developer')
      const caller = await leaving.caller()
      const asked = body({ purpose: 'shell' }) as Parameters<typeof issueSshCertificate>[3]
      const role = (change: object) =>
        db().updateTable('members').set(change).where('userId', '=', leaving.id).execute()
      await role({ role: 'viewer' })
      const issuing = () => issueSshCertificate(cp.running.ctx, caller, ids.server, asked)
      await expect(issuing()).rejects.toMatchObject({ code: 'permission_denied' })
      await role({ role: 'developer' })
      await expect(issuing()).resolves.toMatchObject({ row: { purpose: 'shell' } })
      await db().updateTable('users').set({ disabledAt: 1 }).where('id', '=', leaving.id).execute()
      await expect(issuing()).rejects.toMatchObject({ code: 'account_disabled' })
      await db()
        .updateTable('users')
        .set({ disabledAt: null })
        .where('id', '=', leaving.id)
        .execute()
      await db().deleteFrom('members').where('userId', '=', leaving.id).execute()
      await expect(issuing()).rejects.toMatchObject({ code: 'not_found' })
    })
  })

  describe('what is refused leaves nothing behind', () => {
    const rsaLine = lineOf('ssh-rsa', rsa(oddNumber(3_072)))
    test.each<[string, object, [string, string][]]>([
      ['no key', { public_key: undefined }, [['public_key', 'invalid_type']]],
      ['an empty key', { public_key: '' }, [['public_key', 'invalid_value']]],
      ['noise', { public_key: 'noise' }, [['public_key', 'invalid_public_key']]],
      ['RSA', { public_key: rsaLine }, [['public_key', 'unsupported_key_type']]],
      ['logs of nothing', { environment_id: undefined }, [['environment_id', 'required']]],
      [
        'two things at once',
        { public_key: 'x', purpose: 'artifact', environment_id: null },
        [
          ['public_key', 'invalid_public_key'],
          ['environment_id', 'required'],
        ],
      ],
      ['another purpose', { purpose: 'root' }, [['purpose', 'invalid_value']]],
      ['an unknown field', { principals: ['root'] }, [['principals', 'unknown_field']]],
      ['an id that is none', { environment_id: 0 }, [['environment_id', 'invalid_value']]],
    ])('%s', async (_name, over, expected) => {
      const before = await counts()
      const answer = await ask(people.owner, over)
      expect(answer.status).toBe(422)
      const { errors } = answer.body as unknown as { errors: { field: string; code: string }[] }
      expect(errors.map((e) => [e.field, e.code])).toEqual(expected)
      expect(await counts()).toEqual(before)
    })
  })

  describe('the record', () => {
    test('one row and one audit row each; serials differ; of the key only its fingerprint is kept', async () => {
      const before = await counts()
      const lines = Array.from({ length: 12 }, makeLine)
      const made = await Promise.all(
        lines.map((public_key) => issue(people.developer, { public_key })),
      )
      expect(new Set(made.map((c) => c.serial)).size).toBe(12)
      for (const { serial } of made) {
        expect(serial).toMatch(/^[1-9][0-9]{0,18}$/)
        expect(BigInt(serial) < 2n ** 63n).toBe(true)
      }
      const after = await counts()
      expect(Number(after?.certificates) - Number(before?.certificates)).toBe(12)
      expect(Number(after?.audits) - Number(before?.audits)).toBe(12)
      const rows = await db().selectFrom('sshCertificates').selectAll().execute()
      const audits = await db().selectFrom('audit').selectAll().execute()
      const stored = JSON.stringify([rows, audits])
      for (const [n, line] of lines.entries()) {
        const key = line.split(' ')[1] ?? ''
        expect(stored).not.toContain(key)
        expect(stored).not.toContain(key.slice(30))
        const audit = audits.find((a) => a.details.includes(made[n]?.serial ?? '-'))
        expect(audit).toMatchObject({
          verb: 'ssh_certificate.issue',
          actorId: String(people.developer.id),
        })
        expect(JSON.parse(audit?.details ?? '{}')).toMatchObject({
          fingerprint: fingerprintOf(parsePublicKey(line)),
          purpose: 'logs',
          environment_id: ids.environment,
          address: '127.0.0.1',
        })
      }
    })

    test('the list: administrators and owners, newest first, in pages, without a key', async () => {
      for (const role of ['viewer', 'developer'] as const) {
        const answer = await people[role].call('GET', path())
        expect(answer.body).toMatchObject({
          code: 'permission_denied',
          required_permission: 'audit:read',
        })
      }
      const latest = await issue(people.viewer)
      const first = await people.owner.call<IssuedSshCertificate[]>('GET', `${path()}?per_page=5`)
      expect(first.body[0]).toMatchObject({
        serial: latest.serial,
        status: 'active',
        holder: { id: people.viewer.id, name: people.viewer.name },
        address: '127.0.0.1',
        key_type: 'ssh-ed25519',
        revoked_at: null,
      })
      expect(first.text).not.toContain('AAAA')
      const next = /<([^>]+)>; rel="next"/.exec(first.headers.get('link') ?? '')?.[1] ?? ''
      const second = await people.owner.call<IssuedSshCertificate[]>(
        'GET',
        next.replace(cp.url, ''),
      )
      const serials = [...first.body, ...second.body].map((c) => c.serial)
      expect(new Set(serials).size).toBe(10)
    })

    test('a signature that fails leaves an unsigned row and hands out nothing', async () => {
      const { sshSigners } = cp.running.ctx
      const { open } = sshSigners
      sshSigners.open = async (authority) => ({
        publicKey: (await open.call(sshSigners, authority)).publicKey,
        sign: () => Promise.reject(new Error('the device is gone')),
      })
      const answer = await ask(people.developer)
      sshSigners.open = open
      expect([answer.status, answer.text.includes('device')]).toEqual([500, false])
      expect((await listed())[0]).toMatchObject({ status: 'unsigned' })
    })
  })

  describe('the end of an access', () => {
    const revoke = (who: Member, serial: string, server = ids.server) =>
      who.call<IssuedSshCertificate>('DELETE', `${path(server)}/${serial}`)
    const revoked = async (server = ids.server) =>
      (await listRevokedSerials(db(), server, cp.running.ctx.clock.now())).map(String)

    test('the holder and those who manage the server revoke; nobody else learns anything', async () => {
      const [own, foreign] = [await issue(people.viewer), await issue(people.developer)]
      const others = await revoke(people.viewer, foreign.serial)
      const unknown = await revoke(people.viewer, '4711')
      expect([others.status, unknown.status]).toEqual([403, 403])
      expect(await revoked()).not.toContain(foreign.serial)
      const answer = await revoke(people.viewer, own.serial)
      expect(answer.status).toBe(202)
      expect(answer.body).toMatchObject({
        status: 'revoked',
        revoke_reason: 'revoked',
        revoked_by: { id: people.viewer.id },
      })
      expect((await revoke(people.admin, foreign.serial)).status).toBe(202)
      expect(await revoked()).toEqual(expect.arrayContaining([own.serial, foreign.serial]))
      expect((await revoke(people.admin, '4711')).status).toBe(404)
      expect((await revoke(people.admin, own.serial, ids.other)).status).toBe(404)
      for (const bad of ['0', '-1', '1e9', 'x', '99999999999999999999']) {
        expect((await revoke(people.admin, bad)).status).toBe(400)
      }
    })

    test('twice is once: the first reason and one audit row stay', async () => {
      const { serial } = await issue(people.viewer)
      const first = await revoke(people.viewer, serial)
      const again = await revoke(people.admin, serial)
      expect([again.status, again.body]).toEqual([202, first.body])
      const rows = await db()
        .selectFrom('audit')
        .select('details')
        .where('verb', '=', 'ssh_certificate.revoke')
        .where('details', 'like', `%${serial}%`)
        .execute()
      expect(rows).toHaveLength(1)
    })

    test('a revoked serial stays on the list until its last session must have ended', async () => {
      const short = await issue(people.viewer, { purpose: 'artifact' })
      const long = await issue(people.viewer, { purpose: 'logs' })
      for (const { serial } of [short, long]) await revoke(people.viewer, serial)
      const later = (hours: number) =>
        listRevokedSerials(db(), ids.server, cp.running.ctx.clock.now() + hours * 3_600_000)
      expect(await later(0.9)).toEqual(
        expect.arrayContaining([BigInt(short.serial), BigInt(long.serial)]),
      )
      const afterAnHour = await later(1.1)
      expect(afterAnHour).not.toContain(BigInt(short.serial))
      expect(afterAnHour).toContain(BigInt(long.serial))
      expect(await later(12.1)).toEqual([])
    })

    test('removing an environment revokes its certificates, and no others', async () => {
      const { id } = await cp.environment(projectId, 'going', { server_id: ids.server })
      const mine = await issue(people.developer, { environment_id: id, purpose: 'shell' })
      const kept = await issue(people.developer)
      const { ctx } = cp.running
      await change(ctx, (c) =>
        beginRemoval(
          ctx,
          c,
          { id, identifier: 'going' },
          { type: 'system', name: 'test' },
          { trigger: 'api' },
        ),
      )
      expect(await statusOf(mine.serial)).toMatchObject({ revoke_reason: 'environment_removed' })
      expect(await statusOf(kept.serial)).toMatchObject({ status: 'active' })
    })

    test('a lower role loses what it no longer includes; leaving loses all', async () => {
      await setShell(1)
      const who = await makeMember(cp, organizationId, 'admin')
      const member = { organizationId, userId: who.id }
      const logs = await issue(who)
      const shell = await issue(who, { purpose: 'shell' })
      const whole = await issue(who, { purpose: 'shell', environment_id: null })
      await setShell(0)
      const state = async () =>
        Promise.all([logs, shell, whole].map(async (c) => (await statusOf(c.serial))?.status))
      const { ctx } = cp.running
      await change(ctx, (c) => endSshAccessBeyondRole(c, member, 'owner'))
      expect(await state()).toEqual(['active', 'active', 'active'])
      await change(ctx, (c) => endSshAccessBeyondRole(c, member, 'developer'))
      expect(await state()).toEqual(['active', 'active', 'revoked'])
      await change(ctx, (c) => endSshAccessBeyondRole(c, member, 'viewer'))
      expect(await state()).toEqual(['active', 'revoked', 'revoked'])
      await change(ctx, (c) => endSshAccess(c, member, 'member_removed'))
      expect(await state()).toEqual(['revoked', 'revoked', 'revoked'])
    })

    test('a revocation that names nobody is a mistake, not everybody', async () => {
      const { ctx } = cp.running
      await expect(change(ctx, (c) => endSshAccess(c, {}, 'revoked'))).rejects.toThrow(
        'names whose',
      )
    })

    test('a request at the moment of protection waits for it, and is refused', async () => {
      const { ctx } = cp.running
      const caller = await people.developer.caller()
      const asked = body({ purpose: 'shell' }) as Parameters<typeof issueSshCertificate>[3]
      const earlier = await issue(people.developer, { purpose: 'shell' })
      const issuing = () =>
        issueSshCertificate(ctx, caller, ids.server, asked).then(
          () => 'issued',
          (error: { code: string }) => error.code,
        )
      let answer: Promise<string> | undefined
      let ended = 0
      const ownerId = people.owner.id
      await setEnvironment(ids.environment, { ownerId })
      await change(ctx, async (c) => {
        await c.db
          .updateTable('environments')
          .set({ protected: 1 })
          .where('id', '=', ids.environment)
          .execute()
        ended = await endShellsOfOthers(c, { id: ids.environment, ownerId })
        answer = issuing() // while this transaction is still open
        if (engine === 'postgres') await Promise.race([answer, somebodyWaits()])
      })
      expect(await answer).toBe('environment_protected')
      expect(ended).toBeGreaterThan(0)
      expect(await statusOf(earlier.serial)).toMatchObject({
        status: 'revoked',
        revoke_reason: 'environment_protected',
      })
      await setEnvironment(ids.environment, { protected: 0 })
      expect(await issuing()).toBe('issued') // the positive control
    })

    /** Resolves when another transaction of this database waits for a lock. */
    const somebodyWaits = () =>
      until('a transaction that waits', async () => {
        const { rows } = await sql`select 1 from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`.execute(db())
        return rows.length > 0 ? true : undefined
      })
  })
})
