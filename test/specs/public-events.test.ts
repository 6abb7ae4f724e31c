// The public stream of events: what happens, once and in order, over connections that break; only what the token may
// read, also after access ends; a clear answer if the id is too old. On both databases, over real HTTP.
import { get } from 'node:http'
import type { Environment, PublicEvent } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { LIVE } from '../../control-plane/src/limits/browser.ts'
import { EVENT_STREAMS } from '../../control-plane/src/limits/notices.ts'
import { makePerson } from '../fixtures/platform/dashboard-client.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { Platform } from '../fixtures/platform/platform.ts'
import { until } from '../fixtures/server/installation.ts'

/** A reader of Server-Sent Events, as a library for them works. */
class Reader {
  readonly events: PublicEvent[] = []
  lastId = ''
  status = 0
  problem = ''
  comments = 0
  isOver = false
  #stop = (): void => {}

  static async open(
    url: string,
    token: string,
    headers: Record<string, string> = {},
  ): Promise<Reader> {
    const reader = new Reader()
    const asked = get(
      url,
      { headers: { authorization: `Bearer ${token}`, accept: 'text/event-stream', ...headers } },
      (answer) => {
        reader.status = answer.statusCode ?? 0
        let rest = ''
        answer.setEncoding('utf8')
        answer.on('data', (part: string) => {
          if (reader.status !== 200) {
            reader.problem += part
            return
          }
          const blocks = (rest + part).split('\n\n')
          rest = blocks.pop() ?? ''
          for (const block of blocks) reader.#take(block)
        })
        answer.on('close', () => {
          reader.isOver = true
        })
        answer.on('error', () => {})
      },
    )
    asked.on('error', () => {})
    reader.#stop = () => asked.destroy()
    await until('the head of the answer', () => reader.status || undefined)
    return reader
  }

  #take(block: string): void {
    if (block.startsWith(':')) this.comments += 1
    const field = (name: string): string | undefined =>
      block
        .split('\n')
        .find((line) => line.startsWith(`${name}: `))
        ?.slice(name.length + 2)
    this.lastId = field('id') ?? this.lastId
    const data = field('data')
    if (data !== undefined) this.events.push(JSON.parse(data) as PublicEvent)
  }

  has(type: string, count = 1): Promise<PublicEvent[]> {
    return until(`${count} × ${type}`, () => {
      const found = this.events.filter((event) => event.type === type)
      return found.length >= count ? found : undefined
    })
  }

  close(): void {
    this.#stop()
  }
}

