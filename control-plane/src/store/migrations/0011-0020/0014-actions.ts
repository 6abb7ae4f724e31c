// Which action a task runs, and when a deployment last brought an environment's actions.
import type { Migration } from '../../engine/migration.ts'

export const actions: Migration = {
  name: '0014-actions',
  statements: () => [
    'alter table tasks add column action text',
    'alter table environments add column actions_synced_at bigint',
  ],
}
