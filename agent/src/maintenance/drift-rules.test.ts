// Messages about drift, and when a service counts as being in a crash loop.
import { expect, test } from 'vitest'
import { LABELS } from '../runner/docker/verify.ts'
import type { RunningContainer } from '../runner/plan/plan.ts'
import {
  degradedReason,
  type Ends,
  type EndsSeen,
  noteEnds,
  viewContainer,
  viewProcess,
} from './drift-rules.ts'

const MINUTE = 60_000
const rule = { ends: 3, windowMs: 5 * MINUTE }
const look = { now: 100 * MINUTE, rule }
const version = { taskId: 9, fence: 4n }
const expected: RunningContainer = {
  service: 'web',
  taskId: 9,
  containerId: 'abc',
  container: 'berth-e1-web-9',
  imageId: `sha256:${'a'.repeat(64)}`,
  image: 'berth/e1-web:9',
  digest: '',
  spec: 's',
}
const running = {
  id: 'abc',
  state: 'running',
  exitCode: 0,
  outOfMemory: false,
  restarts: 0,
  startedAt: 1,
  imageId: expected.imageId,
  labels: { [LABELS.spec]: 's', [LABELS.task]: '9', [LABELS.fence]: '4' },
}
const view = (seen: typeof running | undefined, ends?: Ends) =>
  viewContainer(expected, version, seen, ends, look)

const crashed = { exitCode: 1, signal: null, outOfMemory: false }
const seenEnds = (restarts: number, isUnsteady = false): EndsSeen => ({
  of: 'abc',
  restarts,
  last: crashed,
  isUnsteady,
})

test('what runs as it was deployed gives no reason', () => {
  expect(view(running)).toMatchObject({ state: 'running', reason: '' })
  expect(view({ ...running, state: 'restarting', restarts: 1 })).toMatchObject({
    state: 'restarting',
    restarts: 1,
    reason: '',
  })
})

test('gone, another image, other settings, another deployment', () => {
  const reasons = [
    view(undefined),
    view({ ...running, imageId: `sha256:${'b'.repeat(64)}` }),
    view({ ...running, labels: { ...running.labels, [LABELS.spec]: 'x' } }),
    view({ ...running, labels: { ...running.labels, [LABELS.task]: '7' } }),
  ].map(({ reason }) => reason.replace('Running differs from last deployed: ', ''))
  expect(reasons).toEqual([
    'the container of web is gone.',
    'web runs image bbbbbbb, expected aaaaaaa.',
    'web runs with other settings than those that were deployed.',
    'the container of web belongs to deployment 7, not to 9.',
  ])
})

test('stopped, never started, out of memory', () => {
  const stopped = { ...running, state: 'exited', exitCode: 137 }
  expect(view(stopped)).toMatchObject({
    state: 'exited',
    reason: 'web stopped with exit code 137.',
  })
  expect(view({ ...stopped, outOfMemory: true })).toMatchObject({ outOfMemory: true })
  expect(view({ ...stopped, outOfMemory: true }).reason).toMatch(
    /needed more than its memory limit/,
  )
  expect(view({ ...running, state: 'created' }).reason).toBe('web was made, but never started.')
})

test('three ends within five minutes are a loop; it is over when none was seen for as long', () => {
  const at = (restarts: number, minute: number, before?: Ends): Ends =>
    noteEnds(before, seenEnds(restarts), minute * MINUTE, rule)
  const first = at(0, 95)
  const second = at(2, 98, first)
  expect(view(running, second).reason).toBe('')
  const third = at(5, 99, second)
  expect(view(running, third).reason).toBe('web ended 5 times in 2 min, last exit code 1.')
  expect(view(running, at(5, 104, third)).reason).toBe('')
})

test('ends that were long ago, or of another container, do not count', () => {
  const now = 100 * MINUTE
  expect(noteEnds(undefined, seenEnds(40), now, rule).times).toEqual([])
  expect(noteEnds(undefined, seenEnds(40, true), now, rule).times).toHaveLength(3)
  const before = noteEnds(undefined, seenEnds(40, true), now, rule)
  expect(noteEnds(before, { ...seenEnds(1), of: 'new' }, now, rule).times).toEqual([])
})

test('processes of the manual recipe, by what their supervisors say', () => {
  const seen = { condition: 'running' as const, restarts: 1, last: undefined }
  expect(viewProcess('web', seen, undefined, look)).toMatchObject({ state: 'running', reason: '' })
  expect(viewProcess('web', undefined, undefined, look).state).toBe('missing')
  const killed = { exitCode: null, signal: 'SIGKILL', outOfMemory: false }
  const ends = { of: 'x', restarts: 3, times: [1, 2, 3].map((n) => look.now - n), last: killed }
  const waiting = { ...seen, condition: 'waiting' as const }
  const looping = viewProcess('web', waiting, ends, look)
  expect(looping).toMatchObject({ state: 'restarting' })
  expect(looping.reason).toBe('web ended 3 times in 1 s, last signal SIGKILL.')
  const hungry = { ...ends, last: { ...killed, outOfMemory: true } }
  expect(viewProcess('web', waiting, hungry, look).reason).toMatch(
    /needed more than its memory limit/,
  )
  expect(degradedReason([viewProcess('a', seen, undefined, look), looping])).toBe(looping.reason)
})
