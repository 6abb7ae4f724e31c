// Columns for moving, removing and securing environments: which task destroys a left-behind copy, when the edge of an
// environment changed, keys of an organization, removed servers.
import type { Migration } from '../../engine/migration.ts'

export const environments: Migration = {
  name: '0009-environments',
  statements: ({ id }) => [
    // destroys the copy on a former server without locking the environment, however long that server stays offline
    'alter table tasks add column former_copy integer not null default 0',
    // a queued task that was canceled will not run, so the removal may queue behind it
    'drop index tasks_one_queued',
    'drop index tasks_one_running',
    `create unique index tasks_one_queued on tasks(environment_id)
      where status = 'queued' and type in ('deploy', 'destroy') and former_copy = 0
      and cancel_requested_at is null`,
    `create unique index tasks_one_running on tasks(environment_id)
      where status = 'running' and type in ('deploy', 'destroy') and former_copy = 0`,
    'alter table environments add column edge_revision integer not null default 0',
    'create index environments_former on environments(former_server_id)',
    // null: from before fingerprints; such a value counts as changed
    'alter table variables add column fingerprint text',
    'alter table variables add column bytes integer not null default 0',
    'alter table servers add column ssh_port integer not null default 22',
    'alter table servers add column shell_enabled integer not null default 0',
    'alter table servers add column removed_at bigint',
    `create table organization_keys (
      id ${id}, organization_id integer references organizations(id),
      purpose text not null, wrapped text not null, created_at bigint not null, retired_at bigint)`,
    `create unique index organization_keys_current on organization_keys(coalesce(organization_id, 0), purpose)
      where retired_at is null`,
  ],
}
