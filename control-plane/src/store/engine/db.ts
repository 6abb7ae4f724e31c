// The handle through which store functions speak to either database, inside a transaction or not.
import type { Kysely, Transaction } from 'kysely'
import type { Schema } from '../schema.ts'

export type Db = Kysely<Schema> | Transaction<Schema>
export type Engine = 'sqlite' | 'postgres'
