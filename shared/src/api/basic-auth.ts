// HTTP Basic Auth in front of an environment: its own, the project's, or none. The password is write-only.
import { z } from 'zod'

const Username = z
  .string()
  .min(1)
  .max(64)
  .regex(/^[^\s:\p{Cc}]+$/u, 'must have no blank, colon or control character')
/** bcrypt reads 72 bytes; a longer password is refused instead of truncated. */
const Password = z
  .string()
  .min(8)
  .max(72)
  .refine((text) => new TextEncoder().encode(text).length <= 72, 'has at most 72 bytes')
  .refine((text) => !text.includes('\0'), 'must not hold a NUL character')

const Own = z.strictObject({ mode: z.literal('own'), username: Username, password: Password })
const Off = z.strictObject({ mode: z.literal('off') })
const Inherit = z.strictObject({ mode: z.literal('inherit') })

export const EnvironmentBasicAuth = z.discriminatedUnion('mode', [Own, Inherit, Off])
export type EnvironmentBasicAuth = z.infer<typeof EnvironmentBasicAuth>
export const ProjectBasicAuth = z.discriminatedUnion('mode', [Own, Off])
export type ProjectBasicAuth = z.infer<typeof ProjectBasicAuth>

export const BasicAuth = z.object({
  mode: z.enum(['own', 'inherit', 'off']),
  /** The effective value, after inheritance. */
  enabled: z.boolean(),
  username: z.string().nullable(),
})
export type BasicAuth = z.infer<typeof BasicAuth>
