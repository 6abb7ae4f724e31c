// Passwords, browser logins, invitations, and logins of clients with their rotating refresh tokens. Every credential is
// stored only as a hash. A deleted organization keeps its row, because tasks and audit reference it, and releases its
// slug.
import type { Migration } from '../../engine/migration.ts'

export const people: Migration = {
  name: '0003-people',
  statements: ({ id }) => [
    'alter table installation add column cookie_secret_sealed text',
    'alter table organizations add column removed_at bigint',
    'alter table users add column last_active_at bigint',
    'update users set email = lower(email)', // one spelling, because users are found by it
    'alter table tokens add column last_used_address text',
    'alter table tokens add column login_id integer',
    'create index tokens_user on tokens(user_id)',
    'create index tokens_login on tokens(login_id)',

    `create table accounts (
      id ${id}, user_id integer not null references users(id), provider text not null,
      subject text not null, password_hash text, created_at bigint not null, updated_at bigint not null,
      unique (provider, subject))`,
    'create index accounts_user on accounts(user_id)',
    `create table browser_sessions (
      id ${id}, user_id integer not null references users(id), token_hash text not null unique,
      address text, user_agent text, expires_at bigint not null,
      created_at bigint not null, updated_at bigint not null)`,
    'create index browser_sessions_user on browser_sessions(user_id)',
    'create index browser_sessions_age on browser_sessions(expires_at)',
    `create table verifications (
      id ${id}, identifier text not null, value text not null, expires_at bigint not null,
      created_at bigint not null, updated_at bigint not null)`,
    'create index verifications_identifier on verifications(identifier)',
    'create index verifications_age on verifications(expires_at)',
    // wrong passwords by hashed address, wrong device codes by user
    `create table wrong_tries (
      key text primary key, count integer not null, since bigint not null)`,
    'create index wrong_tries_age on wrong_tries(since)',

    `create table invitations (
      id ${id}, organization_id integer not null references organizations(id), email text not null,
      role text not null, token_hash text not null unique,
      invited_by integer not null references users(id), created_at bigint not null,
      expires_at bigint not null, accepted_at bigint, accepted_by integer references users(id))`,
    `create unique index invitations_open on invitations(organization_id, email)
      where accepted_at is null`,

    // one login of a client; its access and refresh tokens end with it
    `create table logins (
      id ${id}, user_id integer not null references users(id), client_id text not null,
      name text not null, scopes text not null, created_at bigint not null, revoked_at bigint)`,
    'create index logins_user on logins(user_id)',
    `create table refresh_tokens (
      id ${id}, login_id integer not null references logins(id), hash text not null unique,
      created_at bigint not null, expires_at bigint not null, spent_at bigint, repeated_at bigint)`,
    'create index refresh_tokens_login on refresh_tokens(login_id)',
    'create index refresh_tokens_age on refresh_tokens(expires_at)',
    `create table device_logins (
      id ${id}, device_code_hash text not null unique, user_code text not null unique,
      client_id text not null, device_name text not null, scopes text not null, address text not null,
      status text not null, user_id integer references users(id),
      interval_ms integer not null, polled_at bigint,
      created_at bigint not null, expires_at bigint not null)`,
    'create index device_logins_age on device_logins(expires_at)',
  ],
}
