// What reconcile rounds and commit statuses need besides the columns of 0002.
import type { Migration } from '../../engine/migration.ts'

export const repo: Migration = {
  name: '0008-repo',
  statements: () => [
    // when a user last asked for a round; limited to one a minute
    'alter table projects add column reconcile_asked_at bigint',
    'create index host_reports_age on host_reports(created_at)',
  ],
}
