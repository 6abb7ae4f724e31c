// SSH authorities (keys encrypted), issued certificates (no key material), the host certificate of each server. The
// partial unique indexes enforce rotation: of each kind one key signs, at most one is being introduced and one retired.
// A serial is text, because 63 bits do not fit a JavaScript number.
import type { Migration } from '../../engine/migration.ts'

export const ssh: Migration = {
  name: '0005-ssh',
  statements: ({ id }) => [
    `create table ssh_authorities (
      id ${id}, kind text not null, phase text not null,
      public_key text not null, fingerprint text not null unique, key_sealed text,
      created_at bigint not null, signing_at bigint, retiring_at bigint, retired_at bigint)`,
    ...['announced', 'signing', 'retiring'].map(
      (phase) =>
        `create unique index ssh_authorities_${phase} on ssh_authorities(kind)
        where phase = '${phase}'`,
    ),
    `create table ssh_authority_confirmations (
      authority_id integer not null references ssh_authorities(id),
      agent_id text not null references agents(id), confirmed_at bigint not null,
      primary key (authority_id, agent_id))`,

    `create table ssh_certificates (
      id ${id}, serial text not null unique,
      organization_id integer not null references organizations(id),
      server_id integer not null references servers(id),
      environment_id integer references environments(id),
      user_id integer not null references users(id),
      authority_id integer not null references ssh_authorities(id),
      purpose text not null, permission text not null, can text not null, account text not null,
      principal text not null, key_id text not null, key_type text not null,
      fingerprint text not null, address text not null,
      issued_at bigint not null, valid_after bigint not null, valid_before bigint not null,
      session_until bigint not null, signed_at bigint,
      revoked_at bigint, revoked_by integer references users(id), revoke_reason text)`,
    'create index ssh_certificates_server on ssh_certificates(server_id, id)',
    'create index ssh_certificates_user on ssh_certificates(user_id, session_until)',
    'create index ssh_certificates_environment on ssh_certificates(environment_id, session_until)',
    `create index ssh_certificates_revoked on ssh_certificates(server_id, session_until)
      where revoked_at is not null`,

    `create table ssh_host_certificates (
      server_id integer primary key references servers(id),
      authority_id integer not null references ssh_authorities(id),
      serial text not null, fingerprint text not null,
      issued_at bigint not null, valid_before bigint not null)`,
  ],
}
