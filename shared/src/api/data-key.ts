// Keys that seal stored secrets, as platform administrators see them: when, for whom, never the key.
import { z } from 'zod'
import { Id, Time } from './fields.ts'

export const DataKey = z.object({
  id: Id,
  /** Null: the installation's own. */
  organization_id: Id.nullable(),
  created_at: Time,
  /** Set: it seals nothing new, and goes when what it sealed was sealed again. */
  retired_at: Time.nullable(),
})
export type DataKey = z.infer<typeof DataKey>

export const DataKeyRotation = z.strictObject({
  /** Null: the installation's own. */
  organization_id: Id.nullable(),
})
