// Sessions that are open on servers now, as their agents report them; and who paused a server.
import type { Migration } from '../../engine/migration.ts'

export const sshSessions: Migration = {
  name: '0046-ssh-sessions',
  statements: () => [
    `create table ssh_sessions (
      certificate_id integer not null references ssh_certificates(id) on delete cascade,
      session_id text not null, verb text not null, started_at bigint not null,
      primary key (certificate_id, session_id))`,
    'create index ssh_certificates_organization on ssh_certificates(organization_id, session_until)',
    'alter table servers add column paused_by integer references users(id)',
    'alter table servers add column paused_at bigint',
  ],
}
