import { expect, it } from 'vitest'
import { buildFailure, environment, failedTask, task } from '../testing/samples.ts'
import { cancelReason, exitCodeOfTask, failurePlace, survivorSentence } from './verdict.ts'

it('0 for success, 3 for everything else', () => {
  const codes = ['succeeded', 'failed', 'canceled'].map((status) => exitCodeOfTask(task(status)))
  expect(codes).toEqual([0, 3, 3])
})

it.each([
  [{ cancel_reason: 'superseded', superseded_by: 815 }, 'superseded by task 815'],
  [{ cancel_reason: 'superseded', superseded_by: null }, 'superseded by a newer deployment'],
  [{ cancel_reason: 'environment_removed' }, 'the environment was removed'],
  [{ cancel_reason: 'user', canceled_by: 'Ada' }, 'canceled by Ada'],
  [{ cancel_reason: 'user', canceled_by: null }, 'canceled by a user'],
])('%j: %s', (more, text) => expect(cancelReason(task('canceled', more))).toBe(text))

it.each([
  [buildFailure, 'in "Build image web" (exit code 1)'],
  [{ ...buildFailure, exit_code: null }, 'in "Build image web"'],
  [{ ...buildFailure, step_title: null, step: null, phase: null, exit_code: null }, ''],
])('where it failed', (failure, text) => expect(failurePlace(failedTask({ failure }))).toBe(text))

it.each([
  [{}, {}, 'The version deployed before keeps running.'],
  [{}, { status: 'new', commit_sha: null }, 'Nothing is running in pr-42 now.'],
  [{}, { status: 'failed' }, 'Nothing is running in pr-42 now.'],
  [
    {},
    { status: 'degraded', status_reason: 'web ended.' },
    'The version deployed before is degraded: web ended.',
  ],
  [{ live_at: '2026-11-15T09:13:00Z' }, {}, 'The new version serves; what failed came after that.'],
  [{ type: 'destroy' }, {}, ''],
])('what serves after a failure: %j %j', (ofTask, ofEnvironment, text) => {
  expect(survivorSentence(failedTask(ofTask), environment(ofEnvironment))).toBe(text)
  expect(survivorSentence(failedTask(ofTask), undefined)).toBe('')
})
