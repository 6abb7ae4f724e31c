// Users who asked to be told when an environment is degraded.
import type { Migration } from '../../engine/migration.ts'

export const watchers: Migration = {
  name: '0031-watchers',
  statements: () => [
    `create table environment_watchers (environment_id integer not null references environments(id),
      user_id integer not null references users(id), created_at bigint not null,
      primary key (environment_id, user_id))`,
  ],
}
