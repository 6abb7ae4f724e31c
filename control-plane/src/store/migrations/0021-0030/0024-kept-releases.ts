// A rollback uses the release that the server kept of its commit, where it can.
import type { Migration } from '../../engine/migration.ts'

export const keptReleases: Migration = {
  name: '0024-kept-releases',
  statements: () => ['alter table tasks add column reuse_release integer not null default 0'],
}
