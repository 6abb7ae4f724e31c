// One step of the schema, in SQL that both engines accept.
import type { Engine } from './db.ts'

/** Words that differ between the engines; everything else in a migration is portable SQL. */
export interface Types {
  /** For what only one of them has, such as partitions. */
  engine: Engine
  /** An integer key that the database assigns and never reuses. */
  id: string
}

/**
 * `expand`: only adds, so control planes of the version before go on with the tables meanwhile and afterwards.
 * `alone`: takes away or changes what that version uses, so no other control plane may use the database.
 */
export type MigrationKind = 'expand' | 'alone'

export interface Migration {
  name: string
  /** Without it: `expand`. */
  kind?: MigrationKind
  statements(types: Types): string[]
}
