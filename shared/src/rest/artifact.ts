// Files that an action left on its server, one link each.
import { z } from 'zod'
import { Id, Time } from './fields.ts'

export const Artifact = z.object({
  id: Id,
  /** Its name on the server; the SSH verb asks for it. */
  file_id: z.uuid(),
  task_id: Id,
  /** Below the action's folder. */
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
