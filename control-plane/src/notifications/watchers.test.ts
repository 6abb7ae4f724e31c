import { expect, test, vi } from 'vitest'
import { LIVE } from '../limits/browser.ts'
import { Notifier } from './notifier.ts'
import { Watchers } from './watchers.ts'

test('a log is watched from the first to the last reader, and each change is told once', () => {
  const watchers = new Watchers(new Notifier(() => {}))
  const reported: [string, boolean][] = []
  const stop = watchers.onChange((id, watched) => reported.push([id, watched]))
  const first = watchers.watch('a')
  const second = watchers.watch('a')
  const other = watchers.watch('b')
  expect([watchers.isWatched('a'), watchers.isWatched('c')]).toEqual([true, false])
  first()
  first() // ending twice counts once
  expect(watchers.isWatched('a')).toBe(true)
  second()
  expect(watchers.isWatched('a')).toBe(false)
  stop()
  other()
  expect(reported).toEqual([
    ['a', true],
    ['b', true],
    ['a', false],
  ])
})

test('a reader elsewhere counts while it repeats that it is there', async () => {
  vi.useFakeTimers()
  const make = () => {
    const notifier = new Notifier(() => {})
    return { notifier, watchers: new Watchers(notifier) }
  }
  const [reader, feeder] = [make(), make()]
  reader.notifier.relay = (topic) => feeder.notifier.hear(topic)
  const stop = feeder.watchers.listen('a')
  const leave = reader.watchers.watch('a')
  await vi.advanceTimersByTimeAsync(10 * LIVE.watchedMs)
  expect(feeder.watchers.isWatched('a')).toBe(true)
  leave()
  await vi.advanceTimersByTimeAsync(3 * LIVE.watchedMs)
  expect(feeder.watchers.isWatched('a')).toBe(false)
  const again = reader.watchers.watch('a')
  await vi.advanceTimersByTimeAsync(0)
  expect(feeder.watchers.isWatched('a')).toBe(true)
  stop()
  expect([feeder.watchers.isWatched('a'), feeder.notifier.size]).toEqual([false, 0])
  again()
  expect(vi.getTimerCount()).toBe(0)
  vi.useRealTimers()
})
