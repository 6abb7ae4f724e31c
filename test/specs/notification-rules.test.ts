// Which notifications are sent, in which form, by whom they are managed, and what leaves no trace. On both databases,
// against real receivers.
import type { Channel, ChannelMade, Task } from '@berth/shared/api'
import { ActionSchema } from '@berth/shared/wire'
import { create } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { sql } from 'kysely'
import { Webhook } from 'standardwebhooks'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { change } from '../../control-plane/src/app/core/transaction.ts'
import { checkAlerts } from '../../control-plane/src/app/installation/alerts.ts'
import { NOTICES } from '../../control-plane/src/limits/notices.ts'
import { awaitHolders, deleteChannel } from '../../control-plane/src/store/notices/channels.ts'
import { deleteOldNotices } from '../../control-plane/src/store/notices/notices.ts'
import { makeHost, sha } from '../fixtures/forge/webhook-sender.ts'
import { makePerson } from '../fixtures/platform/dashboard-client.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { holdCommits } from '../fixtures/platform/hold-changes.ts'
import { NoticeFixture } from '../fixtures/platform/notices.ts'
import { until } from '../fixtures/server/installation.ts'

const DAY = 86_400_000
const SEED = create(ActionSchema, {
  name: 'seed',
  title: 'Load demo data',
  timeout: durationFromMs(600_000),
})

