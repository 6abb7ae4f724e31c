// What a session receives about running services: everything once, then changes, combined and rate-limited.

import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { MAINTENANCE } from '../limits/maintenance.ts'
import { Observations, type ObservedEnvironment } from '../maintenance/observations.ts'
import { ObservedSender } from './observed-sender.ts'

const view = (environmentId: number, degradedReason = ''): ObservedEnvironment => ({
  environmentId,
  commitSha: 'c',
  fence: 3n,
  services: [
    {
      name: 'web',
      state: 'running',
      health: 'none',
      restarts: 0,
      outOfMemory: false,
      replicas: 1,
      replicasUp: 1,
    },
  ],
  degradedReason,
})

let observations: Observations
let sender: ObservedSender
let sent: { complete?: boolean; last?: boolean; ids: number[]; hasHost: boolean }[]
const open = (): void => {
  sender = new ObservedSender({
    observations,
    host: { info: () => ({}) as never },
    send: ({ complete, last, environments = [], host }) => {
      const ids = environments.map((e) => e.environmentId ?? 0)
      sent.push({ complete: complete ?? false, last: last ?? false, ids, hasHost: !!host })
    },
  })
}
beforeEach(() => {
  vi.useFakeTimers()
  observations = new Observations()
  sent = []
})
afterEach(() => {
  sender.close()
  vi.useRealTimers()
})

test('the complete set waits for the first look, then changes go at once and together', async () => {
  open()
  observations.set(view(1))
  await vi.advanceTimersByTimeAsync(10)
  expect(sent).toEqual([])
  observations.setReady()
  await vi.advanceTimersByTimeAsync(0)
  expect(sent).toEqual([{ complete: true, last: true, ids: [1], hasHost: true }])
  observations.set(view(2))
  observations.set(view(1, 'web is gone.'))
  observations.set(view(1, 'web is gone.'))
  expect(sent).toHaveLength(1)
  await vi.advanceTimersByTimeAsync(MAINTENANCE.observedMs)
  expect(sent[1]).toEqual({ complete: false, last: true, ids: [2, 1].toSorted(), hasHost: false })
  await vi.advanceTimersByTimeAsync(10 * MAINTENANCE.observedMs)
  expect(sent).toHaveLength(2)
  observations.set(view(2, 'x'))
  expect(sent[2]?.ids).toEqual([2])
  observations.set(view(2, 'y'))
  expect(sent).toHaveLength(3)
})

test('an engine that does not answer does not keep a session waiting; nothing is told twice', async () => {
  open()
  await vi.advanceTimersByTimeAsync(MAINTENANCE.observedMs)
  expect(sent).toEqual([{ complete: true, last: true, ids: [], hasHost: true }])
  observations.setReady()
  await vi.advanceTimersByTimeAsync(MAINTENANCE.observedMs)
  expect(sent).toHaveLength(1)
})

test('many environments go in several messages; a closed session hears nothing', async () => {
  for (let id = 1; id <= MAINTENANCE.observedPerMessage + 1; id += 1) observations.set(view(id))
  observations.setReady()
  open()
  await vi.advanceTimersByTimeAsync(0)
  expect(sent.map(({ last, ids, hasHost }) => [last, ids.length, hasHost])).toEqual([
    [false, MAINTENANCE.observedPerMessage, true],
    [true, 1, false],
  ])
  sender.close()
  observations.set(view(1, 'late'))
  await vi.advanceTimersByTimeAsync(10 * MAINTENANCE.observedMs)
  expect(sent).toHaveLength(2)
})
