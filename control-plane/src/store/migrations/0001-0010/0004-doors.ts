// The audit log becomes a chain (existing rows stay outside), and requests can be repeated by key.
import type { Migration } from '../../engine/migration.ts'

const audit = (column: string): string => `alter table audit add column ${column}`

export const doors: Migration = {
  name: '0004-doors',
  statements: ({ id }) => [
    ...[
      'actor_name text',
      'token_id integer',
      'address text',
      'request_id text',
      'subject_name text',
      'seq bigint',
      'previous_hash text',
      'hash text',
    ].map(audit),
    'create unique index audit_seq on audit(seq)',
    'create index audit_organization on audit(organization_id, id)',
    `create table audit_head (
      id integer primary key, seq bigint not null, hash text not null,
      first_seq bigint not null, first_previous text not null, legacy_id bigint not null,
      mac text not null)`,
    `insert into audit_head(id, seq, hash, first_seq, first_previous, legacy_id, mac)
      select 1, 0, '', 1, '', coalesce(max(id), 0), '' from audit`,
    `create table idempotency_keys (
      id ${id}, user_id integer not null references users(id), method text not null,
      path text not null, key text not null, fingerprint text not null, started_at bigint not null,
      status integer, content_type text, location text, body text, made_id bigint,
      unique (user_id, method, path, key))`,
    'create index idempotency_keys_age on idempotency_keys(started_at)',
  ],
}
