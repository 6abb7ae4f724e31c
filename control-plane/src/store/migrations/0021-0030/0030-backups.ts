// Scheduled backups: what became of each.
import type { Migration } from '../../engine/migration.ts'

export const backups: Migration = {
  name: '0030-backups',
  statements: ({ id }) => [
    `create table backup_runs (
      id ${id}, started_at bigint not null, finished_at bigint, place text not null,
      name text, bytes bigint, error text)`,
  ],
}
