// Which migrations only added to the tables: a control plane of the version before starts although it does not know them.
import type { Migration } from '../../engine/migration.ts'

export const migrationKinds: Migration = {
  name: '0065-migration-kinds',
  statements: () => ['alter table migrations add column kind text'],
}
