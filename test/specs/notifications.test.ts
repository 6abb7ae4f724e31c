// Notifications against real receivers: HTTP servers that fail, are slow, are down, and a real mail server. Every
// notification arrives once, in order, with retries; after a restart too. On both databases.
import { createHmac } from 'node:crypto'
import type { Channel, Notification } from '@berth/shared/api'
import { Webhook } from 'standardwebhooks'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { NOTICES } from '../../control-plane/src/limits/notices.ts'
import { HttpReceiver } from '../fixtures/people/receivers.ts'
import { makePerson } from '../fixtures/platform/dashboard-client.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { NoticeFixture } from '../fixtures/platform/notices.ts'
import { until } from '../fixtures/server/installation.ts'

const HOUR = 3_600_000

describe.each(ENGINES)('notifications on %s', (engine) => {
  let f: NoticeFixture
  beforeEach(async () => {
    f = await NoticeFixture.start(engine)
  })
  afterEach(() => f.close())

  test('a failed deployment arrives at a webhook, signed, with step, error line, commit and links', async () => {
    const made = await f.makeHook(['deployment.failed'])
    f.failing()
    const task = await f.deploy()
    const [got] = await f.hook.has(1)
    const [row] = await f.settledAs(made.id, 'delivered')
    const headers = got?.headers as Record<string, string>
    const verified = new Webhook(made.secret as string).verify(got?.raw as string, headers)
    expect(verified).toEqual(got?.body)
    const key = Buffer.from((made.secret as string).slice('whsec_'.length), 'base64')
    const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${got?.raw}`
    const signature = createHmac('sha256', key).update(signed).digest('base64')
    expect(headers['webhook-signature']).toBe(`v1,${signature}`)
    expect(() => new Webhook(made.secret as string).verify(`${got?.raw} `, headers)).toThrow()
    expect(got?.body).toMatchObject({
      type: 'deployment.failed',
      data: {
        title: 'shop / main: deployment failed',
        project: { id: f.platform.projectId, name: 'shop' },
        environment: {
          identifier: 'main',
          type: 'manual',
          protected: false,
          url: `${f.platform.cp.url}/environments/${f.environment.id}`,
        },
        task: {
          id: task.id,
          commit_sha: 'c'.repeat(40),
          commit_message: 'Fix totals',
          triggered_by: 'Ada',
          failed_step: 'Play',
          message: 'The build failed.',
          error_line: 'Error: cannot find module "left-pad" <!everyone> @everyone @here',
          url: `${f.platform.cp.url}/tasks/${task.id}`,
        },
      },
    })
    expect(row).toMatchObject({
      happening: 'deployment.failed',
      message_id: headers['webhook-id'],
      task_id: task.id,
      tries: 1,
      answer_status: 200,
      answer: 'ok',
    })
  })

  test('recovered is the first success after a failure; a rule that names both gets one notification', async () => {
    const both = await f.makeHook(['deployment.recovered', 'deployment.succeeded'])
    const chat = new HttpReceiver()
    await chat.listen()
    await f.make({
      name: 'only',
      kind: 'webhook',
      url: chat.url,
      rules: [{ happenings: ['deployment.recovered'] }],
    })
    f.working()
    await f.deploy()
    f.failing()
    await f.deploy()
    f.working()
    await f.deploy()
    await f.deploy()
    await f.settledAs(both.id, 'delivered', 3)
    expect(f.hook.got.map(({ body }) => body.type)).toEqual([
      'deployment.succeeded',
      'deployment.recovered',
      'deployment.succeeded',
    ])
    expect(chat.got.map(({ body }) => body.type)).toEqual(['deployment.recovered'])
    expect(chat.got[0]?.body.data.environment.address).toBe('http://127.0.0.1:20000')
    await chat.close()
  })

  test('a receiver that fails gets everything once it works, in order, each under one id', async () => {
    const made = await f.makeHook(['deployment.succeeded'])
    f.hook.behave = (_got, answer) =>
      void answer.writeHead(503, { 'retry-after': '120' }).end('busy')
    f.working()
    const first = await f.deploy()
    await f.hook.has(1)
    const second = await f.deploy()
    const [row] = await until('the failed try', async () => {
      const rows = (await f.ledger(made.id)).filter(({ tries }) => tries === 1)
      return rows.length > 0 ? rows : undefined
    })
    expect(row).toMatchObject({ task_id: first.id, status: 'waiting', answer_status: 503 })
    expect(row?.error).toBe(`127.0.0.1:${f.hook.port} answered 503 (busy).`)
    const waitMs = Date.parse(row?.next_at as string) - Date.parse(row?.created_at as string)
    expect(waitMs).toBeGreaterThanOrEqual(119_000) // as the receiver asked, not the usual five seconds
    expect(await f.channel(made.id)).toMatchObject({
      waiting: 2,
      failing_since: expect.any(String),
    })
    f.hook.accept()
    f.later(130_000)
    await f.settledAs(made.id, 'delivered', 2)
    expect(f.hook.got.map(({ body }) => body.data.task.id)).toEqual([first.id, first.id, second.id])
    const ids = f.hook.got.map(({ headers }) => headers['webhook-id'])
    expect(ids[0]).toBe(ids[1])
    expect(ids[2]).not.toBe(ids[0])
    expect(f.hook.got[0]?.raw).toBe(f.hook.got[1]?.raw)
    expect(await f.channel(made.id)).toMatchObject({ waiting: 0, failing_since: null, error: null })
  })

  test('a receiver that is down holds nothing up, and what was queued before a restart is sent after it', async () => {
    const made = await f.makeHook(['deployment.succeeded'])
    await f.hook.close()
    f.working()
    const task = await f.deploy()
    await until('a try', async () => (await f.ledger(made.id))[0]?.tries || undefined)
    expect((await f.ledger(made.id))[0]?.error).toContain('ECONNREFUSED')
    await f.platform.cp.restart()
    await f.hook.listen()
    f.later(10_000)
    await f.hook.has(1)
    await f.settledAs(made.id, 'delivered')
    expect(f.hook.got.map(({ body }) => body.data.task.id)).toEqual([task.id])
  })

  test('a stop in the middle of a request counts no failure; the same id arrives after the start', async () => {
    const made = await f.makeHook(['deployment.succeeded'])
    f.hook.behave = () => {} // never answers
    f.working()
    await f.deploy()
    await f.hook.has(1)
    f.hook.accept()
    await f.platform.cp.restart()
    await f.settledAs(made.id, 'delivered')
    expect(f.hook.distinct).toHaveLength(1)
    expect((await f.ledger(made.id))[0]?.tries).toBe(1)
  })

  test.each([
    ['a redirect', 302, { location: 'http://169.254.169.254/' }, 'redirects to another address'],
    ['a refusal', 404, {}, 'answered 404'],
  ])(
    '%s is not followed and is given up soon, so that it does not hold the next one',
    async (_what, status, headers, error) => {
      const made = await f.makeHook(['deployment.succeeded'])
      let refusals = 0
      f.hook.behave = (_got, answer) => {
        refusals += 1
        answer.writeHead(status, headers).end()
      }
      f.working()
      await f.deploy()
      await until('the end of its tries', async () => {
        f.later(HOUR)
        return (await f.ledger(made.id, '?status=given_up')).length || undefined
      })
      expect(refusals).toBe(NOTICES.refusedTries)
      expect((await f.ledger(made.id))[0]?.error).toContain(error)
      f.hook.accept()
      await f.deploy()
      await f.settledAs(made.id, 'delivered')
      expect((await f.channel(made.id)).broken_at).toBeNull()
    },
  )

  test('an endless answer and one that breaks off after the status count by their status', async () => {
    const made = await f.makeHook(['deployment.succeeded'])
    let isOpen = true
    f.hook.behave = (_got, answer) => {
      answer.writeHead(200)
      const more = (): void => {
        if (isOpen && !answer.destroyed)
          answer.write('\u001b[31mx'.repeat(1_000), () => setImmediate(more))
      }
      answer.on('close', () => {
        isOpen = false
      })
      more()
    }
    f.working()
    await f.deploy()
    const [row] = await f.settledAs(made.id, 'delivered')
    expect(row?.answer).toMatch(/^x{150,}/)
    expect(row?.answer).not.toContain('\u001b')
    await until('the end of the connection', () => !isOpen || undefined)
    f.hook.behave = (_got, answer) => {
      answer.writeHead(200, { 'content-length': '100' })
      answer.write('half', () => answer.destroy())
    }
    await f.deploy()
    await f.settledAs(made.id, 'delivered', 2)
  })

  test('a slow receiver is left after its deadline and delays no other channel', {
    timeout: 60_000,
  }, async () => {
    const made = await f.makeHook(['deployment.succeeded'])
    const fast = new HttpReceiver()
    await fast.listen()
    await f.make({
      name: 'fast',
      kind: 'slack',
      url: fast.url,
      rules: [{ happenings: ['deployment.succeeded'] }],
    })
    f.hook.behave = () => {}
    f.working()
    await f.deploy()
    await f.deploy()
    await fast.has(2) // while the slow one is still being waited for
    expect(await f.ledger(made.id, '?status=waiting')).toHaveLength(2)
    const [row] = await until(
      'the deadline',
      async () => {
        const rows = (await f.ledger(made.id)).filter(({ tries }) => tries > 0)
        return rows.length > 0 ? rows : undefined
      },
      30_000,
    )
    expect(row?.error).toContain('did not answer in 10 s')
    await fast.close()
  })

  test('a receiver that fails for a day is broken: owners are told once, a test starts it again, skipped ones are replayed', async () => {
    await makePerson(f.platform.cp, 'admin', { organizationId: f.organizationId, role: 'admin' })
    await makePerson(f.platform.cp, 'developer', {
      organizationId: f.organizationId,
      role: 'developer',
    })
    const made = await f.makeHook(['deployment.succeeded'])
    f.hook.behave = (_got, answer) => void answer.writeHead(500).end()
    f.working()
    const lost = await f.deploy()
    const behind = await f.deploy()
    await until('the end of the tries', async () => {
      f.later(9 * HOUR)
      return (await f.channel(made.id)).broken_at ?? undefined
    })
    expect(await f.ledger(made.id)).toMatchObject([
      { task_id: behind.id, status: 'skipped', error: 'The channel is broken.' },
      { task_id: lost.id, status: 'given_up', tries: NOTICES.backoffMs.length + 1 },
    ])
    const told = await f.mail.has(2)
    expect(told.map(({ to, subject }) => `${subject} → ${to}`).toSorted()).toEqual([
      'Notifications to hook fail → ada@example.com',
      'Notifications to hook fail → admin@example.com',
    ])
    const during = await f.deploy()
    expect((await f.ledger(made.id))[0]).toMatchObject({ task_id: during.id, status: 'skipped' })
    f.hook.got.length = 0
    const refused = await f.platform.cp.call<Notification[]>(
      'POST',
      `/api/channels/${made.id}/test`,
    )
    expect(refused.body).toMatchObject([
      { happening: 'test', status: 'given_up', answer_status: 500 },
    ])
    expect((await f.channel(made.id)).broken_at).not.toBeNull()
    const soon = await f.platform.cp.call('POST', `/api/channels/${made.id}/test`)
    expect([soon.status, soon.body.code]).toEqual([429, 'rate_limited'])
    f.hook.accept()
    f.later(NOTICES.testMs)
    const worked = await f.platform.cp.call<Notification[]>('POST', `/api/channels/${made.id}/test`)
    expect(worked.body).toMatchObject([{ status: 'delivered', title: 'Acme: test notification' }])
    expect(await f.channel(made.id)).toMatchObject({ broken_at: null, failing_since: null })
    const [skipped] = await f.ledger(made.id, '?status=skipped')
    const again = await f.platform.cp.call<Notification>(
      'POST',
      `/api/notifications/${skipped?.id}/replay`,
    )
    expect(again.status).toBe(202)
    expect(again.body).toMatchObject({ replay_of: skipped?.id, message_id: skipped?.message_id })
    await until(
      'the replay',
      () =>
        f.hook.got.some(({ headers }) => headers['webhook-id'] === skipped?.message_id) ||
        undefined,
    )
    expect(f.mail.got).toHaveLength(2)
  })

  test('a receiver that says 410 gets no more; one that refuses many in a row neither', async () => {
    const made = await f.makeHook(['deployment.succeeded'])
    f.hook.behave = (_got, answer) => void answer.writeHead(410).end()
    f.working()
    await f.deploy()
    await until('the break', async () => (await f.channel(made.id)).broken_at ?? undefined)
    expect(f.hook.got).toHaveLength(1)
    const url = `${f.hook.url}/new`
    const patched = await f.platform.cp.call<Channel>('PATCH', `/api/channels/${made.id}`, { url })
    expect(patched.body).toMatchObject({ broken_at: null, error: null })
    f.hook.behave = (_got, answer) => void answer.writeHead(400).end()
    for (let n = 0; n < NOTICES.refusedInRow; n++) await f.deploy()
    await until('the break', async () => {
      f.later(HOUR)
      return (await f.channel(made.id)).broken_at ?? undefined
    })
    expect(await f.ledger(made.id, '?status=given_up')).toHaveLength(NOTICES.refusedInRow + 1)
  })

  test('mail reaches each address once, under a fixed Message-ID, also after a failure and a restart', async () => {
    const made = await f.make({
      name: 'mail',
      kind: 'email',
      recipients: ['Ops@Example.com', 'ada@example.com', 'ops@example.com'],
      rules: [{ happenings: ['deployment.failed'] }],
    })
    expect(made).toMatchObject({
      recipients: ['ops@example.com', 'ada@example.com'],
      target: null,
      secret: null,
    })
    f.mail.refuse = () => Object.assign(new Error('try later'), { responseCode: 451 })
    f.failing('Zeile 1\r\nBcc: evil@example.com')
    const task = await f.deploy()
    await until('the failed tries', async () => {
      const rows = await f.ledger(made.id)
      return rows.filter(({ tries }) => tries === 1).length === 2 || undefined
    })
    f.mail.refuse = undefined
    await f.platform.cp.restart()
    f.later(10_000)
    await f.settledAs(made.id, 'delivered', 2)
    expect(f.mail.got.map(({ to }) => to[0]).toSorted()).toEqual([
      'ada@example.com',
      'ops@example.com',
    ])
    const rows = await f.ledger(made.id)
    for (const { to, messageId, raw, subject } of f.mail.got) {
      const row = rows.find(({ recipient }) => recipient === to[0])
      expect(messageId).toBe(`<${row?.message_id}@${f.ctx.installationId}>`)
      expect(subject).toBe('shop / main: deployment failed')
      expect(raw).toContain('Failed step: Play')
      expect(raw).toContain('Error: cannot find module')
      expect(raw).toContain(`${f.platform.cp.url}/tasks/${task.id}`)
      expect(raw).not.toMatch(/^Bcc:/m)
    }
    await f.deploy()
    await f.settledAs(made.id, 'delivered', 4)
    expect(f.mail.got).toHaveLength(4)
  })

  test('an address that the mail server refuses for good is given up at once and holds no other up', async () => {
    const made = await f.make({
      name: 'mail',
      kind: 'email',
      recipients: ['nobody@example.com', 'ops@example.com'],
      rules: [{ happenings: ['deployment.succeeded'] }],
    })
    f.mail.refuse = (address) =>
      address.startsWith('nobody')
        ? Object.assign(new Error('unknown'), { responseCode: 550 })
        : undefined
    f.working()
    for (let n = 0; n <= NOTICES.refusedInRow; n++) await f.deploy()
    await f.settledAs(made.id, 'delivered', NOTICES.refusedInRow + 1)
    await f.settledAs(made.id, 'given_up', NOTICES.refusedInRow + 1)
    expect((await f.channel(made.id)).broken_at).toBeNull()
  })
})
