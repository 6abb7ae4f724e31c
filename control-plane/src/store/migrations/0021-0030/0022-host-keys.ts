// The SSH host key of a forge that an owner trusts, as one line of known_hosts. Null: trust on first use.
import type { Migration } from '../../engine/migration.ts'

export const hostKeys: Migration = {
  name: '0022-host-keys',
  statements: () => [
    'alter table projects add column trusted_host_key text',
    'alter table projects add column trusted_host_key_at bigint',
  ],
}
