// Channels to which notifications go, the rules that choose them, and the ledger of what was sent. Addresses of
// incoming webhooks and signing secrets are written, never read.
import { z } from 'zod'
import { NOTIFICATIONS } from '../../limits/notices.ts'
import {
  CHANNEL_KINDS,
  HAPPENING_NAMES,
  NOTICE_ENVIRONMENTS,
  NOTIFICATION_STATUSES,
} from '../../notices.ts'
import { Id, IdParams, Paging, Person, Time } from '../fields.ts'

const ruleShape = {
  project_id: Id.nullable(),
  environment_type: z.enum(NOTICE_ENVIRONMENTS).nullable(),
  happenings: z.array(z.enum(HAPPENING_NAMES)).min(1).max(HAPPENING_NAMES.length),
}

export const ChannelRule = z.object(ruleShape)
export type ChannelRule = z.infer<typeof ChannelRule>

const RuleInput = z.strictObject({
  project_id: ruleShape.project_id.optional(),
  environment_type: ruleShape.environment_type.optional(),
  happenings: ruleShape.happenings,
})

export const Channel = z.object({
  id: Id,
  organization_id: Id,
  name: z.string(),
  kind: z.enum(CHANNEL_KINDS),
  target: z.string().nullable(),
  recipients: z.array(z.string()),
  rules: z.array(ChannelRule),
  previous_secret_until: Time.nullable(),
  failing_since: Time.nullable(),
  broken_at: Time.nullable(),
  error: z.string().nullable(),
  waiting: z.int(),
  last_delivered_at: Time.nullable(),
  created_at: Time,
  updated_at: Time,
  updated_by: Person,
})
export type Channel = z.infer<typeof Channel>

/** The secret is in the answer that makes it and in no other. */
export const ChannelMade = Channel.extend({
  secret: z.string().nullable(),
})
export type ChannelMade = z.infer<typeof ChannelMade>

const name = z.string().trim().min(1).max(NOTIFICATIONS.nameCharacters)
const url = z.string().min(1).max(NOTIFICATIONS.urlCharacters)
const recipients = z
  .array(z.string().min(3).max(NOTIFICATIONS.addressCharacters))
  .min(1)
  .max(NOTIFICATIONS.recipients)
const rules = z.array(RuleInput).min(1).max(NOTIFICATIONS.rules)

export const ChannelCreate = z.strictObject({
  name,
  kind: z.enum(CHANNEL_KINDS),
  url: url.optional(),
  recipients: recipients.optional(),
  rules: rules.optional(),
})
export type ChannelCreate = z.infer<typeof ChannelCreate>

/** Absent fields stay as they are. A new target makes a broken channel work again. */
export const ChannelPatch = z.strictObject({
  name: name.optional(),
  url: url.optional(),
  recipients: recipients.optional(),
  rules: rules.optional(),
})
export type ChannelPatch = z.infer<typeof ChannelPatch>

export const ChannelQuery = z.object({
  project_id: IdParams.shape.id.optional(),
})

export const Notification = z.object({
  id: Id,
  channel_id: Id,
  happening: z.enum([...HAPPENING_NAMES, 'test']),
  message_id: z.string(),
  recipient: z.string().nullable(),
  title: z.string(),
  project_id: Id.nullable(),
  environment_id: Id.nullable(),
  task_id: Id.nullable(),
  status: z.enum(NOTIFICATION_STATUSES),
  tries: z.int(),
  next_at: Time.nullable(),
  answer_status: z.int().nullable(),
  answer: z.string().nullable(),
  error: z.string().nullable(),
  replay_of: Id.nullable(),
  created_at: Time,
  finished_at: Time.nullable(),
})
export type Notification = z.infer<typeof Notification>

export const NotificationQuery = Paging.extend({
  status: z.enum(NOTIFICATION_STATUSES).optional(),
})
export type NotificationQuery = z.infer<typeof NotificationQuery>
