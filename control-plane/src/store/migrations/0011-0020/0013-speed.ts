// Reduces the keys of tasks, since each key is one more page that an insert reads, writes and logs, and a cold one in a
// long history. Partial indexes separate open tasks from ended ones and stay small; only statements that repeat their
// condition literally use them (store/deployments/task-conditions.ts).
import type { Migration } from '../../engine/migration.ts'

const OPEN = `status in ('queued', 'running')`
const ENDED = `status in ('succeeded', 'failed', 'canceled')`

export const speed: Migration = {
  name: '0013-speed',
  statements: () => [
    ...[
      'tasks_environment',
      'tasks_environment_status',
      'tasks_environment_time',
      'tasks_outcome',
      'tasks_project',
      'tasks_project_outcome',
      'tasks_project_time',
      'tasks_status',
    ].map((name) => `drop index ${name}`),
    `create index tasks_open on tasks(environment_id, id) where ${OPEN}`,
    `create index tasks_open_project on tasks(project_id, id) where ${OPEN}`,
    `create index tasks_open_server on tasks(server_id, id) where ${OPEN}`,
    `create index tasks_queued on tasks(created_at) where status = 'queued'`,
    // written once, when a task ends; an outcome is found by key in a history of any length
    `create index tasks_ended on tasks(environment_id, type, status, id) where ${ENDED}`,
    `create index tasks_project_ended on tasks(project_id, type, status, id) where ${ENDED}`,
    // one for all: a time becomes an id, and every history is walked by id
    'create index tasks_time on tasks(created_at)',
  ],
}
