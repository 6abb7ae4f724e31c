// Files that an action left on its server, one link each.
import { z } from 'zod'
import { ARTIFACT_BATCH } from '../limits/limits.ts'
import { Id, Time } from './fields.ts'

export const Artifact = z.object({
  id: Id,
  /** Its name on the server; the SSH command asks for it. */
  file_id: z.uuid(),
  task_id: Id,
  /** Relative to the action's folder. */
  path: z.string(),
  name: z.string(),
  size_bytes: z.int().min(0),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  collected_at: Time,
  /** From then on the link answers `artifact_expired`. */
  expires_at: Time,
  url: z.url(),
})
export type Artifact = z.infer<typeof Artifact>

/** `ids=3301,3302`: files of one task, in the wanted order. */
export const ArtifactBatchQuery = z.object({
  ids: z
    .string()
    .max(ARTIFACT_BATCH.queryChars)
    .regex(/^[1-9]\d*(?:,[1-9]\d*)*$/)
    .transform((text) => text.split(',').map(Number))
    .refine((ids) => ids.every(Number.isSafeInteger) && new Set(ids).size === ids.length),
})
