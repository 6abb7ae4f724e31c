// The log budgets as a pure reducer: limits hold, watched logs go first, the rest take turns, no log starves.
import { LOGS } from '@berth/shared'
import { expect, test } from 'vitest'
import {
  chooseFlow,
  type Flow,
  type LogPolicy,
  openFlow,
  recordAck,
  recordSent,
  resumeFlow,
} from './window.ts'

const policy: LogPolicy = {
  chunkBytes: LOGS.chunkBytes,
  unackedBytes: LOGS.unackedBytes,
  unackedBytesPerAttempt: LOGS.unackedBytesPerAttempt,
}
const flow = (id: string, over: Partial<Flow> = {}): Flow => ({
  ...openFlow(id, 0, LOGS.idleFlushMs),
  waiting: 'something',
  ...over,
})
const idOf = (choice: ReturnType<typeof chooseFlow>): string | number =>
  'send' in choice ? choice.send.attemptId : choice.waitUntil

test.each<[string, Flow[], string | number]>([
  ['nothing waits', [flow('a', { waiting: 'nothing' })], Number.POSITIVE_INFINITY],
  ['the first bytes of a log leave at once', [flow('a')], 'a'],
  ['an idle log waits for its interval', [flow('a', { lastSentAt: 9_500 })], 10_500],
  ['a full chunk does not wait', [flow('a', { lastSentAt: 9_999, waiting: 'chunk' })], 'a'],
  ['a watched log waits 50 ms', [flow('a', { lastSentAt: 9_990, flushMs: 200 })], 10_040],
  ['a watched log goes first', [flow('a'), flow('b', { flushMs: 200, lastSentAt: 1 })], 'b'],
  [
    'then whoever waited longest',
    [flow('a', { lastSentAt: 7 }), flow('b', { lastSentAt: 3 })],
    'b',
  ],
  ['a stopped log is silent', [flow('a', { stopped: true })], Number.POSITIVE_INFINITY],
  [
    'an attempt at its bound lets others pass',
    [flow('a', { flyingBytes: LOGS.unackedBytesPerAttempt, waiting: 'chunk' }), flow('b')],
    'b',
  ],
  [
    'an agent at its bound sends nothing',
    [flow('a', { flyingBytes: LOGS.unackedBytes - 1_000, stopped: true }), flow('b')],
    Number.POSITIVE_INFINITY,
  ],
])('%s', (_name, flows, expected) => {
  expect(idOf(chooseFlow(flows, policy, 10_000))).toBe(expected)
})

test('acknowledgements free budget; a resume voids what was under way', () => {
  let a = flow('a')
  a = recordSent(a, 10, 1_000, 1)
  a = recordSent(a, 20, 2_000, 2)
  expect(a).toMatchObject({ sent: 20, flyingBytes: 3_000 })
  expect(recordAck(a, 15)).toMatchObject({ acked: 15, flyingBytes: 2_000 })
  expect(recordAck(a, 0)).toBe(a)
  expect(recordAck(a, 99)).toMatchObject({ acked: 99, sent: 99, flyingBytes: 0 })
  expect(resumeFlow(a, 10)).toMatchObject({ acked: 10, sent: 10, flying: [], flyingBytes: 0 })
})

test('seeded: twelve loud logs share the budget evenly and within bounds', () => {
  let seed = 5
  const random = (n: number): number => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed % n
  }
  const flows = new Map(
    Array.from({ length: 12 }, (_, i) => [`a${i}`, flow(`a${i}`, { waiting: 'chunk' })]),
  )
  const counts = new Map<string, number>()
  const under: { id: string; seq: number }[] = []
  for (let now = 0; now < 5_000; now++) {
    const choice = chooseFlow(flows.values(), policy, now)
    if ('send' in choice) {
      const { attemptId, sent } = choice.send
      flows.set(attemptId, recordSent(choice.send, sent + 10, LOGS.chunkBytes, now))
      under.push({ id: attemptId, seq: sent + 10 })
      counts.set(attemptId, (counts.get(attemptId) ?? 0) + 1)
    }
    const total = [...flows.values()].reduce((sum, f) => sum + f.flyingBytes, 0)
    expect(total).toBeLessThanOrEqual(LOGS.unackedBytes)
    for (const f of flows.values()) {
      expect(f.flyingBytes).toBeLessThanOrEqual(LOGS.unackedBytesPerAttempt)
    }
    if (random(2) === 0) {
      const acked = under.shift()
      if (acked) flows.set(acked.id, recordAck(flows.get(acked.id) as Flow, acked.seq))
    }
  }
  expect(Math.max(...counts.values()) - Math.min(...counts.values())).toBeLessThanOrEqual(8)
})
