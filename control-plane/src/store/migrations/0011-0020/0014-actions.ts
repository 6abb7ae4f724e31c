// Which action a task runs, and when an environment's actions were last brought by a deployment.
import type { Migration } from '../../engine/migration.ts'

export const actions: Migration = {
  name: '0014-actions',
  statements: () => [
    'alter table tasks add column action text',
    'alter table environments add column actions_synced_at bigint',
  ],
}
