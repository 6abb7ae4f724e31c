// One step of the schema: SQL that both engines take.

/** Words that differ between the engines; everything else in a migration is portable SQL. */
export interface Types {
  /** An integer key the database gives out; never given twice. */
  id: string
}
export interface Migration {
  name: string
  statements(types: Types): string[]
}
