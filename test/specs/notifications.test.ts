// Notifications against real receivers: HTTP servers that fail, are slow, are down, and a real mail server. Every
// notification arrives once, in order, with retries; after a restart too. On both databases.
import { createHmac } from 'node:crypto'
import type { Channel, ChannelMade, Environment, Notification, Task } from '@berth/shared/api'
import { Webhook } from 'standardwebhooks'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { NOTICES_TOPIC } from '../../control-plane/src/app/core/notices.ts'
import { change } from '../../control-plane/src/app/core/transaction.ts'
import { NOTICES } from '../../control-plane/src/limits/notices.ts'
import { deleteOldNotices } from '../../control-plane/src/store/notices/notices.ts'
import { HttpReceiver, MailReceiver } from '../fixtures/people/receivers.ts'
import { makePerson } from '../fixtures/platform/dashboard-client.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { until } from '../fixtures/server/installation.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

describe.each(ENGINES)('notifications on %s', (engine) => {
  let platform: Platform
  let hook: HttpReceiver
  let mail: MailReceiver
  let environment: Environment
  let organizationId = 0

  beforeEach(async () => {
    mail = new MailReceiver()
    await mail.listen()
    const url = `smtp://127.0.0.1:${mail.port}`
    const config = { mail: { kind: 'smtp', url, from: 'Berth <berth@example.com>' } as const }
    platform = await Platform.start(engine, { config })
    hook = new HttpReceiver()
    await hook.listen()
    environment = await platform.environment('main', { auto_deploy: false })
    organizationId = platform.cp.running.ctx && ((await me()).organizations[0]?.id as number)
  })
  afterEach(async () => {
    await platform.close()
    await hook.close()
    await mail.close()
  })

  const me = async () =>
    (await platform.cp.call<{ organizations: { id: number }[] }>('GET', '/api/me')).body
  const ctx = () => platform.cp.running.ctx
  const channels = () => `/api/organizations/${organizationId}/channels`
  const make = async (body: object): Promise<ChannelMade> => {
    const made = await platform.cp.call<ChannelMade>('POST', channels(), { name: 'hook', ...body })
    expect(made.text).toContain('"id"')
    expect(made.status).toBe(201)
    return made.body
  }
  const makeHook = (happenings: string[], over: object = {}) =>
    make({ kind: 'webhook', url: hook.url, rules: [{ happenings }], ...over })
  const channel = async (id: number) =>
    (await platform.cp.call<Channel>('GET', `/api/channels/${id}`)).body
  const ledger = async (id: number, query = '') =>
    (await platform.cp.call<Notification[]>('GET', `/api/channels/${id}/notifications${query}`))
      .body
  const deploy = async (id = environment.id): Promise<Task> => {
    const started = await platform.deploy(id)
    expect(started.status).toBe(201)
    return platform.settled(started.body.id)
  }
  const failing = (message = 'The build failed.') => {
    platform.executor.script = (a) => {
      a.checkedOut('c'.repeat(40))
      a.say('compiling\n')
      a.say('\u001b[31mError: cannot find module "left-pad" <!everyone> @everyone @here\u001b[0m\n')
      a.say('1 error\n')
      a.fail(message)
    }
  }
  const working = () => {
    platform.executor.script = (a) => a.succeed(20_000)
  }
  /** Moves the clock and lets the outbox look. */
  const later = (ms: number) => {
    platform.cp.clock.offsetMs += ms
    ctx().notifier.notify(NOTICES_TOPIC)
  }
  const settledAs = (id: number, status: string, count = 1) =>
    until(`${count} × ${status}`, async () => {
      const rows = await ledger(id, `?status=${status}`)
      return rows.length >= count ? rows : undefined
    })

  test('a failed deployment arrives at a webhook, signed, with step, error line, commit and links', async () => {
    const made = await makeHook(['deployment.failed'])
    failing()
    const task = await deploy()
    const [got] = await hook.has(1)
    const [row] = await settledAs(made.id, 'delivered')
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
        project: { id: platform.projectId, name: 'shop' },
        environment: {
          identifier: 'main',
          type: 'manual',
          protected: false,
          url: `${platform.cp.url}/environments/${environment.id}`,
        },
        task: {
          id: task.id,
          commit_sha: 'c'.repeat(40),
          commit_message: 'Fix totals',
          triggered_by: 'Ada',
          failed_step: 'Play',
          message: 'The build failed.',
          error_line: 'Error: cannot find module "left-pad" <!everyone> @everyone @here',
          url: `${platform.cp.url}/tasks/${task.id}`,
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
    const both = await makeHook(['deployment.recovered', 'deployment.succeeded'])
    const chat = new HttpReceiver()
    await chat.listen()
    await make({
      name: 'only',
      kind: 'webhook',
      url: chat.url,
      rules: [{ happenings: ['deployment.recovered'] }],
    })
    working()
    await deploy()
    failing()
    await deploy()
    working()
    await deploy()
    await deploy()
    await settledAs(both.id, 'delivered', 3)
    expect(hook.got.map(({ body }) => body.type)).toEqual([
      'deployment.succeeded',
      'deployment.recovered',
      'deployment.succeeded',
    ])
    expect(chat.got.map(({ body }) => body.type)).toEqual(['deployment.recovered'])
    expect(chat.got[0]?.body.data.environment.address).toBe('http://127.0.0.1:20000')
    await chat.close()
  })

  test('a receiver that fails gets everything once it works, in order, each under one id', async () => {
    const made = await makeHook(['deployment.succeeded'])
    hook.behave = (_got, answer) => void answer.writeHead(503, { 'retry-after': '120' }).end('busy')
    working()
    const first = await deploy()
    await hook.has(1)
    const second = await deploy()
    const [row] = await until('the failed try', async () => {
      const rows = (await ledger(made.id)).filter(({ tries }) => tries === 1)
      return rows.length > 0 ? rows : undefined
    })
    expect(row).toMatchObject({ task_id: first.id, status: 'waiting', answer_status: 503 })
    expect(row?.error).toBe(`127.0.0.1:${hook.port} answered 503 (busy).`)
    const waitMs = Date.parse(row?.next_at as string) - Date.parse(row?.created_at as string)
    expect(waitMs).toBeGreaterThanOrEqual(119_000) // as the receiver asked, not the usual five seconds
    expect(await channel(made.id)).toMatchObject({ waiting: 2, failing_since: expect.any(String) })
    hook.accept()
    later(130_000)
    await settledAs(made.id, 'delivered', 2)
    expect(hook.got.map(({ body }) => body.data.task.id)).toEqual([first.id, first.id, second.id])
    const ids = hook.got.map(({ headers }) => headers['webhook-id'])
    expect(ids[0]).toBe(ids[1])
    expect(ids[2]).not.toBe(ids[0])
    expect(hook.got[0]?.raw).toBe(hook.got[1]?.raw)
    expect(await channel(made.id)).toMatchObject({ waiting: 0, failing_since: null, error: null })
  })

  test('a receiver that is down holds nothing up, and what was queued before a restart is sent after it', async () => {
    const made = await makeHook(['deployment.succeeded'])
    await hook.close()
    working()
    const task = await deploy()
    await until('a try', async () => (await ledger(made.id))[0]?.tries || undefined)
    expect((await ledger(made.id))[0]?.error).toContain('ECONNREFUSED')
    await platform.cp.restart()
    await hook.listen()
    later(10_000)
    await hook.has(1)
    await settledAs(made.id, 'delivered')
    expect(hook.got.map(({ body }) => body.data.task.id)).toEqual([task.id])
  })

  test('a stop in the middle of a request counts no failure; the same id arrives after the start', async () => {
    const made = await makeHook(['deployment.succeeded'])
    hook.behave = () => {} // never answers
    working()
    await deploy()
    await hook.has(1)
    await platform.cp.restart()
    hook.accept()
    await settledAs(made.id, 'delivered')
    expect(hook.distinct).toHaveLength(1)
    expect((await ledger(made.id))[0]?.tries).toBe(1)
  })

  test.each([
    ['a redirect', 302, { location: 'http://169.254.169.254/' }, 'redirects to another address'],
    ['a refusal', 404, {}, 'answered 404'],
  ])(
    '%s is not followed and is given up soon, so that it does not hold the next one',
    async (_what, status, headers, error) => {
      const made = await makeHook(['deployment.succeeded'])
      let refusals = 0
      hook.behave = (_got, answer) => {
        refusals += 1
        answer.writeHead(status, headers).end()
      }
      working()
      await deploy()
      await until('the end of its tries', async () => {
        later(HOUR)
        return (await ledger(made.id, '?status=given_up')).length || undefined
      })
      expect(refusals).toBe(NOTICES.refusedTries)
      expect((await ledger(made.id))[0]?.error).toContain(error)
      hook.accept()
      await deploy()
      await settledAs(made.id, 'delivered')
      expect((await channel(made.id)).broken_at).toBeNull()
    },
  )

  test('an endless answer and one that breaks off after the status count by their status', async () => {
    const made = await makeHook(['deployment.succeeded'])
    let isOpen = true
    hook.behave = (_got, answer) => {
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
    working()
    await deploy()
    const [row] = await settledAs(made.id, 'delivered')
    expect(row?.answer).toMatch(/^x{199}…$/)
    await until('the end of the connection', () => !isOpen || undefined)
    hook.behave = (_got, answer) => {
      answer.writeHead(200, { 'content-length': '100' })
      answer.write('half', () => answer.destroy())
    }
    await deploy()
    await settledAs(made.id, 'delivered', 2)
  })

  test('a slow receiver is left after its deadline and delays no other channel', {
    timeout: 60_000,
  }, async () => {
    const made = await makeHook(['deployment.succeeded'])
    const fast = new HttpReceiver()
    await fast.listen()
    await make({
      name: 'fast',
      kind: 'slack',
      url: fast.url,
      rules: [{ happenings: ['deployment.succeeded'] }],
    })
    hook.behave = () => {}
    working()
    await deploy()
    await deploy()
    await fast.has(2) // while the slow one is still being waited for
    expect(await ledger(made.id, '?status=waiting')).toHaveLength(2)
    const [row] = await until(
      'the deadline',
      async () => {
        const rows = (await ledger(made.id)).filter(({ tries }) => tries > 0)
        return rows.length > 0 ? rows : undefined
      },
      30_000,
    )
    expect(row?.error).toContain('did not answer in 10 s')
    await fast.close()
  })

  test('a receiver that fails for a day is broken: owners are told once, a test starts it again, skipped ones are replayed', async () => {
    await makePerson(platform.cp, 'admin', { organizationId, role: 'admin' })
    await makePerson(platform.cp, 'developer', { organizationId, role: 'developer' })
    const made = await makeHook(['deployment.succeeded'])
    hook.behave = (_got, answer) => void answer.writeHead(500).end()
    working()
    const lost = await deploy()
    const behind = await deploy()
    await until('the end of the tries', async () => {
      later(9 * HOUR)
      return (await channel(made.id)).broken_at ?? undefined
    })
    expect(await ledger(made.id)).toMatchObject([
      { task_id: behind.id, status: 'skipped', error: 'The channel is broken.' },
      { task_id: lost.id, status: 'given_up', tries: NOTICES.backoffMs.length + 1 },
    ])
    const told = await mail.has(2)
    expect(told.map(({ to, subject }) => `${subject} → ${to}`).toSorted()).toEqual([
      'Notifications to hook fail → ada@example.com',
      'Notifications to hook fail → admin@example.com',
    ])
    const during = await deploy()
    expect((await ledger(made.id))[0]).toMatchObject({ task_id: during.id, status: 'skipped' })
    hook.got.length = 0
    const refused = await platform.cp.call<Notification[]>('POST', `/api/channels/${made.id}/test`)
    expect(refused.body).toMatchObject([
      { happening: 'test', status: 'given_up', answer_status: 500 },
    ])
    expect((await channel(made.id)).broken_at).not.toBeNull()
    const soon = await platform.cp.call('POST', `/api/channels/${made.id}/test`)
    expect([soon.status, soon.body.code]).toEqual([429, 'rate_limited'])
    hook.accept()
    later(NOTICES.testMs)
    const worked = await platform.cp.call<Notification[]>('POST', `/api/channels/${made.id}/test`)
    expect(worked.body).toMatchObject([{ status: 'delivered', title: 'Acme: test notification' }])
    expect(await channel(made.id)).toMatchObject({ broken_at: null, failing_since: null })
    const [skipped] = await ledger(made.id, '?status=skipped')
    const again = await platform.cp.call<Notification>(
      'POST',
      `/api/notifications/${skipped?.id}/replay`,
    )
    expect(again.status).toBe(202)
    expect(again.body).toMatchObject({ replay_of: skipped?.id, message_id: skipped?.message_id })
    await until(
      'the replay',
      () =>
        hook.got.some(({ headers }) => headers['webhook-id'] === skipped?.message_id) || undefined,
    )
    expect(mail.got).toHaveLength(2)
  })

  test('a receiver that says 410 gets no more; one that refuses many in a row neither', async () => {
    const made = await makeHook(['deployment.succeeded'])
    hook.behave = (_got, answer) => void answer.writeHead(410).end()
    working()
    await deploy()
    await until('the break', async () => (await channel(made.id)).broken_at ?? undefined)
    expect(hook.got).toHaveLength(1)
    const url = `${hook.url}/new`
    const patched = await platform.cp.call<Channel>('PATCH', `/api/channels/${made.id}`, { url })
    expect(patched.body).toMatchObject({ broken_at: null, error: null })
    hook.behave = (_got, answer) => void answer.writeHead(400).end()
    for (let n = 0; n < NOTICES.refusedInRow; n++) await deploy()
    await until('the break', async () => {
      later(HOUR)
      return (await channel(made.id)).broken_at ?? undefined
    })
    expect(await ledger(made.id, '?status=given_up')).toHaveLength(NOTICES.refusedInRow + 1)
  })

  test('mail reaches each address once, under a fixed Message-ID, also after a failure and a restart', async () => {
    const made = await make({
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
    mail.refuse = () => Object.assign(new Error('try later'), { responseCode: 451 })
    failing('Zeile 1\r\nBcc: evil@example.com')
    const task = await deploy()
    await until('the failed tries', async () => {
      const rows = await ledger(made.id)
      return rows.filter(({ tries }) => tries === 1).length === 2 || undefined
    })
    mail.refuse = undefined
    await platform.cp.restart()
    later(10_000)
    await settledAs(made.id, 'delivered', 2)
    expect(mail.got.map(({ to }) => to[0]).toSorted()).toEqual([
      'ada@example.com',
      'ops@example.com',
    ])
    const rows = await ledger(made.id)
    for (const { to, messageId, raw, subject } of mail.got) {
      const row = rows.find(({ recipient }) => recipient === to[0])
      expect(messageId).toBe(`<${row?.message_id}@${ctx().installationId}>`)
      expect(subject).toBe('shop / main: deployment failed')
      expect(raw).toContain('Failed step: Play')
      expect(raw).toContain('Error: cannot find module')
      expect(raw).toContain(`${platform.cp.url}/tasks/${task.id}`)
      expect(raw).not.toMatch(/^Bcc:/m)
    }
    await deploy()
    await settledAs(made.id, 'delivered', 4)
    expect(mail.got).toHaveLength(4)
  })

  test('an address that the mail server refuses for good is given up at once and holds no other up', async () => {
    const made = await make({
      name: 'mail',
      kind: 'email',
      recipients: ['nobody@example.com', 'ops@example.com'],
      rules: [{ happenings: ['deployment.succeeded'] }],
    })
    mail.refuse = (address) =>
      address.startsWith('nobody')
        ? Object.assign(new Error('unknown'), { responseCode: 550 })
        : undefined
    working()
    for (let n = 0; n <= NOTICES.refusedInRow; n++) await deploy()
    await settledAs(made.id, 'delivered', NOTICES.refusedInRow + 1)
    await settledAs(made.id, 'given_up', NOTICES.refusedInRow + 1)
    expect((await channel(made.id)).broken_at).toBeNull()
  })

  test('rules choose by project, by type of environment and by happening', async () => {
    const other = await platform.cp.project('blog', platform.serverId)
    const foreign = await platform.cp.environment(other.id, 'main', { auto_deploy: false })
    const guarded = await platform.environment('live', { auto_deploy: false })
    await platform.cp.call('PATCH', `/api/environments/${guarded.id}`, { protected: true })
    const made = await make({
      kind: 'webhook',
      url: hook.url,
      rules: [
        { project_id: other.id, happenings: ['deployment.succeeded'] },
        {
          environment_type: 'protected',
          happenings: ['deployment.succeeded', 'deployment.failed'],
        },
        { environment_type: 'preview', happenings: ['deployment.failed'] },
      ],
    })
    working()
    await deploy(environment.id)
    await deploy(foreign.id)
    await deploy(guarded.id)
    failing()
    await deploy(environment.id)
    await deploy(guarded.id)
    await settledAs(made.id, 'delivered', 3)
    expect(hook.got.map(({ body }) => body.data.title)).toEqual([
      'blog / main: deployed',
      'shop / live: deployed',
      'shop / live: deployment failed',
    ])
    const mine = await platform.cp.call<Channel[]>('GET', `${channels()}?project_id=${other.id}`)
    expect(mine.body.map(({ name }) => name)).toEqual(['hook'])
  })

  test('a deployment that is queued while its server is offline waits; a failed action is told', async () => {
    const made = await makeHook(['deployment.waiting', 'task.failed'])
    platform.killAgent()
    await until('the server to be away', async () => {
      const { body } = await platform.cp.call('GET', `/api/servers/${platform.serverId}`)
      return body.status !== 'online' || undefined
    })
    platform.cp.clock.offsetMs += NOTICES.offlineMs + 1_000
    await platform.deploy(environment.id)
    const [got] = await hook.has(1)
    expect(got?.body).toMatchObject({
      type: 'deployment.waiting',
      data: {
        title: 'shop / main: deployment waits',
        reason: expect.stringContaining('is offline'),
      },
    })
    await settledAs(made.id, 'delivered')
  })

  test('each chat gets its own form, and text from a repository can neither ping nor format', async () => {
    const kinds = ['slack', 'discord', 'teams', 'mattermost'] as const
    for (const kind of kinds) {
      await make({
        name: kind,
        kind,
        url: `${hook.url}/${kind}`,
        rules: [{ happenings: ['deployment.failed'] }],
      })
    }
    failing('`npm` *failed* <!channel> [x](https://evil.example.com)')
    const task = await deploy()
    await hook.has(4)
    const got = (kind: string) => hook.got.find(({ path }) => path.endsWith(kind))?.body
    const slack = got('slack')
    expect(slack.text).toBe('✗ shop / main: deployment failed')
    expect(slack.blocks[0].type).toBe('rich_text')
    expect(JSON.stringify(slack)).not.toContain('mrkdwn')
    const discord = got('discord')
    expect(discord.allowed_mentions).toEqual({ parse: [] })
    expect(discord.embeds[0].url).toBe(`${platform.cp.url}/tasks/${task.id}`)
    expect(discord.embeds[0].description).toContain('\\*failed\\*')
    const teams = got('teams')
    expect(teams.attachments[0].contentType).toBe('application/vnd.microsoft.card.adaptive')
    expect(JSON.stringify(teams)).not.toContain('"TextBlock"')
    const mattermost = got('mattermost')
    expect(mattermost.text).not.toMatch(/@(everyone|here|all|channel)/)
    expect(mattermost.text).toContain('\\*failed\\*')
    expect(mattermost.text).not.toContain('[x](https://evil')
  })

  test('a new signing secret signs beside the former one for a day', async () => {
    const made = await makeHook(['deployment.succeeded'])
    const rotated = await platform.cp.call<ChannelMade>(
      'POST',
      `/api/channels/${made.id}/rotate_secret`,
    )
    expect(rotated.status).toBe(200)
    working()
    await deploy()
    const [first] = await hook.has(1)
    const check = (secret: string | null, got = first) =>
      new Webhook(secret as string).verify(
        got?.raw as string,
        got?.headers as Record<string, string>,
      )
    check(made.secret)
    check(rotated.body.secret)
    later(DAY + 1_000)
    await deploy()
    const [, second] = await hook.has(2)
    expect(String(second?.headers['webhook-signature']).split(' ')).toHaveLength(1)
    expect(() => check(made.secret, second)).toThrow()
  })

  test('addresses and secrets appear in no answer, no audit row, no event, and encrypted in the database', async () => {
    const made = await makeHook(['deployment.succeeded'])
    const secret = made.secret as string
    const shown = [
      JSON.stringify(await channel(made.id)),
      (await platform.cp.call('GET', channels())).text,
      (await platform.cp.call('GET', `/api/organizations/${organizationId}/audit`)).text,
      (await platform.cp.call('GET', '/api/events')).text,
      JSON.stringify(await ctx().db.selectFrom('noticeChannels').selectAll().execute()),
      JSON.stringify(await ctx().db.selectFrom('audit').selectAll().execute()),
    ].join('\n')
    expect(shown).toContain(`127.0.0.1:${hook.port}`)
    expect(shown).not.toContain('s3cr3t-path')
    expect(shown).not.toContain(secret)
    expect(shown).not.toContain(secret.slice('whsec_'.length))
  })

  test('requests that make no sense are refused, with the field', async () => {
    const refused = async (body: object, field: string) => {
      const answer = await platform.cp.call<{ errors?: { field: string }[] }>('POST', channels(), {
        name: 'x',
        kind: 'webhook',
        url: hook.url,
        ...body,
      })
      expect(answer.status).toBe(422)
      expect(answer.body.errors?.[0]?.field).toBe(field)
      expect(answer.text).not.toContain('s3cr3t')
      return answer.text
    }
    expect(await refused({ url: 'https://10.1.2.3/s3cr3t' }, 'url')).toContain(
      'BERTH_PRIVATE_GIT_HOSTS',
    )
    await refused({ url: 'https://169.254.169.254/s3cr3t' }, 'url')
    await refused({ url: 'http://example.com/s3cr3t' }, 'url')
    await refused({ url: 'file:///s3cr3t' }, 'url')
    await refused({ url: 'javascript:alert(1)' }, 'url')
    await refused({ url: undefined }, 'url')
    await refused({ recipients: ['a@example.com'] }, 'recipients')
    await refused({ kind: 'email', url: undefined }, 'recipients')
    await refused({ kind: 'email', url: undefined, recipients: ['a@b@c'] }, 'recipients.0')
    await refused(
      { rules: [{ project_id: 99_999, happenings: ['deployment.failed'] }] },
      'rules.0.project_id',
    )
    const servers = { environment_type: 'preview', happenings: ['server.offline'] }
    await refused({ rules: [servers] }, 'rules.0.happenings')
    await refused({ rules: [{ happenings: ['sandwich'] }] }, 'rules.0.happenings.0')
    await makeHook(['deployment.failed'])
    const twice = await platform.cp.call('POST', channels(), {
      name: 'hook',
      kind: 'webhook',
      url: hook.url,
    })
    expect([twice.status, twice.body.code]).toEqual([409, 'name_taken'])
  })

  test('only those who manage projects change channels and read the ledger; others read what is sent', async () => {
    const made = await makeHook(['deployment.failed'])
    const developer = await makePerson(platform.cp, 'dev', { organizationId, role: 'developer' })
    const call = (method: string, path: string, body?: object) =>
      platform.cp.call(method, path, body, { authorization: `Bearer ${developer.token}` })
    expect((await call('GET', channels())).status).toBe(200)
    expect(
      (await call('POST', channels(), { name: 'y', kind: 'webhook', url: hook.url })).status,
    ).toBe(403)
    expect((await call('PATCH', `/api/channels/${made.id}`, { name: 'y' })).status).toBe(403)
    expect((await call('DELETE', `/api/channels/${made.id}`)).status).toBe(403)
    expect((await call('POST', `/api/channels/${made.id}/test`)).status).toBe(403)
    expect((await call('POST', `/api/channels/${made.id}/rotate_secret`)).status).toBe(403)
    expect((await call('GET', `/api/channels/${made.id}/notifications`)).status).toBe(403)
    expect(hook.got).toEqual([])
  })

  test('what a project, a member or an organization leaves behind goes with it', async () => {
    const other = await platform.cp.project('blog', platform.serverId)
    const leaver = await makePerson(platform.cp, 'leaver', { organizationId, role: 'developer' })
    const made = await make({
      name: 'mail',
      kind: 'email',
      recipients: ['leaver@example.com', 'ops@example.com'],
      rules: [
        { project_id: other.id, happenings: ['deployment.failed'] },
        { happenings: ['deployment.failed'] },
      ],
    })
    await platform.cp.call(
      'DELETE',
      `/api/organizations/${organizationId}/members/${leaver.userId}`,
    )
    expect((await channel(made.id)).recipients).toEqual(['ops@example.com'])
    await platform.cp.call('DELETE', `/api/projects/${other.id}?confirm=blog`)
    expect((await channel(made.id)).rules).toHaveLength(1)
    const gone = await platform.cp.call('DELETE', `/api/channels/${made.id}`)
    expect(gone.status).toBe(204)
    expect((await platform.cp.call('GET', `/api/channels/${made.id}`)).status).toBe(404)
    expect(await ctx().db.selectFrom('noticeRules').selectAll().execute()).toEqual([])
  })

  test('the outbox of a channel is bounded, and the ledger forgets what is old', async () => {
    const made = await makeHook(['server.offline'])
    hook.behave = (_got, answer) => void answer.writeHead(503).end()
    for (let n = 0; n < NOTICES.waiting + 10; n += 101) {
      await change(ctx(), async (c) => {
        for (let i = 0; i < 101; i++) {
          const server = { id: platform.serverId, name: 'one' }
          c.happened.push({ happening: 'server.offline', organizationId, server, reason: null })
        }
      })
    }
    const { waiting } = await channel(made.id)
    expect(waiting).toBe(NOTICES.waiting)
    expect(await ledger(made.id, '?status=skipped&per_page=100')).toHaveLength(10)
    await deleteOldNotices(ctx().db, { before: ctx().clock.now() + 1, keep: 5 })
    expect(await ledger(made.id, '?status=skipped')).toEqual([])
    expect((await channel(made.id)).waiting).toBe(NOTICES.waiting)
  })
})
