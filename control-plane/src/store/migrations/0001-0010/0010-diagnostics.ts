// What diagnostics and task history need: outcomes found by key in a history of any length, which .service.yml a
// deployment read, and which variables changed between two of them (names, never values).
import type { Migration } from '../../engine/migration.ts'

export const diagnostics: Migration = {
  name: '0010-diagnostics',
  statements: () => [
    // null: the deployment ended earlier, or its agent did not report it
    'alter table tasks add column service_file_sha text',
    'create index tasks_outcome on tasks(environment_id, type, status, id)',
    'create index tasks_kind on tasks(environment_id, type, id)',
    'create index tasks_project_outcome on tasks(project_id, type, status, id)',
    'create index tasks_project_kind on tasks(project_id, type, id)',
    'create index tasks_environment_time on tasks(environment_id, created_at)',
    'create index tasks_project_time on tasks(project_id, created_at)',
    `create table variable_changes (
      environment_id integer not null references environments(id), revision integer not null,
      key text not null, primary key (environment_id, revision, key))`,
  ],
}
