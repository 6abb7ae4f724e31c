// Credentials of image registries. `project_id` 0: of the whole organization; a project's own win over those.
import type { Migration } from '../../engine/migration.ts'

export const registries: Migration = {
  name: '0025-registries',
  statements: () => [
    `create table registries (
      organization_id integer not null references organizations(id), project_id integer not null, host text not null,
      username text not null, sealed text not null, updated_at bigint not null,
      updated_by integer not null references users(id),
      primary key (organization_id, project_id, host))`,
  ],
}
