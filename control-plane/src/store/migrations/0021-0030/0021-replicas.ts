// The control plane that holds the database. A second one reads here which process it would disturb.
import type { Migration } from '../../engine/migration.ts'

export const replicas: Migration = {
  name: '0021-replicas',
  statements: () => [
    `create table replicas (
      id text primary key, host text not null, pid integer not null, address text not null,
      started_at bigint not null)`,
  ],
}
