// Custom variables of an environment and credentials of image registries: keys are readable, values never are.
import { z } from 'zod'
import { REGISTRIES } from '../limits/limits.ts'
import { IdParams, Person, Time } from './fields.ts'

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

/** Credentials of an image registry. The password is written, never read. */
export const Registry = z.object({
  /** `ghcr.io`, `registry.example.com:5000`; Docker Hub is `docker.io`. */
  host: z.string(),
  username: z.string(),
  /** `organization`: for every project; a project's own win. */
  from: z.enum(['project', 'organization']),
  updated_at: Time,
  updated_by: Person,
})
export type Registry = z.infer<typeof Registry>

export const RegistryPut = z.strictObject({
  username: z
    .string()
    .min(1)
    .max(REGISTRIES.usernameCharacters)
    .regex(/^[^\p{Cc}:]+$/u, 'must hold no colon and no control characters'),
  password: z
    .string()
    .min(1)
    .max(REGISTRIES.passwordCharacters)
    .regex(/^[^\0]+$/, 'must hold no NUL character'),
})
export type RegistryPut = z.infer<typeof RegistryPut>

export const RegistryParams = IdParams.extend({ host: z.string().min(1).max(300) })
