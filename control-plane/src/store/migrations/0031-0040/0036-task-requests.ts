// The request that asked for a task, so that logs and traces lead from one to the other.
import type { Migration } from '../../engine/migration.ts'

export const taskRequests: Migration = {
  name: '0036-task-requests',
  statements: () => ['alter table tasks add column request_id text'],
}
