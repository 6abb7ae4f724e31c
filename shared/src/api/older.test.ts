// A client may be newer than its control plane, so fields that were added later have a value when they are absent.
import { expect, test } from 'vitest'
import { action, environment, task } from '../../../cli/src/testing/samples.ts'
import { Action, Environment, Member, OrganizationDetail, Task } from './index.ts'

test('a task, an environment and an action of an earlier control plane are read', () => {
  const { service: _, ...olderTask } = task('succeeded')
  expect(Task.parse(olderTask).service).toBeNull()
  const { stopped: __, ...olderEnvironment } = environment()
  expect(Environment.parse(olderEnvironment).stopped).toBeNull()
  const { schedule: ___, ...olderAction } = action('seed')
  expect(Action.parse(olderAction).schedule).toBeNull()
})

test('a member and an organization of an earlier control plane are read', () => {
  const at = '2026-10-01T08:00:00Z'
  const user = { id: 1, name: 'Ada', email: 'ada@example.com' }
  const member = { user, role: 'owner', joined_at: at, last_active_at: null }
  expect(Member.parse(member).has_second_factor).toBeNull()
  const counts = { project_count: 0, member_count: 1, server_count: 0 }
  const organization = {
    id: 1,
    name: 'Acme',
    slug: 'acme',
    role: 'owner',
    permissions: [],
    ...counts,
  }
  const parsed = OrganizationDetail.parse({ ...organization, created_at: at })
  expect(parsed.second_factor_required).toBe(false)
})
