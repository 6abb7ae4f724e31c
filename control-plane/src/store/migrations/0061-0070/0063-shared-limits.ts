// What several control planes must count or remember together: rate limits, codes that work once, the effects of
// requests with an Idempotency-Key, agents that push each other out, and looks at domains.
import type { Migration } from '../../engine/migration.ts'

export const sharedLimits: Migration = {
  name: '0063-shared-limits',
  statements: ({ engine }) => [
    // a window is worth a minute, so its row needs no log: after a crash or a failover the counts start again
    `create ${engine === 'postgres' ? 'unlogged ' : ''}table rate_limits (
      name text not null, key text not null, since bigint not null, count integer not null,
      primary key (name, key))`,
    'create index rate_limits_age on rate_limits(since)',
    `create table one_use_codes (
      hash text primary key, kind text not null, holder text not null, body text not null,
      expires_at bigint not null)`,
    'create index one_use_codes_holder on one_use_codes(kind, holder, expires_at)',
    'create index one_use_codes_age on one_use_codes(kind, expires_at)',
    'alter table idempotency_keys add column replica_id text',
    'alter table idempotency_keys add column effect_at bigint',
    'alter table agents add column takeovers text',
    `create table domain_checks (
      host text not null, server_id integer not null, result text not null,
      checked_at bigint not null, primary key (host, server_id))`,
    'create index domain_checks_age on domain_checks(checked_at)',
  ],
}
