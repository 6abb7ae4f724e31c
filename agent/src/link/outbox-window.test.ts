// The window of unacknowledged events: limits, order, and eventual delivery of everything.
import { EVENTS } from '@berth/shared'
import { expect, test } from 'vitest'
import {
  acknowledge,
  nextSendAt,
  noticeAppended,
  type OutboxWindow,
  openWindow,
  takeBatch,
} from './outbox-window.ts'

const rows = (from: number, sizes: number[]) =>
  sizes.map((bytes, i) => ({ seq: BigInt(from + i), bytes }))

test('the outbox continues after what was acknowledged', () => {
  const { window, count } = takeBatch(openWindow(41n), rows(42, [10, 10]), 0)
  expect({ count, sent: window.sent }).toEqual({ count: 2, sent: 43n })
  expect(() => takeBatch(openWindow(41n), rows(43, [10]), 0)).toThrow(/hole before event 43/)
})

test('a batch stays within a message, the window within its bound', () => {
  const big = new Array(10).fill(30_000)
  let window = openWindow(0n)
  const counts: number[] = []
  for (let i = 0; i < 6; i++) {
    const taken = takeBatch(
      window,
      rows(Number(window.sent) + 1, big.slice(Number(window.sent))),
      0,
    )
    counts.push(taken.count)
    window = taken.window
  }
  expect(counts).toEqual([2, 2, 2, 2, 0, 0])
  expect(window.flyingBytes).toBeLessThanOrEqual(EVENTS.unackedBytes)
  expect(nextSendAt(window)).toBe(Number.POSITIVE_INFINITY)
  const after = acknowledge(window, 2n) as OutboxWindow
  expect(nextSendAt(after)).toBeLessThan(Number.POSITIVE_INFINITY)
  expect(takeBatch(after, rows(9, [30_000, 30_000]), 0).count).toBe(2)
})

test('the largest event always fits an empty window', () => {
  expect(takeBatch(openWindow(0n), rows(1, [EVENTS.eventBytes]), 0).count).toBe(1)
})

test('batches wait for company, the first one does not', () => {
  let window = openWindow(0n)
  expect(nextSendAt(window)).toBe(Number.NEGATIVE_INFINITY)
  window = takeBatch(window, rows(1, [5]), 1_000).window
  expect(nextSendAt(window)).toBe(1_000 + EVENTS.batchMs)
  window = takeBatch(window, [], 1_050).window
  expect(nextSendAt(window)).toBe(Number.POSITIVE_INFINITY)
  expect(nextSendAt(noticeAppended(window))).toBe(1_050)
})

test('an acknowledgement of something never sent is an error; an old one changes nothing', () => {
  const { window } = takeBatch(openWindow(5n), rows(6, [1, 1, 1]), 0)
  expect(acknowledge(window, 9n)).toBeUndefined()
  expect(acknowledge(window, 4n)).toEqual(window)
  expect(acknowledge(window, 7n)).toMatchObject({ acked: 7n, flying: [{ seq: 8n }] })
})

test('seeded: every event goes up once, in order, within the bounds', () => {
  let seed = 99
  const random = (n: number): number => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed % n
  }
  const sizes = Array.from({ length: 2_000 }, () => 1 + random(EVENTS.eventBytes))
  const arrived: bigint[] = []
  let window = openWindow(0n)
  for (let step = 0; arrived.length < sizes.length || window.acked < 2_000n; step++) {
    if (step > 100_000) throw new Error('stuck')
    if (random(3) > 0 && nextSendAt(window) <= step * 10) {
      const from = Number(window.sent)
      const waiting = rows(from + 1, sizes.slice(from, from + 20))
      const taken = takeBatch(window, waiting, step * 10)
      const batch = waiting.slice(0, taken.count)
      expect(batch.reduce((sum, r) => sum + r.bytes + 4, 0)).toBeLessThan(EVENTS.batchBytes)
      arrived.push(...batch.map((r) => r.seq))
      window = taken.window
      expect(window.flyingBytes).toBeLessThanOrEqual(EVENTS.unackedBytes)
    } else if (window.flying.length > 0) {
      const ack = window.flying[random(window.flying.length)]?.seq ?? 0n
      window = acknowledge(window, ack) as OutboxWindow
    }
  }
  expect(arrived).toEqual(sizes.map((_, i) => BigInt(i + 1)))
})
