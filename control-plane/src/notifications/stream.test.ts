// The stream without sockets: falling behind, back-pressure, access that ends midway, no leaks.
import { AppError } from '@berth/shared'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { ENGINES, openEngine } from '../../../test/fixtures/platform/engines.ts'
import { until } from '../../../test/fixtures/server/installation.ts'
import type { Context } from '../context.ts'
import { LIVE } from '../limits/browser.ts'
import { deleteOldEvents, findEventRange, insertEvents } from '../store/core/events.ts'
import type { OpenDatabase } from '../store/engine/database.ts'
import { EventFeed } from './feed.ts'
import { Notifier } from './notifier.ts'
import type { LiveEvent } from './states.ts'
import { type Begun, type Reset, type Subscription, streamEvents } from './stream.ts'

const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)

describe.each(ENGINES)('a stream on %s', (engine) => {
  let opened: OpenDatabase
  let feed: EventFeed
  const onLost = vi.fn(async () => {})
  let notifier: Notifier
  let ctx: Context
  const leaving: AbortController[] = []
  const streams: AsyncGenerator<LiveEvent | Begun | Reset>[] = []
  beforeAll(async () => {
    opened = await openEngine(engine)
    notifier = new Notifier((error) => {
      throw error
    })
    feed = new EventFeed({
      db: opened.db,
      notifier,
      log: pino({ level: 'silent' }),
      topic: 'events',
      onRows: async () => {},
      onLost,
    })
    await feed.start()
    ctx = { db: opened.db, feed } as Context
  })
  afterEach(async () => {
    for (const controller of leaving.splice(0)) controller.abort()
    for (const stream of streams.splice(0)) await stream.return(undefined)
  })
  afterAll(async () => {
    await feed.stop()
    await opened.db.destroy()
  })

  const happen = async (count: number, organizationId = 1, at = 1): Promise<void> => {
    const events = upTo(count).map((n) => ({ organizationId, kind: 'x', body: { n }, at }))
    await opened.db.transaction().execute((tx) => insertEvents(tx, engine, events))
    notifier.notify('events')
  }
  const subscribe = (over: Partial<Subscription> = {}) => {
    const leave = new AbortController()
    leaving.push(leave)
    const stream = streamEvents(ctx, {
      filter: { organizationId: 1 },
      after: undefined,
      admit: async () => {},
      drained: async () => {},
      signal: leave.signal,
      ...over,
    })
    streams.push(stream)
    return stream
  }
  const numberOf = (m: LiveEvent | Begun | Reset) =>
    'body' in m ? (m.body as { n: number }).n : m.kind
  async function take(stream: AsyncGenerator<LiveEvent | Begun | Reset>, count: number) {
    const taken: (number | string)[] = []
    while (taken.length < count) {
      const { value, done } = await stream.next()
      if (done) break
      taken.push(numberOf(value))
    }
    return taken
  }
  const handedOut = () =>
    until('the feed to be up to date', async () =>
      feed.head === (await findEventRange(opened.db)).last ? true : undefined,
    )

  test('one that does not pull loses its queue and no event', async () => {
    const stream = subscribe()
    expect(await take(stream, 1)).toEqual(['begun'])
    const total = LIVE.subscriberEvents * 3
    await happen(total)
    await handedOut()
    expect(feed.waiting).toBeLessThanOrEqual(LIVE.subscriberEvents)
    expect(await take(stream, total)).toEqual(upTo(total))
    await happen(3)
    expect(await take(stream, 3)).toEqual([0, 1, 2])
    await stream.return(undefined)
    expect(feed.size).toBe(0)
  })

  test('events that are gone after a failover are a reset for every reader', async () => {
    const stream = subscribe()
    await take(stream, 1)
    await happen(3)
    expect(await take(stream, 3)).toEqual([0, 1, 2])
    const { last } = await findEventRange(opened.db)
    await opened.db
      .deleteFrom('events')
      .where('seq', '>', last - 2)
      .execute()
    notifier.notify('events')
    expect((await stream.next()).value).toEqual({ kind: 'reset', seq: last - 2 })
    expect(onLost).toHaveBeenCalledTimes(1)
    await happen(1)
    expect(await take(stream, 1)).toEqual([0])
    // the same number, of another event
    const { last: head } = await findEventRange(opened.db)
    await opened.db.updateTable('events').set({ kind: 'y' }).where('seq', '=', head).execute()
    notifier.notify('events')
    expect((await stream.next()).value).toEqual({ kind: 'reset', seq: head })
  })

  test('nothing is read on until there is room', async () => {
    let go = (): void => {}
    const gate = new Promise<void>((resolve) => {
      go = resolve
    })
    const stream = subscribe({ drained: () => gate })
    await take(stream, 1)
    await happen(2)
    expect(await take(stream, 1)).toEqual([0])
    let came = false
    const second = stream.next().then((r) => {
      came = true
      return r
    })
    await happen(1)
    await handedOut()
    expect(came).toBe(false)
    go()
    expect(numberOf((await second).value as LiveEvent)).toBe(1)
  })

  test('who is not admitted any more gets the refusal instead of the event', async () => {
    let isAdmitted = true
    const admit = async () => {
      if (!isAdmitted) throw new AppError('not_found', 'gone')
    }
    const stream = subscribe({ admit })
    await take(stream, 1)
    await happen(1)
    expect(await take(stream, 1)).toEqual([0])
    isAdmitted = false
    await happen(1)
    await expect(stream.next()).rejects.toMatchObject({ code: 'not_found' })
    expect(feed.size).toBe(0)
  })

  test('whoever leaves while nothing happens is let go at once', async () => {
    const leave = new AbortController()
    const stream = subscribe({ signal: leave.signal })
    await take(stream, 1)
    const waiting = stream.next()
    leave.abort()
    expect(await waiting).toMatchObject({ done: true })
    expect(feed.size).toBe(0)
  })

  test('other organizations are not even waited on', async () => {
    const stream = subscribe()
    await take(stream, 1)
    await happen(5, 2)
    await happen(1, 1)
    expect(await take(stream, 1)).toEqual([0])
  })

  test('the newest row outlives its time, so that numbers are known to be gone', async () => {
    const stream = subscribe()
    await take(stream, 1)
    const { last } = await findEventRange(opened.db)
    await deleteOldEvents(opened.db, Number.MAX_SAFE_INTEGER)
    expect(await findEventRange(opened.db)).toEqual({ first: last, last })
    expect(await take(subscribe({ after: last - 2 }), 1)).toEqual(['reset'])
    expect(await take(subscribe({ after: last + 1 }), 1)).toEqual(['reset'])
    await happen(1)
    expect(await take(subscribe({ after: last }), 1)).toEqual([0])
  })
})