describe.each(ENGINES)('rules and channels on %s', (engine) => {
  let f: NoticeFixture
  beforeEach(async () => {
    f = await NoticeFixture.start(engine)
  })
  afterEach(() => f.close())

  test('rules choose by project, by type of environment and by happening', async () => {
    const other = await f.platform.cp.project('blog', f.platform.serverId)
    const foreign = await f.platform.cp.environment(other.id, 'main', { auto_deploy: false })
    const guarded = await f.platform.environment('live', { auto_deploy: false })
    await f.platform.cp.call('PATCH', `/api/environments/${guarded.id}`, { protected: true })
    const made = await f.make({
      kind: 'webhook',
      url: f.hook.url,
      rules: [
        { project_id: other.id, happenings: ['deployment.succeeded'] },
        {
          environment_type: 'protected',
          happenings: ['deployment.succeeded', 'deployment.failed'],
        },
        { environment_type: 'preview', happenings: ['deployment.failed'] },
      ],
    })
    f.working()
    await f.deploy(f.environment.id)
    await f.deploy(foreign.id)
    await f.deploy(guarded.id)
    f.failing()
    await f.deploy(f.environment.id)
    await f.deploy(guarded.id)
    await f.settledAs(made.id, 'delivered', 3)
    expect(f.hook.got.map(({ body }) => body.data.title)).toEqual([
      'blog / main: deployed',
      'shop / live: deployed',
      'shop / live: deployment failed',
    ])
    const mine = await f.platform.cp.call<Channel[]>('GET', `${f.channels}?project_id=${other.id}`)
    expect(mine.body.map(({ name }) => name)).toEqual(['hook'])
  })

  test('a deployment that is queued while its server is offline waits, and is told', async () => {
    const made = await f.makeHook(['deployment.waiting'])
    f.platform.killAgent()
    await until('the server to be away', async () => {
      const { body } = await f.platform.cp.call('GET', `/api/servers/${f.platform.serverId}`)
      return body.status !== 'online' || undefined
    })
    f.platform.cp.clock.offsetMs += NOTICES.offlineMs + 1_000
    await f.platform.deploy(f.environment.id)
    const [got] = await f.hook.has(1)
    expect(got?.body).toMatchObject({
      type: 'deployment.waiting',
      data: {
        title: 'shop / main: deployment waits',
        reason: expect.stringContaining('is offline'),
      },
    })
    await f.settledAs(made.id, 'delivered')
  })

  test('a fork that needs approval, a failed action, and an environment that is degraded and recovers are told', async () => {
    const made = await f.makeHook([
      'approval.needed',
      'task.failed',
      'environment.degraded',
      'environment.recovered',
    ])
    const { cp, executor, serverId } = f.platform
    const host = await makeHost(cp, serverId, { default_recipe: 'docker' })
    await host.opened({ number: 51, head: sha(1), branch: 'main', fork: 9_001, author: 'mallory' })
    await f.settledAs(made.id, 'delivered', 1)

    executor.script = (attempt) => {
      attempt.emit({ case: 'actions', value: { actions: [SEED] } })
      attempt.succeed()
    }
    await f.deploy()
    executor.script = (attempt) => attempt.fail('The table is locked.')
    const path = `/api/environments/${f.environment.id}/actions/seed/tasks`
    const { body } = await cp.call<Task>('POST', path)
    await f.platform.settled(body.id)
    await f.settledAs(made.id, 'delivered', 2)

    const observe = async (reason: string | null): Promise<void> => {
      const { id, deployedFence } = await f.ctx.db
        .selectFrom('environments')
        .select(['id', 'deployedFence'])
        .where('id', '=', f.environment.id)
        .executeTakeFirstOrThrow()
      const seen = { fence: deployedFence, commit: null, reason, services: [] }
      const observed = JSON.stringify(seen)
      await f.ctx.db.updateTable('environments').set({ observed }).where('id', '=', id).execute()
      await checkAlerts(f.ctx)
    }
    await observe('web is unhealthy: GET /up answered 500 three times in a row.')
    await f.settledAs(made.id, 'delivered', 3)
    await observe(null)
    await f.settledAs(made.id, 'delivered', 4)
    expect(f.hook.got.map(({ body }) => [body.type, body.data.title])).toEqual([
      ['approval.needed', 'preview / pull request 51: waits for approval'],
      ['task.failed', 'shop / main: action seed failed'],
      ['environment.degraded', expect.stringContaining('shop / main')],
      ['environment.recovered', expect.stringContaining('shop / main')],
    ])
  })

  test('each chat gets its own form, and text from a repository can neither ping nor format', async () => {
    const kinds = ['slack', 'discord', 'teams', 'mattermost'] as const
    for (const kind of kinds) {
      await f.make({
        name: kind,
        kind,
        url: `${f.hook.url}/${kind}`,
        rules: [{ happenings: ['deployment.failed'] }],
      })
    }
    f.failing('`npm` *failed* <!channel> [x](https://evil.example.com)')
    const task = await f.deploy()
    await f.hook.has(4)
    const got = (kind: string) => f.hook.got.find(({ path }) => path.endsWith(kind))?.body
    const slack = got('slack')
    expect(slack.text).toBe('✗ shop / main: deployment failed')
    expect(slack.blocks[0].type).toBe('rich_text')
    expect(JSON.stringify(slack)).not.toContain('mrkdwn')
    const discord = got('discord')
    expect(discord.allowed_mentions).toEqual({ parse: [] })
    expect(discord.embeds[0].url).toBe(`${f.platform.cp.url}/tasks/${task.id}`)
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
    const made = await f.makeHook(['deployment.succeeded'])
    const rotated = await f.platform.cp.call<ChannelMade>(
      'POST',
      `/api/channels/${made.id}/rotate_secret`,
    )
    expect(rotated.status).toBe(200)
    f.working()
    await f.deploy()
    const [first] = await f.hook.has(1)
    const check = (secret: string | null, got = first) =>
      new Webhook(secret as string).verify(
        got?.raw as string,
        got?.headers as Record<string, string>,
      )
    check(made.secret)
    check(rotated.body.secret)
    f.later(DAY + 1_000)
    await f.deploy()
    const [, second] = await f.hook.has(2)
    expect(String(second?.headers['webhook-signature']).split(' ')).toHaveLength(1)
    expect(() => check(made.secret, second)).toThrow()
  })

  test('addresses and secrets appear in no answer, no audit row, no event, and encrypted in the database', async () => {
    const made = await f.makeHook(['deployment.succeeded'])
    const secret = made.secret as string
    const shown = [
      JSON.stringify(await f.channel(made.id)),
      (await f.platform.cp.call('GET', f.channels)).text,
      (await f.platform.cp.call('GET', `/api/organizations/${f.organizationId}/audit`)).text,
      (await f.platform.cp.call('GET', '/api/events')).text,
      JSON.stringify(await f.ctx.db.selectFrom('noticeChannels').selectAll().execute()),
      JSON.stringify(await f.ctx.db.selectFrom('audit').selectAll().execute()),
    ].join('\n')
    expect(shown).toContain(`127.0.0.1:${f.hook.port}`)
    expect(shown).not.toContain('s3cr3t-path')
    expect(shown).not.toContain(secret)
    expect(shown).not.toContain(secret.slice('whsec_'.length))
  })

  test('requests that make no sense are refused, with the field', async () => {
    const refused = async (body: object, field: string) => {
      const answer = await f.platform.cp.call<{ errors?: { field: string }[] }>(
        'POST',
        f.channels,
        {
          name: 'x',
          kind: 'webhook',
          url: f.hook.url,
          ...body,
        },
      )
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
    await f.makeHook(['deployment.failed'])
    const twice = await f.platform.cp.call('POST', f.channels, {
      name: 'hook',
      kind: 'webhook',
      url: f.hook.url,
    })
    expect([twice.status, twice.body.code]).toEqual([409, 'name_taken'])
  })

  test('only those who manage projects change channels and read the ledger; others read what is sent', async () => {
    const made = await f.makeHook(['deployment.failed'])
    const developer = await makePerson(f.platform.cp, 'dev', {
      organizationId: f.organizationId,
      role: 'developer',
    })
    const call = (method: string, path: string, body?: object) =>
      f.platform.cp.call(method, path, body, { authorization: `Bearer ${developer.token}` })
    expect((await call('GET', f.channels)).status).toBe(200)
    expect(
      (await call('POST', f.channels, { name: 'y', kind: 'webhook', url: f.hook.url })).status,
    ).toBe(403)
    expect((await call('PATCH', `/api/channels/${made.id}`, { name: 'y' })).status).toBe(403)
    expect((await call('DELETE', `/api/channels/${made.id}`)).status).toBe(403)
    expect((await call('POST', `/api/channels/${made.id}/test`)).status).toBe(403)
    expect((await call('POST', `/api/channels/${made.id}/rotate_secret`)).status).toBe(403)
    expect((await call('GET', `/api/channels/${made.id}/notifications`)).status).toBe(403)
    expect(f.hook.got).toEqual([])
  })

  test('what a project, a member or an organization leaves behind goes with it', async () => {
    const other = await f.platform.cp.project('blog', f.platform.serverId)
    const leaver = await makePerson(f.platform.cp, 'leaver', {
      organizationId: f.organizationId,
      role: 'developer',
    })
    const made = await f.make({
      name: 'mail',
      kind: 'email',
      recipients: ['leaver@example.com', 'ops@example.com'],
      rules: [
        { project_id: other.id, happenings: ['deployment.failed'] },
        { happenings: ['deployment.failed'] },
      ],
    })
    await f.platform.cp.call(
      'DELETE',
      `/api/organizations/${f.organizationId}/members/${leaver.userId}`,
    )
    expect((await f.channel(made.id)).recipients).toEqual(['ops@example.com'])
    await f.platform.cp.call('DELETE', `/api/projects/${other.id}?confirm=blog`)
    expect((await f.channel(made.id)).rules).toHaveLength(1)
    const gone = await f.platform.cp.call('DELETE', `/api/channels/${made.id}`)
    expect(gone.status).toBe(204)
    expect((await f.platform.cp.call('GET', `/api/channels/${made.id}`)).status).toBe(404)
    expect(await f.ctx.db.selectFrom('noticeRules').selectAll().execute()).toEqual([])
  })

  describe.skipIf(engine === 'sqlite')('a channel that is deleted while it is notified', () => {
    const notify = (db = f.ctx.db) => {
      const server = { id: f.platform.serverId, name: 'one' }
      const about = { organizationId: f.organizationId, server, reason: null }
      return change({ ...f.ctx, db }, async (c) => {
        c.happened.push({ happening: 'server.offline', ...about })
      })
    }
    const oneWaits = () =>
      until('one waits for the other', async () => {
        const { rows } = await sql<{ n: number }>`select count(*)::int as n from pg_stat_activity
          where wait_event_type = 'Lock' and datname = current_database()`.execute(f.ctx.db)
        return rows[0]?.n ? true : undefined
      })

    test('the deletion waits for the notification, and both happen', async () => {
      const { id } = await f.makeHook(['server.offline'])
      const held = holdCommits(f.ctx.db)
      const notified = notify(held.db)
      await held.reached
      const deleted = f.platform.cp.call('DELETE', `/api/channels/${id}`)
      await oneWaits()
      held.go()
      await notified
      expect((await deleted).status).toBe(204)
    })

    test('the notification waits for the deletion, and what it is about happens', async () => {
      const { id } = await f.makeHook(['server.offline'])
      const held = holdCommits(f.ctx.db)
      const deleted = held.db.transaction().execute(async (tx) => {
        await awaitHolders(tx, id)
        await deleteChannel(tx, id)
      })
      await held.reached
      const notified = notify()
      await oneWaits()
      held.go()
      await deleted
      await notified
      expect(await f.ctx.db.selectFrom('notices').selectAll().execute()).toEqual([])
    })
  })

  test('the outbox of a channel is bounded, and the ledger forgets what is old', async () => {
    const made = await f.makeHook(['server.offline'])
    f.hook.behave = (_got, answer) => void answer.writeHead(503).end()
    for (let n = 0; n < NOTICES.waiting + 10; n += 101) {
      await change(f.ctx, async (c) => {
        for (let i = 0; i < 101; i++) {
          const server = { id: f.platform.serverId, name: 'one' }
          c.happened.push({
            happening: 'server.offline',
            organizationId: f.organizationId,
            server,
            reason: null,
          })
        }
      })
    }
    const { waiting } = await f.channel(made.id)
    expect(waiting).toBe(NOTICES.waiting)
    expect(await f.ledger(made.id, '?status=skipped&per_page=100')).toHaveLength(10)
    await deleteOldNotices(f.ctx.db, { before: f.ctx.clock.now() + 1, keep: 5 })
    expect(await f.ledger(made.id, '?status=skipped')).toEqual([])
    expect((await f.channel(made.id)).waiting).toBe(NOTICES.waiting)
  })
})
