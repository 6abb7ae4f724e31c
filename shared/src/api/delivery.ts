// Webhook deliveries of forges, and the answer that the forge sees.
import { z } from 'zod'
import { DELIVERY_OUTCOMES, DELIVERY_RULES, PROVIDERS } from '../webhook.ts'
import { Id, Paging, Time } from './fields.ts'

const DeliveryResult = z.object({
  environment_id: Id.nullable(),
  identifier: z.string().nullable(),
  outcome: z.enum(DELIVERY_OUTCOMES),
  rule: z.enum(DELIVERY_RULES),
  reason: z.string(),
  task_id: Id.nullable(),
})

export const Delivery = z.object({
  id: Id,
  project_id: Id,
  /** Null for Berth's own reconcile round before the kind of forge is known. */
  provider: z.enum(PROVIDERS).nullable(),
  delivery_id: z.string(),
  event: z.string(),
  received_at: Time,
  actor: z.string().nullable(),
  branch: z.string().nullable(),
  pull_request_number: z.int().nullable(),
  sha: z.string().nullable(),
  /** Null for Berth's own reconcile round. */
  signed_with: z.enum(['current', 'previous', 'legacy']).nullable(),
  outcome: z.enum(DELIVERY_OUTCOMES),
  rule: z.enum(DELIVERY_RULES).nullable(),
  reason: z.string().nullable(),
  results: z.array(DeliveryResult),
  task_ids: z.array(Id),
  replay_of: Id.nullable(),
  tries: z.int(),
  response_status: z.int(),
  error: z.string().nullable(),
})
export type Delivery = z.infer<typeof Delivery>

export const DeliveryDetail = Delivery.extend({
  /** Without credentials and signatures. */
  headers: z.record(z.string(), z.string()),
  /** The common shape of all forges' deliveries; null if it was not understood. */
  normalised: z.record(z.string(), z.unknown()).nullable(),
  body_sha256: z.string(),
  body_bytes: z.int(),
  /** As received, for seven days and with project:write. */
  body: z.string().nullable(),
})
export type DeliveryDetail = z.infer<typeof DeliveryDetail>

export const DeliveryQuery = Paging.extend({
  outcome: z.enum(DELIVERY_OUTCOMES).optional(),
  rule: z.enum(DELIVERY_RULES).optional(),
  event: z.string().max(200).optional(),
  pull_request: z.coerce.number().int().min(1).max(2_147_483_647).optional(),
})

export const RefusedDelivery = z.object({
  at: Time,
  address: z.string(),
  provider: z.enum(PROVIDERS).nullable(),
  reason: z.string(),
})
export type RefusedDelivery = z.infer<typeof RefusedDelivery>

/** What the forge shows in its own list of deliveries. */
export const WebhookAnswer = z.object({
  delivery: Id,
  outcome: z.enum(DELIVERY_OUTCOMES),
  rule: z.enum(DELIVERY_RULES).nullable(),
  reason: z.string().nullable(),
  task_ids: z.array(Id),
})
export type WebhookAnswer = z.infer<typeof WebhookAnswer>
