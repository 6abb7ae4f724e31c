import { expect, it } from 'vitest'
import type { RuntimeRecord } from './records.ts'
import { RuntimeStore } from './store.ts'

const line = (text: string): RuntimeRecord => ({
  t: '2026-11-17T09:12:30.000000Z',
  s: 'out',
  service: 'web',
  task: 1,
  level: null,
  text,
})
const lines = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, n) => line(String(from + n)))
const texts = (store: RuntimeStore) =>
  store.rows.map(({ record }) => ('text' in record ? Number(record.text) : -1))

it('joins pages, and keeps the key of a row while others come before and after it', () => {
  const store = new RuntimeStore()
  expect([store.older, store.newer]).toEqual([undefined, undefined])
  store.prepend(lines(100, 200), 'c100', 'c200')
  const key = store.rows[0]?.key
  store.append(lines(200, 203), 'c203')
  store.prepend(lines(50, 100), 'c50', 'c100')
  expect(texts(store)).toEqual(Array.from({ length: 153 }, (_, n) => 50 + n))
  expect(store.rows[50]?.key).toBe(key)
  const keys = store.rows.map((row) => row.key)
  expect(keys).toEqual([...keys].sort((a, b) => a - b))
  expect(new Set(keys).size).toBe(keys.length)
  expect([store.older, store.newer]).toEqual(['c50', 'c203'])
  store.append([], 'c204')
  expect([store.rows.length, store.newer]).toEqual([153, 'c204'])
})

it('drops the far end beyond its bound, and knows where to continue', () => {
  const store = new RuntimeStore()
  store.prepend(lines(0, 500), null, 'c500')
  for (let n = 500; n < 30_000; n += 500) store.append(lines(n, n + 500), `c${n + 500}`)
  expect(store.trim('older')).toBe(false)
  expect(store.rows).toHaveLength(20_000)
  expect([store.older, store.newer]).toEqual(['c10000', 'c30000'])
  store.prepend(lines(9_000, 10_000), 'c9000', 'c10000')
  expect(store.trim('newer')).toBe(true)
  expect([store.older, store.newer]).toEqual(['c9000', 'c29000'])
  expect(texts(store).at(-1)).toBe(28_999)
  store.append(lines(29_000, 29_001), 'c29001')
  expect(new Set(store.rows.map((row) => row.key)).size).toBe(store.rows.length)
})
