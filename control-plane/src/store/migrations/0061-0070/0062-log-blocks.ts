// Logs of tasks in PostgreSQL: blocks in partitions by day (store/deployments/log-partitions.ts). Beside SQLite they stay
// files. `log_session_id` is the agent's session that feeds a log: an earlier one can no longer write.
import type { Migration } from '../../engine/migration.ts'

// an older row store may be set aside while the logs stay (upgrades), so the table may exist
const BLOCKS = `create table if not exists log_blocks (
  attempt_id uuid not null,
  seq integer not null,
  records integer not null,
  start bigint not null,
  bytes integer not null,
  line bigint not null,
  entries bytea not null,
  data bytea not null,
  primary key (attempt_id, seq)) partition by range (attempt_id)`

// the content is packed before it is sent (store/deployments/log-packing.ts)
const STORAGE =
  'alter table log_blocks alter column entries set storage external, alter column data set storage external'

export const logBlocks: Migration = {
  name: '0062-log-blocks',
  statements: ({ engine }) => [
    'alter table attempts add column log_session_id text',
    ...(engine === 'postgres' ? [BLOCKS, STORAGE] : []),
  ],
}
