// Credentials of image registries. Passwords are written, never read.
import { z } from 'zod'
import { REGISTRIES } from '../limits/limits.ts'
import { IdParams, Person, Time } from './fields.ts'

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
