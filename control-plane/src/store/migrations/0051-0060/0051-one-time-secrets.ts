// Secrets that are shown once, kept for the person who made them until that person confirms having copied them.
import type { Migration } from '../../engine/migration.ts'

export const oneTimeSecrets: Migration = {
  name: '0051-one-time-secrets',
  statements: () => [
    `create table one_time_secrets (
      id text primary key, user_id integer not null references users(id) on delete cascade,
      organization_id integer references organizations(id) on delete cascade,
      subject text, sealed text not null, created_at bigint not null, expires_at bigint not null)`,
    'create index one_time_secrets_user on one_time_secrets(user_id, created_at)',
    'create index one_time_secrets_subject on one_time_secrets(subject)',
    'create index one_time_secrets_age on one_time_secrets(expires_at)',
  ],
}
