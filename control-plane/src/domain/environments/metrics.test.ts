import { LATENCY_BOUNDS_MS, METRIC_STEPS } from '@berth/shared'
import { expect, test } from 'vitest'
import { addToSteps, noRequests, percentile, stepsAt, toChart } from './metrics.ts'

const MINUTE = 60_000
const T0 = 1_763_197_200_000

const classes = (counts: Record<number, number>): number[] =>
  Array.from({ length: LATENCY_BOUNDS_MS.length + 1 }, (_, i) => counts[i] ?? 0)

test.each([
  [classes({}), 0.5, null],
  [classes({ 0: 1 }), 0.5, 3], // within the first 5 ms
  [classes({ 0: 100 }), 0.95, 5],
  [classes({ 0: 50, 6: 50 }), 0.5, 5],
  [classes({ 0: 50, 6: 50 }), 0.75, 88],
  [classes({ 19: 3 }), 0.95, 30_000], // slower than everything
])('percentile %#', (latencies, part, ms) => {
  expect(percentile(latencies, part)).toBe(ms)
})

test('every range has few points', () => {
  for (const { points } of Object.values(METRIC_STEPS)) expect(points).toBeLessThanOrEqual(170)
})

test('averages measurements, adds requests, and keeps one step of each range', () => {
  const use = (cpuPermille: number) => ({ cpuPermille, memoryBytes: 10 })
  const first = addToSteps([], [{ environmentId: 1, at: T0, use: use(100) }])
  expect(first.map(({ span, samples }) => [span, samples])).toEqual([
    ['hour', 1],
    ['day', 1],
    ['week', 1],
  ])
  const requests = { ...noRequests(), requests: 2, status2xx: 2, latencies: classes({ 3: 2 }) }
  const second = addToSteps(first, [
    { environmentId: 1, at: T0 + 1, use: use(200) },
    { environmentId: 1, at: T0, requests },
    { environmentId: 1, at: T0 + 5 * MINUTE, requests },
  ])
  const of = (span: string, at = T0) =>
    second.find((step) => step.span === span && step.at <= at && step.at > at - 60 * MINUTE)
  expect(of('hour')).toMatchObject({ samples: 2, cpuPermille: 150, memoryBytes: 10, requests: 2 })
  expect(second.filter(({ span }) => span === 'hour')).toHaveLength(2)
  expect(of('day')).toMatchObject({ samples: 2, requests: 4, status2xx: 4 })
  expect(of('week')?.latencies[3]).toBe(4)
})

test('a step of the last round is overwritten, and what comes too late for it is dropped', () => {
  const round = METRIC_STEPS.hour.stepMs * METRIC_STEPS.hour.points
  const requests = { ...noRequests(), requests: 1 }
  const old = addToSteps([], [{ environmentId: 1, at: T0, requests }])
  const next = addToSteps(old, [{ environmentId: 1, at: T0 + round, requests }])
  expect(next.find(({ span }) => span === 'hour')).toMatchObject({ at: T0 + round, requests: 1 })
  const late = addToSteps(next, [{ environmentId: 1, at: T0, requests }])
  expect(late.some(({ span }) => span === 'hour')).toBe(false)
})

test('the rate of the newest step is about the part that is over', () => {
  const at = T0 - (T0 % (60 * MINUTE))
  const [step] = addToSteps(
    [],
    [{ environmentId: 1, at, requests: { ...noRequests(), requests: 600 } }],
  ).filter(({ span }) => span === 'week')
  if (!step) throw new Error('no step')
  const { points } = toChart([step], 'week', at + 10 * MINUTE, at + 10 * MINUTE)
  expect(points.at(-1)?.requests).toMatchObject({ requests: 600, perSecond: 1 })
  expect(toChart([step], 'week', at, null).totals).toBeNull()
  expect(stepsAt(1, at)).toHaveLength(3)
})
