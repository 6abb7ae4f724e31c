import { expect, it } from 'vitest'
import { restartDelay } from './backoff.ts'

it('waits 1 s, doubles to 60 s, and begins anew after a minute up', () => {
  const waits: number[] = []
  let previous: number | undefined
  for (let i = 0; i < 9; i += 1) {
    previous = restartDelay(10, previous)
    waits.push(previous / 1_000)
  }
  expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60])
  expect(restartDelay(59_999, 60_000)).toBe(60_000)
  expect(restartDelay(60_000, 60_000)).toBe(1_000)
})
