// Second factors of users (codes of an app, passkeys, recovery codes), how far a browser's sign-in has come, and secrets
// that stay on a page of their user until the user has saved them.
import type { Migration } from '../../engine/migration.ts'

export const secondFactor: Migration = {
  name: '0050-second-factor',
  statements: ({ id }) => [
    // when the first factor was added; null without one
    'alter table users add column second_factor_at bigint',
    // since when members need one; tokens from before continue
    'alter table organizations add column second_factor_since bigint',

    "alter table browser_sessions add column method text not null default 'password'",
    // 1: the second factor is still missing, and the session opens nothing
    'alter table browser_sessions add column awaits_factor integer not null default 0',
    // when the user last proved who they are
    'alter table browser_sessions add column verified_at bigint not null default 0',
    'alter table browser_sessions add column last_used_at bigint',

    `create table totp_factors (
      user_id integer primary key references users(id), secret_sealed text not null,
      created_at bigint not null, confirmed_at bigint, last_step bigint not null default 0)`,
    `create table recovery_codes (
      id ${id}, user_id integer not null references users(id), hash text not null, used_at bigint,
      unique (user_id, hash))`,
    `create table passkeys (
      id ${id}, user_id integer not null references users(id), name text not null,
      credential_id text not null unique, public_key text not null, counter bigint not null,
      transports text not null, created_at bigint not null, last_used_at bigint)`,
    'create index passkeys_user on passkeys(user_id)',
    // one ceremony with a passkey; taken away by its use
    `create table passkey_challenges (
      hash text primary key, purpose text not null, user_id integer references users(id),
      expires_at bigint not null)`,
    'create index passkey_challenges_age on passkey_challenges(expires_at)',
  ],
}
