// A client may be newer than its control plane, so fields that were added later have a value when they are absent.
import { expect, test } from 'vitest'
import { action, environment, task } from '../../../cli/src/testing/samples.ts'
import { Action, Environment, Task } from './index.ts'

test('a task, an environment and an action of an earlier control plane are read', () => {
  const { service: _, commit_author: _a, canceled_by: _c, ...olderTask } = task('succeeded')
  expect(Task.parse(olderTask)).toMatchObject({
    service: null,
    commit_author: null,
    canceled_by: null,
  })
  const { stopped: __, ...olderEnvironment } = environment()
  expect(Environment.parse(olderEnvironment).stopped).toBeNull()
  const { schedule: ___, ...olderAction } = action('seed')
  expect(Action.parse(olderAction).schedule).toBeNull()
})
