// What servers use of their machines. The newest report of each server is one row; its past is a ring of slots that are
// overwritten, one per minute for a day and one per hour for 30 days. Neither grows with time.
import type { Migration } from '../../engine/migration.ts'

export const usage: Migration = {
  name: '0017-usage',
  statements: () => [
    `create table server_usage (
      server_id integer primary key references servers(id),
      at bigint not null,
      cpu_permille integer not null,
      memory_used_bytes bigint not null,
      memory_bytes bigint not null,
      disk_used_bytes bigint not null,
      disk_bytes bigint not null,
      load_hundredths integer not null,
      docker_ok integer not null,
      proxy_ok integer not null,
      environments text not null
    )`,
    `create table usage_points (
      server_id integer not null references servers(id),
      span text not null,
      slot integer not null,
      at bigint not null,
      samples integer not null,
      cpu_permille integer not null,
      memory_used_bytes bigint not null,
      disk_used_bytes bigint not null,
      primary key (server_id, span, slot)
    )`,
  ],
}
