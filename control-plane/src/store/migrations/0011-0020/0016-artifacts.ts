// Which files actions left on their servers, and until when. The bytes stay there.
import type { Migration } from '../../engine/migration.ts'

export const artifacts: Migration = {
  name: '0016-artifacts',
  statements: ({ id }) => [
    `create table artifacts (id ${id}, file_id text not null unique, task_id integer not null,
      server_id integer not null, path text not null, size_bytes bigint not null, sha256 text not null,
      collected_at bigint not null, expires_at bigint not null)`,
    'create index artifacts_task on artifacts(task_id, id)',
    'create index artifacts_expiry on artifacts(expires_at)',
  ],
}
