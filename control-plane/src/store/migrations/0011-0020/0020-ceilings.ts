// The most that an environment may use, by project and by server: JSON of shared/src/ceilings.ts.
import type { Migration } from '../../engine/migration.ts'

export const ceilings: Migration = {
  name: '0020-ceilings',
  statements: () => [
    "alter table projects add column ceilings text not null default '{}'",
    "alter table servers add column ceilings text not null default '{}'",
  ],
}
