// Custom variables of an environment: keys are readable, values never are.
import { z } from 'zod'
import { Person, Time } from './fields.ts'

export const Variable = z.object({
  key: z.string(),
  updated_at: Time,
  updated_by: Person,
  changed_since_deployment: z.boolean(),
})
export type Variable = z.infer<typeof Variable>

/** Explicit, so that a stray null deletes nothing. The domain code validates each key and value by name. */
export const VariablesPatch = z.strictObject({
  set: z.record(z.string(), z.unknown()).optional(),
  unset: z.array(z.string()).optional(),
})
export type VariablesPatch = z.infer<typeof VariablesPatch>

export const VariablesPatched = z.object({
  set: z.array(z.string()),
  unset: z.array(z.string()),
  /** Set to its current value; does not raise the revision. */
  unchanged: z.array(z.string()),
  /** Unset, but did not exist; not an error. */
  missing: z.array(z.string()),
  keys: z.array(z.string()),
  variables_changed: z.boolean(),
  hint: z.string().nullable(),
})
export type VariablesPatched = z.infer<typeof VariablesPatched>

export const VARIABLES_HINT = 'Variables changed since the last deployment'
