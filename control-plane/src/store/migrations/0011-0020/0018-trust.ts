// What each server was asked to trust and refuse, and how far it confirmed that.
import type { Migration } from '../../engine/migration.ts'

export const trust: Migration = {
  name: '0018-trust',
  statements: () => [
    'alter table agents add column trust_generation bigint not null default 0',
    "alter table agents add column trust_digest text not null default ''",
    'alter table agents add column trust_applied bigint not null default 0',
    "alter table agents add column trust_error text not null default ''",
  ],
}
