// What one environment may use, as administrators set it for a project or a server.
import { z } from 'zod'
import { CEILINGS } from '../ceilings.ts'

const { lowest, highest } = CEILINGS

/** Limits of one environment; null: derived from the size of the server. */
export const Limits = z.object({
  memory_bytes: z.int().nullable(),
  /** Processors. */
  cpus: z.number().nullable(),
  /** Processes and threads. */
  pids: z.int().nullable(),
  disk_bytes: z.int().nullable(),
})
export type Limits = z.infer<typeof Limits>

/** Absent fields stay unchanged. */
export const LimitsPatch = z.strictObject({
  memory_bytes: z.int().min(lowest.memory_bytes).max(highest.memory_bytes).nullable().optional(),
  cpus: z.number().min(lowest.cpus).max(highest.cpus).nullable().optional(),
  pids: z.int().min(lowest.pids).max(highest.pids).nullable().optional(),
  disk_bytes: z.int().min(lowest.disk_bytes).max(highest.disk_bytes).nullable().optional(),
})
export type LimitsPatch = z.infer<typeof LimitsPatch>
