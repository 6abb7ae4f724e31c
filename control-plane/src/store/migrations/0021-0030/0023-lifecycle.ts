// Restart, stop and start without a deployment: the service that such a task is about, and who stopped an environment.
import type { Migration } from '../../engine/migration.ts'

export const lifecycle: Migration = {
  name: '0023-lifecycle',
  statements: () => [
    'alter table tasks add column service text',
    // JSON; null: nothing was stopped since the last deployment
    'alter table environments add column stopped text',
  ],
}
