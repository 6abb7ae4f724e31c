// One step of the schema, in SQL that both engines accept.
import type { Engine } from './db.ts'

/** Words that differ between the engines; everything else in a migration is portable SQL. */
export interface Types {
  /** For what only one of them has, such as partitions. */
  engine: Engine
  /** An integer key that the database assigns and never reuses. */
  id: string
}
export interface Migration {
  name: string
  statements(types: Types): string[]
}
