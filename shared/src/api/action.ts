// Actions of an environment: commands of its `.service.yml` that users start on demand.
import { z } from 'zod'
import { IdParams, Time } from './fields.ts'

export const Action = z.object({
  name: z.string(),
  title: z.string(),
  description: z.string().nullable(),
  /** docker: the service whose container runs it. */
  service: z.string().nullable(),
  /** The question to ask first; the action is then started with `confirm: true`. */
  confirm: z.string().nullable(),
  timeout_seconds: z.int(),
  artifact_paths: z.array(z.string()),
  enabled: z.boolean(),
  disabled_reason: z.string().nullable(),
  synced_at: Time,
})
export type Action = z.infer<typeof Action>

export const ActionParams = IdParams.extend({ name: z.string().max(64) })

export const ActionStart = z.strictObject({
  confirm: z.boolean().optional(),
  message: z.string().trim().max(500).nullable().optional(),
})
export type ActionStart = z.infer<typeof ActionStart>
