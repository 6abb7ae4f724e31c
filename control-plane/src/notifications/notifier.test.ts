import { AppError } from '@berth/shared'
import { describe, expect, test } from 'vitest'
import { LIVE } from '../limits/browser.ts'
import { Notifier } from './notifier.ts'

const unexpected = (error: unknown): never => {
  throw error
}
const newNotifier = () => new Notifier(unexpected)
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))
const LONG = 3_600_000
const never = () => new AbortController().signal

describe('a wake-up', () => {
  test('reaches every listener of its topic, once, after the running code', async () => {
    const notifier = newNotifier()
    const heard: string[] = []
    notifier.on('task:1', () => heard.push('a'))
    notifier.on('task:1', () => heard.push('b'))
    notifier.on('task:2', () => heard.push('other'))
    for (let n = 0; n < 1_000; n++) notifier.notify('task:1')
    expect(heard).toEqual([])
    await Promise.resolve()
    expect(heard).toEqual(['a', 'b'])
    notifier.notify('task:1')
    await Promise.resolve()
    expect(heard).toEqual(['a', 'b', 'a', 'b'])
  })

  test('of several topics in one turn reaches each', async () => {
    const notifier = newNotifier()
    const heard: string[] = []
    for (const topic of ['events', 'agent:1', 'log:1']) notifier.on(topic, () => heard.push(topic))
    for (const topic of ['events', 'nobody', 'agent:1', 'log:1', 'events']) notifier.notify(topic)
    await turn()
    expect(heard).toEqual(['events', 'agent:1', 'log:1'])
  })

  test('is not heard by those who left, even while it is being told', async () => {
    const notifier = newNotifier()
    const heard: string[] = []
    const off = notifier.on('events', () => heard.push('gone'))
    notifier.on('events', () => {
      heard.push('stays')
      offLater()
    })
    const offLater = notifier.on('events', () => heard.push('leaves meanwhile'))
    off()
    off() // calling it twice does not change the count
    notifier.notify('events')
    await turn()
    expect(heard).toEqual(['stays'])
    expect(notifier.size).toBe(1)
  })

  test('is heard by the others when one listener throws, and the fault is reported', async () => {
    const faults: unknown[] = []
    const notifier = new Notifier((error) => faults.push(error))
    const heard: string[] = []
    const fault = new Error('broken')
    notifier.on('events', () => {
      throw fault
    })
    notifier.on('events', () => heard.push('b'))
    notifier.notify('events')
    await turn()
    notifier.notify('events')
    await turn()
    expect(faults).toEqual([fault, fault])
    expect(heard).toEqual(['b', 'b'])
  })

  test('that causes itself for ever leaves room for everything else', async () => {
    const notifier = newNotifier()
    let rounds = 0
    const off = notifier.on('events', () => {
      rounds += 1
      if (rounds < 10_000) notifier.notify('events')
    })
    notifier.notify('events')
    for (let n = 0; n < 10; n++) await turn()
    off()
    expect(rounds).toBeGreaterThan(1)
    expect(rounds).toBeLessThan(30)
  })
})

describe('waiting', () => {
  test('ends with the wake-up, for everybody who waits', async () => {
    const notifier = newNotifier()
    const waiting = Array.from({ length: 100 }, () => notifier.wait('log:1', never(), LONG))
    expect(notifier.size).toBe(100)
    notifier.notify('log:1')
    await Promise.all(waiting)
    expect(notifier.size).toBe(0)
  })

  test('armed before the table was read hears what was committed meanwhile', async () => {
    const notifier = newNotifier()
    const waiting = notifier.wait('log:1', never(), LONG)
    await turn() // reads the table
    notifier.notify('log:1')
    await turn()
    await waiting
  })

  test('ends with the time-out', async () => {
    const notifier = newNotifier()
    await notifier.wait('log:1', never(), 1)
    expect(notifier.size).toBe(0)
  })

  test('ends when its signal aborts, and never begins after it', async () => {
    const notifier = newNotifier()
    const abort = new AbortController()
    const waiting = notifier.wait('log:1', abort.signal, LONG)
    abort.abort()
    await waiting
    await notifier.wait('log:1', abort.signal, LONG)
    expect(notifier.size).toBe(0)
  })
})

test('listeners have a bound, and room is given back', async () => {
  const notifier = newNotifier()
  const offs = Array.from({ length: LIVE.listeners }, (_, n) =>
    notifier.on(`task:${n % 100}`, () => {}),
  )
  expect(() => notifier.on('events', () => {})).toThrow(AppError)
  await expect(notifier.wait('events', never(), LONG)).rejects.toMatchObject({
    code: 'unavailable',
  })
  offs[0]?.()
  notifier.on('events', () => {})()
  for (const off of offs) off()
  expect(notifier.size).toBe(0)
})
