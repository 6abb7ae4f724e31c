// What the specification promises about webhooks: each is authenticated by the project's own secret. Six forges, over
// real HTTP, on both databases; an unsigned delivery changes nothing and learns nothing.
import { createHmac } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { PROVIDERS } from '@berth/shared'
import type { Delivery, DeliveryDetail, ProjectCreated } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { decideOpenDeliveries } from '../../control-plane/src/app/forges/delivery-queue.ts'
import { flushRefused } from '../../control-plane/src/app/forges/rejected-deliveries.ts'
import { forgetDeliveries } from '../../control-plane/src/app/forges/webhook-deliveries.ts'
import {
  FIXTURES,
  fixture,
} from '../../control-plane/src/domain/forges/payloads/fixtures.testing.ts'
import { type Host, makeHost, sha } from '../fixtures/forge/webhook-sender.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { snapshot } from '../fixtures/platform/database-snapshot.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'

const WHOLE_BODY = 25 * 1_024 * 1_024

describe.each(ENGINES)('webhooks on %s', (engine) => {
  let cp: TestControlPlane
  let serverId = 0
  let made = 0
  beforeAll(async () => {
    cp = await TestControlPlane.start(engine)
    await cp.setUp()
    serverId = (await cp.server()).id
  })
  afterAll(() => cp.close())

  const host = (over: object = {}): Promise<Host> => {
    made += 1
    return makeHost(cp, serverId, {
      name: `preview-${made}`,
      domain: `preview-${made}.example.com`,
      ...over,
    })
  }

  /** Everything a delivery could change, except what the control plane itself learns meanwhile. */
  async function contents(): Promise<unknown[]> {
    const { db } = cp.running.ctx
    const all = await snapshot(db, engine)
    const tables = ['deliveries', 'pull_requests', 'environments', 'tasks', 'projects', 'events']
    // the chain over them is written later
    const audit = await db
      .selectFrom('audit')
      .select(['id', 'verb', 'details'])
      .orderBy('id')
      .execute()
    return [...tables.map((name) => all.get(name)), audit]
  }

  describe.each(PROVIDERS)('%s', (provider) => {
    test('every signed delivery is answered 202 and stands in the ledger', async () => {
      const h = await host()
      for (const f of FIXTURES.filter((one) => one.provider === provider)) {
        const answer = await h.replay(f)
        expect([f.name, answer.status]).toEqual([f.name, 202])
        const { delivery, outcome, reason } = answer.body
        expect(reason).toMatch(/\.$/)
        const shown = await cp.call<DeliveryDetail>('GET', `/api/deliveries/${delivery}`)
        expect(shown.body).toMatchObject({ outcome, provider, signed_with: 'current', tries: 1 })
        expect(shown.body.body).toBe(f.body)
        expect(shown.text).not.toContain(h.secret)
        expect(JSON.stringify(shown.body.headers)).not.toMatch(/signature|token|authorization/i)
      }
    })

    test('no, empty, truncated, other, SHA-1 or changed signatures are refused and change nothing', async () => {
      const h = await host()
      const other = await host()
      const f = fixture(provider, 'push')
      const good = h.sign(provider, f.headers, f.payload)
      const credential =
        Object.keys(good.headers).find((name) => /signature|x-gitlab-token/.test(name)) ?? ''
      const value = good.headers[credential] ?? ''
      const bad: [string, Record<string, string | undefined>, string?][] = [
        ['none', { [credential]: undefined }],
        ['empty', { [credential]: '' }],
        ['truncated', { [credential]: value.slice(0, -2) }],
        [
          "another project's",
          h.sign(provider, f.headers, f.payload, { secret: other.secret }).headers,
        ],
        [
          'SHA-1',
          { [credential]: `sha1=${createHmac('sha1', h.secret).update(good.body).digest('hex')}` },
        ],
        ['one byte changed', {}, good.body.replace('acme', 'acmf')],
      ]
      const refuseAll = async (): Promise<void> => {
        for (const [name, headers, body] of bad) {
          const sent = { ...good.headers, ...headers }
          const kept = Object.fromEntries(
            Object.entries(sent).filter((e): e is [string, string] => e[1] !== undefined),
          )
          const answer = await h.send({ headers: kept, body: body ?? good.body })
          expect([name, answer.status, (answer.body as unknown as { code: string }).code]).toEqual([
            name,
            401,
            'invalid_signature',
          ])
          const expected = createHmac('sha256', h.secret)
            .update(body ?? good.body)
            .digest('hex')
          for (const secret of [h.secret, expected, value])
            expect(answer.text).not.toContain(secret)
        }
      }
      // a delivery that changes something does so each time; the look at a new repository comes only once
      let before = await contents()
      await refuseAll()
      for (let n = 0; n < 3 && !isDeepStrictEqual(await contents(), before); n += 1) {
        before = await contents()
        await refuseAll()
      }
      expect(await contents()).toEqual(before)
      expect((await h.send(good)).status).toBe(202)
    })
  })

  test('an unknown project answers exactly as a wrong signature', async () => {
    const h = await host()
    const f = fixture('github', 'push')
    const signed = h.sign('github', f.headers, f.payload)
    const wrong = { ...signed.headers, 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` }
    const known = await h.send({ headers: wrong, body: signed.body })
    expect(known.headers.get('www-authenticate')).toBeNull() // no bearer token opens this gateway
    const strip = (text: string) =>
      text.replaceAll(/"(request_id|instance)":"[^"]*"/g, '').replaceAll(/\d{6,}/g, '')
    for (const id of ['999999', '0', '-1', 'abc', '99999999999999', '1e3']) {
      const answer = await cp.call('POST', `/webhooks/${id}`, signed.body, signed.headers)
      expect(answer.status).toBe(401)
      expect(strip(answer.text)).toBe(strip(known.text))
    }
  })

  test('a project without a secret accepts nothing', async () => {
    const h = await host()
    await cp.running.ctx.db
      .updateTable('projects')
      .set({ webhookSecretSealed: null })
      .where('id', '=', h.projectId)
      .execute()
    for (const secret of [h.secret, '', 'null', 'undefined']) {
      const f = fixture('github', 'push')
      const sent = h.sign('github', f.headers, f.payload, { secret })
      expect((await h.send(sent)).status).toBe(401)
    }
  })

  test('a body over 25 MiB is refused, one below is read', async () => {
    const h = await host()
    const big = (bytes: number) => {
      const payload = { ref: 'refs/tags/v1', filler: 'x'.repeat(bytes) }
      return h.sign('github', { 'x-github-event': 'push' }, payload)
    }
    const refused = await h.send(big(WHOLE_BODY + 1_000)).catch((error: unknown) => error)
    // the answer may arrive while the body is still being sent
    if (!(refused instanceof Error)) expect((refused as { status: number }).status).toBe(413)
    const read = await h.send(big(WHOLE_BODY - 1_000))
    expect([read.status, read.body.rule]).toEqual([202, 'unsupported_event'])
    const [row] = await h.deliveries()
    const shown = await cp.call<DeliveryDetail>('GET', `/api/deliveries/${row?.id}`)
    expect(shown.body).toMatchObject({ body: null })
    expect(shown.body.body_bytes).toBeGreaterThan(WHOLE_BODY - 2_000)
  })

  test('another media type is 415, and GET is no way in', async () => {
    const h = await host()
    const plain = await cp.call('POST', `/webhooks/${h.projectId}`, 'x', {
      'content-type': 'text/plain',
    })
    expect([plain.status, plain.body.code]).toEqual([415, 'unsupported_media_type'])
    expect((await cp.call('GET', `/webhooks/${h.projectId}`)).status).toBe(405)
  })

  test('more than 100 wrong signatures a minute are refused before the body is read', async () => {
    const h = await host()
    const f = fixture('github', 'push')
    const good = h.sign('github', f.headers, f.payload)
    const wrong = { ...good.headers, 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` }
    const statuses: number[] = []
    for (let i = 0; i < 101; i++) {
      statuses.push((await h.send({ headers: wrong, body: '{}' })).status)
    }
    expect(new Set(statuses.slice(0, 100))).toEqual(new Set([401]))
    expect(statuses[100]).toBe(429)
    expect((await h.send(good)).status).toBe(429)
    const other = await host()
    expect((await other.push('main', sha(1))).status).toBe(202)
    cp.clock.offsetMs += 61_000
    expect((await h.send(h.sign('github', f.headers, f.payload))).status).toBe(202)
    await flushRefused(cp.running.ctx)
    const shown = await cp.call('GET', `/api/projects/${h.projectId}/refused_deliveries`)
    const rows = shown.body as unknown as { reason: string; provider: string }[]
    expect(rows.length).toBe(20)
    expect(rows[0]).toMatchObject({ provider: 'github' })
  })

  describe('which repository', () => {
    test('a delivery about another repository changes nothing', async () => {
      const h = await host({ repo_url: 'https://git.example.com/acme/other.git' })
      await cp.environment(h.projectId, 'main')
      const answer = await h.replay(fixture('github', 'push'))
      expect(answer.body).toMatchObject({ outcome: 'ignored', rule: 'repository_mismatch' })
    })

    test('the first match is learned; a rename is accepted and shown, another id is not', async () => {
      const h = await host()
      await h.replay(fixture('github', 'push'))
      const read = async () =>
        (await cp.call<ProjectCreated>('GET', `/api/projects/${h.projectId}`)).body.repository
      expect(await read()).toMatchObject({ provider: 'github', external_id: '4711' })
      const f = fixture('github', 'push')
      const payload = structuredClone(f.payload) as {
        repository: { id: number; full_name: string; html_url: string }
      }
      payload.repository.full_name = 'acme/store'
      payload.repository.html_url = 'https://git.example.com/acme/store'
      const renamed = await h.send(h.sign('github', f.headers, payload))
      expect(renamed.body.rule).toBe('no_environment')
      expect(await read()).toMatchObject({ renamed_to: 'acme/store' })
      payload.repository.id = 1
      payload.repository.full_name = 'acme/shop'
      const impostor = await h.send(h.sign('github', f.headers, payload))
      expect(impostor.body.rule).toBe('repository_mismatch')
    })
  })

  describe('secrets over time', () => {
    test('the former secret is accepted until the first delivery with the new one, at most a day', async () => {
      const h = await host()
      const former = h.secret
      const regenerate = async () =>
        (await cp.make<{ secret: string }>(`/api/projects/${h.projectId}/webhook_secret`)).secret
      h.secret = await regenerate()
      const send = async (secret: string) =>
        (await h.replay(fixture('github', 'push'), { secret })).status
      expect(await send(former)).toBe(202)
      const [row] = await h.deliveries()
      expect(row?.signed_with).toBe('previous')
      expect(await send(h.secret)).toBe(202)
      expect(await send(former)).toBe(401)
      const second = h.secret
      h.secret = await regenerate()
      expect(await send(second)).toBe(202)
      await cp.advance(25 * 3_600_000)
      expect(await send(second)).toBe(401)
      expect(await send(h.secret)).toBe(202)
    })
  })

  describe('the ledger', () => {
    test('the same delivery twice is a duplicate, with the first outcome in its reply', async () => {
      const h = await host()
      await cp.environment(h.projectId, 'main')
      const first = await h.push('main', sha(1), { id: 'one' })
      expect(first.body.rule).toBe('server_not_ready')
      const second = await h.push('main', sha(1), { id: 'one' })
      expect(second.body).toMatchObject({ outcome: 'duplicate', rule: 'duplicate' })
      expect(second.body.reason).toContain(`Delivery ${first.body.delivery}`)
      cp.clock.offsetMs += 8 * 86_400_000
      const later = await h.push('main', sha(2), { id: 'one' })
      expect(later.body.rule).not.toBe('duplicate')
    })

    test('a payload that is not understood says where, and is kept', async () => {
      const h = await host()
      const sent = h.sign('github', { 'x-github-event': 'push' }, { ref: 'refs/heads/-x' })
      const answer = await h.send(sent)
      expect(answer.body).toMatchObject({ outcome: 'ignored', rule: 'malformed_payload' })
      expect(answer.body.reason).toContain('ref is not the name of a branch')
      const again = await cp.make<Delivery>(`/api/deliveries/${answer.body.delivery}/redeliver`)
      expect(again.reason).toBe(answer.body.reason)
    })

    test('filters, pages and the single delivery', async () => {
      const h = await host()
      for (const n of [1, 2, 3]) await h.opened({ number: n, head: sha(n) })
      await h.push('nowhere', sha(9))
      expect((await h.deliveries('&pull_request=2')).map((d) => d.event)).toEqual([
        'pull_request.opened',
      ])
      expect((await h.deliveries('&event=push')).map((d) => d.rule)).toEqual(['no_environment'])
      expect((await h.deliveries('&outcome=waiting')).length).toBe(3)
      const page = await cp.call<Delivery[]>(
        'GET',
        `/api/projects/${h.projectId}/deliveries?per_page=2`,
      )
      expect(page.body.map((d) => d.event)).toEqual(['push', 'pull_request.opened'])
      const next = /<([^>]+)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1] ?? ''
      const rest = await cp.call<Delivery[]>('GET', next.replace(cp.url, ''))
      expect(rest.body.length).toBe(2)
      const [first] = rest.body
      const whole = await cp.call<DeliveryDetail>('GET', `/api/deliveries/${first?.id}`)
      expect(whole.body.normalised).toMatchObject({ kind: 'pull_request', provider: 'github' })
    })

    test('what nobody decided is decided by the tick, and given up visibly after three tries', async () => {
      const h = await host()
      const answer = await h.push('main', sha(1))
      const { db } = cp.running.ctx
      const reopen = (tries: number) =>
        db
          .updateTable('deliveries')
          .set({ decidedAt: null, outcome: 'received', rule: null, tries })
          .where('id', '=', answer.body.delivery)
          .execute()
      const read = async () =>
        (await cp.call<Delivery>('GET', `/api/deliveries/${answer.body.delivery}`)).body
      await reopen(1)
      await cp.advance(5_000)
      expect(await read()).toMatchObject({ outcome: 'ignored', rule: 'no_environment', tries: 2 })
      await reopen(3)
      await cp.advance(60_000)
      expect(await read()).toMatchObject({ outcome: 'error', rule: 'undecided' })
      await decideOpenDeliveries(cp.running.ctx)
      expect((await read()).tries).toBe(3)
    })

    test('rows live 30 days, bodies 7, and a project keeps its newest', async () => {
      const h = await host()
      const { delivery } = (await h.push('main', sha(1))).body
      const body = async () =>
        (await cp.call<DeliveryDetail>('GET', `/api/deliveries/${delivery}`)).body.body
      expect(await body()).not.toBeNull()
      cp.clock.offsetMs += 8 * 86_400_000
      expect(await body()).toBeNull()
      await forgetDeliveries(cp.running.ctx)
      const row = await cp.running.ctx.db
        .selectFrom('deliveries')
        .select('body')
        .where('id', '=', delivery)
        .executeTakeFirstOrThrow()
      expect(row.body).toBeNull()
      cp.clock.offsetMs += 23 * 86_400_000
      await forgetDeliveries(cp.running.ctx)
      expect((await cp.call('GET', `/api/deliveries/${delivery}`)).status).toBe(404)
    })
  })
})
