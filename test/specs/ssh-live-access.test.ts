// Live SSH access: who sees which certificates and sessions, and what ends them; forwarding and copying need the right
// to a shell; logs of services without SSH; and a paused server. A real daemon, both databases.
import { generateKeyPairSync } from 'node:crypto'
import { join } from 'node:path'
import type { IssuedSshCertificate, LiveSshAccess, Server, SshCertificate } from '@berth/shared/api'
import { ed25519PublicKey, formatPublicKey } from '@berth/shared/ssh'
import { SshSessionChangedSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Masker } from '../../agent/src/machine/masking/mask.ts'
import { ServiceLog } from '../../agent/src/service-logs/writer.ts'
import { change } from '../../control-plane/src/app/core/transaction.ts'
import { applySshSession } from '../../control-plane/src/app/ssh/sessions.ts'
import { findServerAgent } from '../../control-plane/src/store/servers/agents.ts'
import { type Member, makeMember, makeOrganization } from '../fixtures/people/ssh-people.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { until } from '../fixtures/server/installation.ts'

describe.each(ENGINES)('live access on %s', (engine) => {
  let p: Platform
  let environmentId: number
  let ada: Member // developer
  let root: Member // admin
  let viewer: Member

  beforeAll(async () => {
    p = await Platform.start(engine)
    environmentId = (await p.environment('main')).id
    const { organization_id: organizationId } = (
      await p.cp.call<Server>('GET', `/api/servers/${p.serverId}`)
    ).body
    ada = await makeMember(p.cp, organizationId, 'developer')
    root = await makeMember(p.cp, organizationId, 'admin')
    viewer = await makeMember(p.cp, organizationId, 'viewer')
  })
  afterAll(() => p.close())

  const ask = (who: Member, purpose: string, over: object = {}) => {
    const key = ed25519PublicKey(generateKeyPairSync('ed25519').publicKey)
    const body = { public_key: formatPublicKey(key), purpose, environment_id: environmentId }
    return who.call<SshCertificate>('POST', `/api/servers/${p.serverId}/ssh`, { ...body, ...over })
  }
  const certify = async (who: Member, purpose: string): Promise<SshCertificate> => {
    const { status, body, text } = await ask(who, purpose)
    expect(status, text).toBe(201)
    return body
  }
  const list = async (who: Member, query = '') =>
    (await who.call<LiveSshAccess[]>('GET', `/api/ssh/sessions${query}`)).body
  const serials = async (who: Member, query = '') =>
    (await list(who, query)).map(({ serial }) => serial)

  /** As the agent of the server reports it. */
  const report = async (serial: string, sessionId: string, over: object = {}): Promise<void> => {
    const { ctx } = p.cp.running
    const agent = await findServerAgent(ctx.db, p.serverId)
    if (!agent) throw new Error('no agent')
    const session = create(SshSessionChangedSchema, {
      serial: BigInt(serial),
      sessionId,
      verb: 'forward db:5432',
      environmentId,
      startedAt: timestampFromMs(1_790_000_000_000),
      ...over,
    })
    await change(ctx, (c) => applySshSession(c, agent, session))
  }
  const ended = { endedAt: timestampFromMs(1_790_000_060_000) }

  test('forward and copy: one verb each, no terminal, and only with the right to a shell', async () => {
    for (const purpose of ['forward', 'copy']) {
      const made = await certify(ada, purpose)
      expect(made).toMatchObject({
        user: 'berth-ssh',
        principals: [`berth:server:${p.serverId}`],
        grant: { environment_id: environmentId, can: [purpose] },
        extensions: ['grant@berth.dev'],
      })
      const denied = await ask(viewer, purpose)
      expect([denied.status, denied.body]).toMatchObject([403, { code: 'permission_denied' }])
      const whole = await ask(root, purpose, { environment_id: null })
      expect([whole.status, whole.text]).toEqual([
        422,
        expect.stringContaining(`the purpose \\"${purpose}\\" is for one environment`),
      ])
      const reader = await makeMember(p.cp, 1, 'developer', ['read', 'deploy'])
      expect((await ask(reader, purpose)).body).toMatchObject({ code: 'insufficient_scope' })
    }
  })

  test('a protected environment: only its owner forwards and copies, and what others hold ends', async () => {
    const held = await certify(ada, 'forward')
    const set = (isProtected: boolean) =>
      p.cp.call('PATCH', `/api/environments/${environmentId}`, { protected: isProtected })
    expect((await set(true)).status).toBe(200)
    expect((await ask(ada, 'copy')).body).toMatchObject({ code: 'environment_protected' })
    expect(await serials(ada)).not.toContain(held.serial)
    expect((await set(false)).status).toBe(200)
  })

  test('one’s own, of everyone for those who read the audit log, and nothing across organizations', async () => {
    const mine = await certify(ada, 'forward')
    const theirs = await certify(root, 'logs')
    const own = await serials(ada)
    expect([own.includes(mine.serial), own.includes(theirs.serial)]).toEqual([true, false])
    const all = await serials(root, '?everyone=true')
    expect(all).toEqual(expect.arrayContaining([mine.serial, theirs.serial]))
    const refused = await ada.call('GET', '/api/ssh/sessions?everyone=true')
    expect([refused.status, refused.body]).toMatchObject([403, { code: 'permission_denied' }])
    const organizationId = await makeOrganization(p.cp, `Other${engine}`)
    const stranger = await makeMember(p.cp, organizationId, 'owner')
    expect(await list(stranger, '?everyone=true')).toEqual([])
    expect(await list(stranger)).toEqual([])
  })

  test('what an agent reports as open is shown until it ends, once', async () => {
    const { serial } = await certify(ada, 'forward')
    const find = async () => (await list(ada)).find((one) => one.serial === serial)
    expect(await find()).toMatchObject({ sessions: [], status: 'active', environment: 'main' })
    await report(serial, 'aa')
    await report(serial, 'aa') // repeated, because it was not acknowledged
    await report(serial, 'bb', { verb: 'forward web:80' })
    const seen = await find()
    expect(seen?.sessions.map(({ verb }) => verb).toSorted()).toEqual([
      'forward db:5432',
      'forward web:80',
    ])
    expect(seen?.server).toMatchObject({ id: p.serverId })
    await report(serial, 'bb', ended)
    expect((await find())?.sessions).toHaveLength(1)
    // an expired certificate is shown as long as it holds a session
    await p.cp.advance(600_000)
    expect(await find()).toMatchObject({
      status: 'expired',
      sessions: [{ verb: 'forward db:5432' }],
    })
    await report(serial, 'aa', ended)
    expect(await find()).toBeUndefined()
    await report('4711', 'cc') // of no certificate that was issued here
    expect(await serials(root, '?everyone=true')).not.toContain('4711')
  })

  test('a revoked certificate with a session is shown until the server has ended it', async () => {
    const { serial } = await certify(ada, 'copy')
    await report(serial, 'dd')
    const path = `/api/servers/${p.serverId}/ssh/${serial}`
    expect((await viewer.call('DELETE', path)).status).toBe(403)
    const { status, body } = await root.call<IssuedSshCertificate>('DELETE', path)
    expect([status, body.status]).toEqual([202, 'revoked'])
    const find = async () => (await list(ada)).find((one) => one.serial === serial)
    expect(await find()).toMatchObject({ status: 'revoked', sessions: [{}] })
    await report(serial, 'dd', ended)
    expect(await find()).toBeUndefined()
  })

  test('logs of services come through the control plane, recorded, and only for readers', async () => {
    const dir = join(p.agentDir, 'logs', `e${environmentId}`, 'web')
    const log = new ServiceLog(dir, 7, new Masker([Buffer.from('hunter2-secret')]))
    log.write('out', Buffer.from('one hunter2-secret\n'))
    log.write('err', Buffer.from('two\n'))
    const path = `/api/environments/${environmentId}/service_logs`
    const read = async (query: string, who = viewer, signal?: AbortSignal) =>
      fetch(`${p.cp.url}${path}${query}`, {
        headers: { authorization: `Bearer ${who.token}` },
        ...(signal ? { signal } : {}),
      })
    const texts = (body: string) =>
      body
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line).text)
    const answer = await read('?service=web&tail=5')
    expect(answer.headers.get('content-type')).toContain('application/x-ndjson')
    expect(texts(await answer.text())).toEqual(['one ***', 'two'])
    expect(texts(await (await read('?tail=1')).text())).toEqual(['two'])
    expect(texts(await (await read('?service=nothing')).text())).toEqual([])
    const later = encodeURIComponent(new Date(Date.now() + 60_000).toISOString())
    expect(texts(await (await read(`?since=${later}`)).text())).toEqual([])
    const leave = new AbortController()
    const live = await read('?follow=true&tail=1', viewer, leave.signal)
    let heard = ''
    const reading = (async () => {
      const decoder = new TextDecoder()
      for await (const chunk of live.body ?? []) heard += decoder.decode(chunk)
    })().catch(() => undefined)
    await until('the last line', () => heard.includes('two') || undefined)
    log.write('out', Buffer.from('three\n'))
    await until('the new line', () => heard.includes('three') || undefined)
    leave.abort()
    await reading
    const audit = await p.cp.call<{ action: string; actor: { name: string } }[]>(
      'GET',
      '/api/organizations/1/audit?per_page=100',
    )
    const rows = audit.body.filter((row) => JSON.stringify(row).includes('service_logs.read'))
    expect(rows.length).toBeGreaterThanOrEqual(4)
    for (const query of ['?tail=0', '?tail=10001', '?since=yesterday', '?follow=maybe']) {
      expect((await read(query)).status, query).toBe(400)
    }
    // the endpoint that was removed stays removed
    expect((await p.cp.call('GET', `/api/environments/${environmentId}/logs`)).status).toBe(404)
    log.close()
  })

  test('a paused server says who paused it, and its tasks wait with that reason', async () => {
    const server = `/api/servers/${p.serverId}`
    const paused = await root.call<Server>('PATCH', server, { paused: true })
    expect(paused.body).toMatchObject({ paused: true, paused_by: { id: root.id, name: root.name } })
    expect(paused.body.paused_at).not.toBeNull()
    const again = await p.cp.call<Server>('PATCH', server, { paused: true })
    expect(again.body.paused_by).toEqual({ id: root.id, name: root.name })
    expect((await ada.call('PATCH', server, { paused: false })).status).toBe(403)
    const { body: task } = await p.deploy(environmentId)
    const waiting = (await p.task(task.id)).waiting_for
    expect(waiting?.message).toMatch(new RegExp(` is paused by ${root.name}\\.$`))
    const resumed = await root.call<Server>('PATCH', server, { paused: false })
    expect(resumed.body).toMatchObject({ paused: false, paused_by: null, paused_at: null })
    await p.settled(task.id)
  })

  test('without an agent, logs are refused and never empty', async () => {
    p.killAgent()
    await until('its absence', async () => {
      const { body } = await p.cp.call<Server>('GET', `/api/servers/${p.serverId}`)
      return body.status !== 'online' || undefined
    })
    const path = `/api/environments/${environmentId}/service_logs`
    const refused = await viewer.call('GET', path)
    expect([refused.status, refused.body]).toMatchObject([503, { code: 'server_offline' }])
  })
})
