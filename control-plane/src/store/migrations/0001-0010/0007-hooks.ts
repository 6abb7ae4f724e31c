// What decisions about events remember of an environment: its newest reported commit, what a push skipped, and that it
// waits for a server that never joined.
import type { Migration } from '../../engine/migration.ts'

export const hooks: Migration = {
  name: '0007-hooks',
  statements: () => [
    'alter table environments add column head_sha text',
    'alter table environments add column deploy_on_join integer not null default 0',
    'alter table environments add column skipped_sha text',
    'alter table environments add column skipped_from text',
    'alter table environments add column skipped_rule text',
    'create index environments_waiting on environments(server_id) where deploy_on_join = 1',
    'create index pull_requests_environment on pull_requests(environment_id)',
  ],
}
