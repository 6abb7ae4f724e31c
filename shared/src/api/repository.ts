// The repository of a project and its forge, as the control plane sees them.
import { z } from 'zod'
import { FORGE_API } from '../limits/forges.ts'
import { RECIPES } from '../task.ts'
import { Time } from './fields.ts'

const RepositoryError = z.object({ code: z.string(), message: z.string() })

/** Learned from deliveries and reconcile rounds. */
export const RepositoryFacts = z.object({
  provider: z.string().nullable(),
  external_id: z.string().nullable(),
  renamed_to: z.string().nullable(),
  /** Null if it was never checked. */
  reachable: z.boolean().nullable(),
  checked_at: Time.nullable(),
  error: RepositoryError.nullable(),
})
export type RepositoryFacts = z.infer<typeof RepositoryFacts>

export const HostTokenFacts = z.object({
  set: z.boolean(),
  checked_at: Time.nullable(),
  /** The forge's answer when the token last failed. */
  error: z.string().nullable(),
})
export type HostTokenFacts = z.infer<typeof HostTokenFacts>

export const HostToken = HostTokenFacts.extend({
  /** The kind of forge that accepted it. */
  host: z.string().nullable(),
})
export type HostToken = z.infer<typeof HostToken>

export const HostTokenPut = z.strictObject({
  token: z
    .string()
    .min(1)
    .max(FORGE_API.tokenLength)
    .regex(/^[\x21-\x7e]+$/, 'must be printable characters without spaces'),
})
export type HostTokenPut = z.infer<typeof HostTokenPut>

export const RepositoryCheck = z.object({
  reachable: z.boolean(),
  default_branch: z.string().nullable(),
  branch_count: z.int().nullable(),
  service_file: z
    .object({
      found: z.boolean(),
      /** The recipes whose section it has; empty if it cannot be read. */
      recipes: z.array(z.enum(RECIPES)).default([]),
      errors: z.array(z.object({ line: z.int(), code: z.string(), message: z.string() })),
    })
    .nullable(),
  error: RepositoryError.nullable(),
})
export type RepositoryCheck = z.infer<typeof RepositoryCheck>

export const ReconcileStarted = z.object({ started_at: Time })
export type ReconcileStarted = z.infer<typeof ReconcileStarted>
