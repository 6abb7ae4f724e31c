import { expect, test } from 'vitest'
import { taskTimeoutMs } from './timeouts.ts'

const HOUR = 3_600_000

test('a deployment has an hour, and more where a build may take longer', () => {
  expect(taskTimeoutMs('deploy', undefined)).toBe(HOUR)
  expect(taskTimeoutMs('deploy', '{}')).toBe(HOUR)
  expect(taskTimeoutMs('deploy', `{"build_timeout_ms":${2 * HOUR}}`)).toBe(2.5 * HOUR)
  expect(taskTimeoutMs('deploy', `{"build_timeout_ms":${9 * HOUR}}`)).toBe(6 * HOUR)
})

test('an action has the time that its file gives it', () => {
  expect(taskTimeoutMs('action', '{}')).toBe(6 * HOUR)
})
