// Connections to forges, and what Berth made in the repository of a connected project. Removals outlive their project:
// a key and a webhook at a forge are taken away after it is gone.
import type { Migration } from '../../engine/migration.ts'

export const forges: Migration = {
  name: '0043-forges',
  statements: ({ id }) => [
    `create table forge_connections (
      id ${id}, organization_id integer not null references organizations(id), provider text not null,
      api_url text not null, account text not null, token_sealed text not null, created_at bigint not null,
      created_by integer not null references users(id), checked_at bigint, error text)`,
    'create index forge_connections_organization on forge_connections(organization_id)',
    'alter table projects add column forge_connection_id integer references forge_connections(id)',
    'create index projects_forge_connection on projects(forge_connection_id) where forge_connection_id is not null',
    `create table forge_setups (
      project_id integer primary key references projects(id), repository text not null,
      key_id text, webhook_id text, checks text not null, broken integer not null,
      install_due integer not null, checked_at bigint, next_check_at bigint not null)`,
    'create index forge_setups_due on forge_setups(next_check_at)',
    'create index forge_setups_broken on forge_setups(project_id) where broken = 1',
    `create table forge_removals (
      id ${id}, connection_id integer not null references forge_connections(id), repository text not null,
      key_id text, webhook_id text, tries integer not null, next_at bigint not null)`,
    'create index forge_removals_due on forge_removals(next_at)',
  ],
}
