// What administrators see of the installation: the audit log (who changed what, when, from where; `changes` holds names
// and keys, never a value) and the keys that encrypt stored secrets (dates and owner, never the key).
import { z } from 'zod'
import { Id, Paging, Time } from './fields.ts'

const ACTOR_TYPES = ['user', 'agent', 'webhook', 'system'] as const

/** A number for subjects with numeric ids, text for agents. */
const AnyId = z.union([z.int(), z.string()]).nullable()

export const AuditEntry = z.object({
  id: Id,
  at: Time,
  organization_id: Id.nullable(),
  actor: z.object({ type: z.enum(ACTOR_TYPES), id: AnyId, name: z.string().nullable() }),
  token_id: Id.nullable(),
  address: z.string().nullable(),
  verb: z.string(),
  subject: z.object({ type: z.string(), id: AnyId, name: z.string().nullable() }),
  changes: z.record(z.string(), z.unknown()),
  request_id: z.string().nullable(),
})
export type AuditEntry = z.infer<typeof AuditEntry>

export const AuditQuery = Paging.extend({
  /** `user:7`, `agent`, `system`. */
  actor: z
    .string()
    .regex(/^(user|agent|webhook|system)(:[\w-]{1,64})?$/, 'must be such as user:7 or agent')
    .optional(),
  /** `project.create`, or `project.` for all of them. */
  verb: z
    .string()
    .regex(/^[a-z_]{1,40}(\.[a-z_]{0,40})?$/, 'must be such as project.create or project.')
    .optional(),
  /** `environment:101`, or `environment`. */
  subject: z
    .string()
    .regex(/^[a-z_]{1,40}(:[\w-]{1,64})?$/, 'must be such as environment:101 or environment')
    .optional(),
  since: z.iso.datetime({ offset: true }).optional(),
  until: z.iso.datetime({ offset: true }).optional(),
})
export type AuditQuery = z.infer<typeof AuditQuery>

export const DataKey = z.object({
  id: Id,
  /** Null for the installation's own. */
  organization_id: Id.nullable(),
  created_at: Time,
  /** If set, it encrypts nothing new, and is deleted when its values were encrypted again. */
  retired_at: Time.nullable(),
})
export type DataKey = z.infer<typeof DataKey>

export const DataKeyRotation = z.strictObject({
  /** Null for the installation's own. */
  organization_id: Id.nullable(),
})
