// What builds may use of a server and how many tasks it runs together: JSON of shared/src/server-settings.ts. An attempt
// that waits for a build slot: its place, since when, and how long it has waited before.
import type { Migration } from '../../engine/migration.ts'

export const serverSettings: Migration = {
  name: '0028-server-settings',
  statements: () => [
    "alter table servers add column settings text not null default '{}'",
    'alter table attempts add column waiting_place integer',
    'alter table attempts add column waiting_since bigint',
    'alter table attempts add column waited_ms bigint not null default 0',
  ],
}
