// The handle that store functions use for either database, inside or outside a transaction.
import type { Kysely, Transaction } from 'kysely'
import type { Schema } from '../schema.ts'

export type Db = Kysely<Schema> | Transaction<Schema>
export type Engine = 'sqlite' | 'postgres'
