// Several control planes on one PostgreSQL. Each live one has a row with a lease, in milliseconds of the database's
// clock; a duty is work that one of them does for all; a wake-up is kept until every one of them has read it.
import type { Migration } from '../../engine/migration.ts'

export const several: Migration = {
  name: '0061-several',
  statements: ({ id }) => [
    'alter table replicas add column version text',
    'alter table replicas add column peer_address text',
    'alter table replicas add column lease_until bigint',
    'alter table replicas add column draining_at bigint',
    'alter table installation add column era bigint not null default 0',
    'create table duties (name text primary key, replica_id text not null, lease_until bigint not null)',
    `create table agent_wakes (
      id ${id}, agent_id text not null, is_trust integer not null, at bigint not null)`,
    'create index agent_wakes_age on agent_wakes(at)',
    'create index agents_replica on agents(replica_id) where session_id is not null',
  ],
}
