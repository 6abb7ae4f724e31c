// Metrics of environments: rings of slots that are overwritten, one per minute for an hour, per ten minutes for a day and per
// hour for a week, so rows do not grow with time. A server's mark says which requests are counted already.
import type { Migration } from '../../engine/migration.ts'

export const environmentMetrics: Migration = {
  name: '0048-environment-metrics',
  statements: () => [
    `create table environment_metrics (
      environment_id integer not null references environments(id),
      span text not null,
      slot integer not null,
      at bigint not null,
      samples integer not null,
      cpu_permille integer not null,
      memory_bytes bigint not null,
      requests bigint not null,
      status2xx bigint not null,
      status3xx bigint not null,
      status4xx bigint not null,
      status5xx bigint not null,
      latencies text not null,
      primary key (environment_id, span, slot)
    )`,
    'alter table server_usage add column requests_until bigint',
  ],
}
