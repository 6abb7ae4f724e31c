// Which environment serves which hostname, what agents observe of it, and which environments are pinned to a commit.
import type { Migration } from '../../engine/migration.ts'

export const hosts: Migration = {
  name: '0012-hosts',
  statements: () => [
    // names besides the environment's own domain, which environments_domain keeps; one owner per name
    `create table hosts (
      host text primary key, environment_id integer not null references environments(id),
      fence bigint not null, claimed_at bigint not null)`,
    'create index hosts_environment on hosts(environment_id)',
    // null: only what was deployed is known
    'alter table environments add column observed text',
    // null: it follows its branch
    'alter table environments add column pinned_from text',
  ],
}