describe.each(ENGINES)('public events on %s', (engine) => {
  let platform: Platform
  let environment: Environment
  beforeAll(async () => {
    platform = await Platform.start(engine)
    environment = await platform.environment('main', { auto_deploy: false })
  })
  afterAll(() => platform.close())

  const open = (query = '', headers: Record<string, string> = {}, token = platform.cp.token) =>
    Reader.open(`${platform.cp.url}/api/events${query}`, token, headers)
  const deploy = async (id = environment.id) =>
    platform.settled((await platform.deploy(id)).body.id)
  const page = (query = '', headers: Record<string, string> = {}) =>
    platform.cp.call<PublicEvent[]>('GET', `/api/events${query}`, undefined, headers)

  test('a deployment is told from queued to succeeded, with the present state', async () => {
    const reader = await open()
    const task = await deploy()
    const [end] = await reader.has('task.succeeded')
    const types = reader.events.filter((e) => e.task_id === task.id).map((e) => e.type)
    expect(types[0]).toBe('task.queued')
    expect(types).toContain('task.started')
    expect(types.indexOf('task.started')).toBeLessThan(types.indexOf('task.succeeded'))
    expect(end).toMatchObject({
      project_id: platform.projectId,
      environment_id: environment.id,
      task: { id: task.id, status: 'succeeded' },
      environment: { id: environment.id, status: 'running', locked: false },
    })
    const ids = reader.events.map((e) => e.id)
    expect(ids).toEqual(ids.toSorted((a, b) => a - b))
    reader.close()
  })

  test('a reader that breaks off continues after its last id: no event is missing and none is doubled', async () => {
    const first = await open()
    await deploy()
    await first.has('task.succeeded')
    first.close()
    const missed = await deploy()
    const second = await open('', { 'last-event-id': first.lastId })
    await until(
      'the missed end',
      () =>
        second.events.some((e) => e.task_id === missed.id && e.type === 'task.succeeded') ||
        undefined,
    )
    await platform.restartControlPlane()
    const third = await open(`?after=${second.lastId}`)
    const later = await deploy()
    await until(
      'the later end',
      () =>
        third.events.some((e) => e.task_id === later.id && e.type === 'task.succeeded') ||
        undefined,
    )
    const [start] = first.events
    const all = await page(`?after=${(start?.id ?? 1) - 1}&limit=500`)
    const ids = [...first.events, ...second.events, ...third.events].map((e) => e.id)
    expect(new Set(ids).size).toBe(ids.length)
    expect(ids).toEqual(all.body.map((e) => e.id).slice(0, ids.length))
    third.close()
  })

  test('pages walk the same events, and say where to continue', async () => {
    const newest = await page('?limit=3')
    expect(newest.body).toHaveLength(3)
    const last = Number(newest.headers.get('berth-last-event-id'))
    expect((await page(`?after=${last}`)).body).toEqual([])
    await deploy()
    const walked: number[] = []
    for (let after = last; ; ) {
      const { body, headers } = await page(`?after=${after}&limit=2`)
      walked.push(...body.map((e) => e.id))
      const next = Number(headers.get('berth-last-event-id'))
      if (next === after) break
      after = next
    }
    const whole = await page(`?after=${last}&limit=500`)
    expect(walked).toEqual(whole.body.map((e) => e.id))
  })

  test('filters by project, environment and task; things of others do not exist', async () => {
    const second = await platform.environment('second', { auto_deploy: false })
    const reader = await open(`?environment_id=${second.id}`)
    await deploy()
    await deploy(second.id)
    await reader.has('task.succeeded')
    expect(new Set(reader.events.map((e) => e.environment_id))).toEqual(new Set([second.id]))
    reader.close()
    const stranger = await makePerson(platform.cp, 'stranger')
    const foreign = await open(`?environment_id=${second.id}`, {}, stranger.token)
    expect([foreign.status, JSON.parse(foreign.problem).code]).toEqual([404, 'not_found'])
    const own = await open('', {}, stranger.token)
    await deploy()
    expect(own.events).toEqual([])
    own.close()
  })

  test('a user of several organizations names one', async () => {
    const both = await makePerson(platform.cp, 'both')
    const { db } = platform.cp.running.ctx
    const [mine] = (await platform.cp.call<{ organizations: { id: number }[] }>('GET', '/api/me'))
      .body.organizations
    const member = {
      organizationId: mine?.id as number,
      userId: both.userId,
      role: 'viewer' as const,
    }
    await db
      .insertInto('members')
      .values({ ...member, createdAt: 1 })
      .execute()
    const unnamed = await open('', {}, both.token)
    expect(JSON.parse(unnamed.problem).code).toBe('organization_required')
    const named = await open('', { 'x-service-organization': String(mine?.id) }, both.token)
    expect(named.status).toBe(200)
    await deploy()
    await named.has('task.succeeded')
    // the membership ends, and so does the stream, without another event
    await platform.cp.call('DELETE', `/api/organizations/${mine?.id}/members/${both.userId}`)
    await until('the end of the stream', () => named.isOver || undefined)
    expect(named.events.map((e) => e.type)).not.toContain('member.updated')
  })

  test('an id that is too old, was never given or is no id is refused with what to do', async () => {
    const { db } = platform.cp.running.ctx
    const [oldest] = (await page('?limit=500')).body
    await db
      .deleteFrom('events')
      .where('seq', '<=', (oldest?.id ?? 0) + 1)
      .execute()
    for (const after of [oldest?.id, 99_999_999]) {
      const gone = await open(`?after=${after}`)
      expect(gone.status).toBe(410)
      expect(JSON.parse(gone.problem)).toMatchObject({
        code: 'events_gone',
        newest: expect.any(Number),
      })
    }
    expect((await page('?after=1')).status).toBe(410)
    expect((await open('', { 'last-event-id': 'x' })).status).toBe(400)
    expect((await page('?after=-1')).status).toBe(400)
    expect((await page('', { accept: 'text/html' })).status).toBe(406)
  })

  test('a page goes back further than a stream catches up', async () => {
    const { db } = platform.cp.running.ctx
    const [oldest] = (await page('?limit=500')).body
    const newest = await db
      .selectFrom('events')
      .selectAll()
      .orderBy('seq', 'desc')
      .limit(1)
      .execute()
    const far = newest.map((event) => ({ ...event, seq: event.seq + LIVE.backfillEvents }))
    await db.insertInto('events').values(far).execute()
    expect((await open(`?after=${oldest?.id}`)).status).toBe(410)
    expect((await page(`?after=${oldest?.id}`)).status).toBe(200)
  })

  test('open streams of a user are bounded, and a closed one gives its place back', async () => {
    const one = await makePerson(platform.cp, 'many')
    const readers = await Promise.all(
      Array.from({ length: EVENT_STREAMS.perUser }, () => open('', {}, one.token)),
    )
    const refused = await open('', {}, one.token)
    expect([refused.status, JSON.parse(refused.problem).code]).toEqual([429, 'rate_limited'])
    for (const reader of readers) reader.close()
    const again = await until('a free place', async () => {
      const reader = await open('', {}, one.token)
      return reader.status === 200 ? reader : undefined
    })
    again.close()
  })

  test('a token without the scope read reads no events', async () => {
    const made = await platform.cp.call<{ token: string }>('POST', '/api/tokens', {
      name: 'deploys',
      scopes: ['deploy'],
      expires_in_days: 1,
    })
    const refused = await open('', {}, made.body.token)
    expect([refused.status, JSON.parse(refused.problem).code]).toEqual([403, 'insufficient_scope'])
  })
})
