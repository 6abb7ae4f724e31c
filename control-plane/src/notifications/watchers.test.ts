import { expect, test } from 'vitest'
import { Watchers } from './watchers.ts'

test('a log is watched from the first to the last reader, and each change is told once', () => {
  const watchers = new Watchers()
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
