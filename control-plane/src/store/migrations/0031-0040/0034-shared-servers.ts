// Organizations that may place environments on a server of another one. An agent that left: Berth was uninstalled there.
import type { Migration } from '../../engine/migration.ts'

export const sharedServers: Migration = {
  name: '0034-shared-servers',
  statements: () => [
    `create table server_shares (
      server_id integer not null references servers(id),
      organization_id integer not null references organizations(id),
      created_at bigint not null, primary key (server_id, organization_id))`,
    'create index server_shares_organization on server_shares(organization_id)',
    'alter table agents add column left_at bigint',
  ],
}
