import { expect, test } from 'vitest'
import { listExpired } from './backups.ts'

const DAY = 86_400_000
const taken = (...days: number[]) => days.map((day) => ({ takenAt: day * DAY }))

test('retention keeps the newest by count and by age, and always one', () => {
  const all = taken(3, 1, 2, 5, 4)
  const expired = (keep: number, keepDays: number, now = 5): number[] =>
    listExpired(all, { keep, keepDays }, now * DAY).map((b) => b.takenAt / DAY)
  expect(expired(0, 0)).toEqual([])
  expect(expired(2, 0)).toEqual([3, 2, 1])
  expect(expired(0, 2)).toEqual([2, 1])
  expect(expired(4, 3)).toEqual([1])
  expect(expired(1, 1, 100)).toEqual([4, 3, 2, 1])
  expect(listExpired([], { keep: 1, keepDays: 1 }, 0)).toEqual([])
})
