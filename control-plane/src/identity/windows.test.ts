// Limits of several control planes on one table, which a map stands for here; test/specs/shared-limits.test.ts has the
// real one.
import { expect, test } from 'vitest'
import { SHARED_LIMITS } from '../limits/sharing.ts'
import { RateLimit } from './rate-limit.ts'
import {
  Exchange,
  type NamedWindow,
  type SharedWindows,
  TableWindows,
  WINDOW_MS,
} from './windows.ts'

class Table implements SharedWindows {
  readonly rows = new Map<string, NamedWindow>()
  statements = 0
  fault: Error | undefined

  async add(added: readonly NamedWindow[], now: number): Promise<NamedWindow[]> {
    this.statements += 1
    await Promise.resolve()
    if (this.fault) throw this.fault
    return added.map((one) => {
      const id = `${one.name} ${one.key}`
      const row = this.rows.get(id)
      const isOver = !row || row.since <= now - WINDOW_MS
      const next = isOver ? { ...one } : { ...row, count: Math.max(0, row.count + one.count) }
      this.rows.set(id, next)
      return { ...next }
    })
  }

  async sweep(): Promise<void> {}
}

function several(perMinute: number) {
  const clock = { now: 1_000_000 }
  const table = new Table()
  const now = () => clock.now
  const faults: unknown[] = []
  const open = () => {
    const exchange = new Exchange(table, now, (error) => faults.push(error))
    const summed = new RateLimit(perMinute, exchange.open('default', perMinute))
    return {
      exchange,
      summed,
      exact: new RateLimit(perMinute, new TableWindows('e', perMinute, table, now)),
    }
  }
  return { clock, table, faults, a: open(), b: open() }
}

test('an exact limit is one for all, also for requests at the same time', async () => {
  const { a, b, clock } = several(10)
  const asked = await Promise.all(
    Array.from({ length: 30 }, (_, n) => (n % 2 ? a : b).exact.count('x')),
  )
  expect(asked.filter(({ allowed }) => allowed)).toHaveLength(10)
  expect((await b.exact.count('y')).allowed).toBe(true)
  clock.now += WINDOW_MS
  expect((await b.exact.count('x')).allowed).toBe(true)
})

test('what is given back at one counts for the other', async () => {
  const { a, b } = several(1)
  expect((await a.exact.count('x')).allowed).toBe(true)
  await a.exact.giveBack('x')
  expect((await b.exact.count('x')).allowed).toBe(true)
  expect((await a.exact.count('x')).allowed).toBe(false)
})

test('a flood above an exact limit costs a statement in a while, and waits for its minute', async () => {
  const { a, table, clock } = several(1)
  for (let n = 0; n < 500; n++) await a.exact.count('x')
  expect(table.statements).toBe(2)
  clock.now += SHARED_LIMITS.refusedMs
  const { allowed, seconds } = await a.exact.count('x')
  expect([allowed, seconds, table.statements]).toEqual([false, 59, 3])
})

test('an exact limit refuses to guess without the table', async () => {
  const { a, table } = several(1)
  table.fault = new Error('planned')
  await expect(a.exact.take('x')).rejects.toThrow('planned')
})

test('sums: no statement for a request, and after an exchange each knows of the other', async () => {
  const { a, b, table } = several(100)
  for (let n = 0; n < 5; n++) await a.summed.count('x')
  expect((await b.summed.count('x')).left).toBe(99)
  expect(table.statements).toBe(0)
  await a.exchange.exchange()
  await b.exchange.exchange()
  expect((await b.summed.count('x')).left).toBe(93)
  await a.summed.giveBack('x')
  await b.exchange.exchange()
  await a.exchange.exchange()
  expect((await a.summed.count('x')).left).toBe(93)
  await Promise.all([a.exchange.close(), b.exchange.close()])
})

test('sums: a burst at both exceeds the limit by what each keeps back, once', async () => {
  const { a, b } = several(100)
  let allowed = 0
  for (let n = 0; n < 300; n++) {
    const counted = await (n % 2 ? a : b).summed.count('x')
    if (counted.allowed) allowed += 1
  }
  expect(allowed).toBeGreaterThanOrEqual(100)
  expect(allowed).toBeLessThanOrEqual(100 + 2 * 100 * SHARED_LIMITS.unsentShare)
  await Promise.all([a.exchange.close(), b.exchange.close()])
})

test('sums: without the table each counts for itself, and nothing is lost or doubled', async () => {
  const { a, b, table, faults } = several(100)
  table.fault = new Error('planned')
  for (let n = 0; n < 5; n++) await a.summed.count('x')
  await a.exchange.exchange()
  expect([faults.length, (await a.summed.count('x')).left]).toEqual([1, 94])
  table.fault = undefined
  await a.exchange.exchange()
  await a.exchange.exchange()
  expect(table.rows.get('default x')?.count).toBe(6)
  await Promise.all([a.exchange.close(), b.exchange.close()])
})

test('sums: a window that is over takes nothing along', async () => {
  const { a, table, clock } = several(100)
  await a.summed.count('x')
  clock.now += WINDOW_MS
  await a.summed.count('x')
  await a.exchange.exchange()
  expect(table.rows.get('default x')).toMatchObject({ since: clock.now, count: 1 })
  await a.exchange.close()
})
