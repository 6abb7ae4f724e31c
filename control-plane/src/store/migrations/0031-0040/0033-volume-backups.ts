// Backups of the data of environments: what exists where, each environment's schedule and retention, and the storage of
// each organization.
import type { Migration } from '../../engine/migration.ts'

export const volumeBackups: Migration = {
  name: '0033-volume-backups',
  statements: ({ id }) => [
    `create table backups (id ${id}, uuid text not null unique,
      organization_id integer not null references organizations(id),
      project_id integer not null references projects(id),
      environment_id integer not null references environments(id), server_id integer not null, task_id integer not null,
      place text not null, location text not null, live integer not null, parts text, size_bytes bigint not null,
      content_bytes bigint not null, created_at bigint not null, completed_at bigint, removed_at bigint)`,
    'create index backups_environment on backups(environment_id, id)',
    'create index backups_task on backups(task_id)',
    `create table backup_settings (environment_id integer primary key references environments(id),
      keep_count integer not null, keep_days integer, place text not null, updated_at bigint not null,
      updated_by integer not null references users(id))`,
    `create table backup_storages (organization_id integer primary key references organizations(id),
      endpoint text not null, region text not null, bucket text not null, prefix text not null,
      access_key_id text not null, secret_sealed text not null, recipient text not null, identity_sealed text not null,
      updated_at bigint not null, updated_by integer not null references users(id))`,
    // the backup that a task makes or restores
    'alter table tasks add column backup_id integer',
  ],
}
