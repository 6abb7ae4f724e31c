import { AppError, LIVE } from '@berth/shared'
import { describe, expect, test } from 'vitest'
import { Wakes } from './notifier.ts'

const unexpected = (error: unknown): never => {
  throw error
}
const newWakes = () => new Wakes(unexpected)
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))
const LONG = 3_600_000
const never = () => new AbortController().signal

describe('a wake-up', () => {
  test('reaches every listener of its topic, once, after the running code', async () => {
    const wakes = newWakes()
    const heard: string[] = []
    wakes.on('task:1', () => heard.push('a'))
    wakes.on('task:1', () => heard.push('b'))
    wakes.on('task:2', () => heard.push('other'))
    for (let n = 0; n < 1_000; n++) wakes.wake('task:1')
    expect(heard).toEqual([])
    await Promise.resolve()
    expect(heard).toEqual(['a', 'b'])
    wakes.wake('task:1')
    await Promise.resolve()
    expect(heard).toEqual(['a', 'b', 'a', 'b'])
  })

  test('of several topics in one turn reaches each', async () => {
    const wakes = newWakes()
    const heard: string[] = []
    for (const topic of ['events', 'agent:1', 'log:1']) wakes.on(topic, () => heard.push(topic))
    for (const topic of ['events', 'nobody', 'agent:1', 'log:1', 'events']) wakes.wake(topic)
    await turn()
    expect(heard).toEqual(['events', 'agent:1', 'log:1'])
  })

  test('is not heard by those who left, even while it is being told', async () => {
    const wakes = newWakes()
    const heard: string[] = []
    const off = wakes.on('events', () => heard.push('gone'))
    wakes.on('events', () => {
      heard.push('stays')
      offLater()
    })
    const offLater = wakes.on('events', () => heard.push('leaves meanwhile'))
    off()
    off() // twice does no harm to the count
    wakes.wake('events')
    await turn()
    expect(heard).toEqual(['stays'])
    expect(wakes.size).toBe(1)
  })

  test('is heard by the others when one listener throws, and the fault is reported', async () => {
    const faults: unknown[] = []
    const wakes = new Wakes((error) => faults.push(error))
    const heard: string[] = []
    const fault = new Error('broken')
    wakes.on('events', () => {
      throw fault
    })
    wakes.on('events', () => heard.push('b'))
    wakes.wake('events')
    await turn()
    wakes.wake('events')
    await turn()
    expect(faults).toEqual([fault, fault])
    expect(heard).toEqual(['b', 'b'])
  })

  test('that causes itself for ever leaves room for everything else', async () => {
    const wakes = newWakes()
    let rounds = 0
    const off = wakes.on('events', () => {
      rounds += 1
      if (rounds < 10_000) wakes.wake('events')
    })
    wakes.wake('events')
    for (let n = 0; n < 10; n++) await turn()
    off()
    expect(rounds).toBeGreaterThan(1)
    expect(rounds).toBeLessThan(30)
  })
})

describe('waiting', () => {
  test('ends with the wake-up, for everybody who waits', async () => {
    const wakes = newWakes()
    const waiting = Array.from({ length: 100 }, () => wakes.wait('log:1', never(), LONG))
    expect(wakes.size).toBe(100)
    wakes.wake('log:1')
    await Promise.all(waiting)
    expect(wakes.size).toBe(0)
  })

  test('armed before the table was read hears what was committed meanwhile', async () => {
    const wakes = newWakes()
    const waiting = wakes.wait('log:1', never(), LONG)
    await turn() // reads the table
    wakes.wake('log:1')
    await turn()
    await waiting
  })

  test('ends with the time-out', async () => {
    const wakes = newWakes()
    await wakes.wait('log:1', never(), 1)
    expect(wakes.size).toBe(0)
  })

  test('ends when its signal aborts, and never begins after it', async () => {
    const wakes = newWakes()
    const abort = new AbortController()
    const waiting = wakes.wait('log:1', abort.signal, LONG)
    abort.abort()
    await waiting
    await wakes.wait('log:1', abort.signal, LONG)
    expect(wakes.size).toBe(0)
  })
})

test('listeners have a bound, and room is given back', async () => {
  const wakes = newWakes()
  const offs = Array.from({ length: LIVE.listeners }, (_, n) =>
    wakes.on(`task:${n % 100}`, () => {}),
  )
  expect(() => wakes.on('events', () => {})).toThrow(AppError)
  await expect(wakes.wait('events', never(), LONG)).rejects.toMatchObject({ code: 'unavailable' })
  offs[0]?.()
  wakes.on('events', () => {})()
  for (const off of offs) off()
  expect(wakes.size).toBe(0)
})
