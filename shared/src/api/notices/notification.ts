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

const about = <T extends z.ZodType>(schema: T, description: string, example: unknown): T =>
  schema.meta({ description, examples: [example] }) as T

const ruleShape = {
  project_id: about(
    Id.nullable(),
    'Only happenings of this project; null: of every project and of servers.',
    3,
  ),
  environment_type: about(
    z.enum(NOTICE_ENVIRONMENTS).nullable(),
    'Only environments of this type; null: of any type.',
    'protected',
  ),
  happenings: about(
    z.array(z.enum(HAPPENING_NAMES)).min(1).max(HAPPENING_NAMES.length),
    'What is sent.',
    ['deployment.failed', 'deployment.recovered'],
  ),
}

export const ChannelRule = z.object(ruleShape)
export type ChannelRule = z.infer<typeof ChannelRule>

const RuleInput = z.strictObject({
  project_id: about(ruleShape.project_id.optional(), 'Default: null, every project.', 3),
  environment_type: about(
    ruleShape.environment_type.optional(),
    'Default: null, any type.',
    'protected',
  ),
  happenings: ruleShape.happenings,
})

export const Channel = z.object({
  id: about(Id, 'Its number.', 4),
  organization_id: about(Id, 'The organization that it belongs to.', 1),
  name: about(z.string(), 'What users call it.', 'Team chat'),
  kind: about(z.enum(CHANNEL_KINDS), 'What receives the notifications.', 'slack'),
  target: about(
    z.string().nullable(),
    'The host of the receiver; its full address is a secret and never shown. Null for e-mail.',
    'hooks.slack.com',
  ),
  recipients: about(z.array(z.string()), 'Addresses of an e-mail channel, else empty.', [
    'ops@example.com',
  ]),
  rules: about(
    z.array(ChannelRule),
    'One matching rule is enough; several send one notification.',
    [{ project_id: null, environment_type: null, happenings: ['deployment.failed'] }],
  ),
  previous_secret_until: about(
    Time.nullable(),
    'Until then a webhook is signed with the former secret too; null: only with the current one.',
    '2026-11-18T09:12:33Z',
  ),
  failing_since: about(
    Time.nullable(),
    'The first failure after the last success; null: it works.',
    '2026-11-17T09:12:33Z',
  ),
  broken_at: about(
    Time.nullable(),
    'When Berth stopped sending to it, because it failed for long. A successful test starts it again.',
    '2026-11-18T09:12:33Z',
  ),
  error: about(
    z.string().nullable(),
    'Why the last try failed; null: it did not.',
    'hooks.slack.com answered 404 (no_service).',
  ),
  waiting: about(z.int(), 'Notifications that are not delivered yet.', 0),
  last_delivered_at: about(Time.nullable(), 'The last success.', '2026-11-17T09:12:33Z'),
  created_at: about(Time, 'When it was made.', '2026-11-17T09:12:33Z'),
  updated_at: about(Time, 'When a user last changed it.', '2026-11-17T09:12:33Z'),
  updated_by: about(Person, 'Who last changed it.', { id: 1, name: 'Ada' }),
})
export type Channel = z.infer<typeof Channel>

/** The secret is in the answer that makes it and in no other. */
export const ChannelMade = Channel.extend({
  secret: about(
    z.string().nullable(),
    'The signing secret of a webhook. Copy it now: it is not shown again. Null for other kinds.',
    'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD',
  ),
})
export type ChannelMade = z.infer<typeof ChannelMade>

const name = about(
  z.string().trim().min(1).max(NOTIFICATIONS.nameCharacters),
  'What users call it; unique in the organization.',
  'Team chat',
)
const url = about(
  z.string().min(1).max(NOTIFICATIONS.urlCharacters),
  'The address of the incoming webhook, or of your receiver. Needed unless the kind is email.',
  'https://hooks.example.com/services/…',
)
const recipients = about(
  z
    .array(z.string().min(3).max(NOTIFICATIONS.addressCharacters))
    .min(1)
    .max(NOTIFICATIONS.recipients),
  'The addresses of an e-mail channel.',
  ['ops@example.com'],
)
const rules = about(
  z.array(RuleInput).min(1).max(NOTIFICATIONS.rules),
  'Which happenings go to it. Default: those that need attention, and their end, everywhere.',
  [{ project_id: 3, happenings: ['deployment.failed'] }],
)

export const ChannelCreate = z.strictObject({
  name,
  kind: about(z.enum(CHANNEL_KINDS), 'What receives the notifications.', 'slack'),
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
  project_id: about(
    IdParams.shape.id.optional(),
    'Only channels with a rule that can match this project.',
    '3',
  ),
})

export const Notification = z.object({
  id: about(Id, 'Its number.', 41),
  channel_id: about(Id, 'The channel that it goes to.', 4),
  happening: about(
    z.enum([...HAPPENING_NAMES, 'test']),
    'What happened; test: a user asked for it.',
    'deployment.failed',
  ),
  message_id: about(
    z.string(),
    'The same for every try and replay, so that a receiver can recognize a repetition: `webhook-id`, or a part of the Message-ID.',
    'msg_0198f7a2c3d44be8a1f0c5d6e7f80912',
  ),
  recipient: about(z.string().nullable(), 'The address of a mail, else null.', 'ops@example.com'),
  title: about(z.string(), 'What it says in one line.', 'shop / pr-42: deployment failed'),
  project_id: about(Id.nullable(), 'The project, if it is about one.', 3),
  environment_id: about(Id.nullable(), 'The environment, if it is about one.', 7),
  task_id: about(Id.nullable(), 'The task, if it is about one.', 95),
  status: about(
    z.enum(NOTIFICATION_STATUSES),
    'waiting: it is sent or tried again; given_up: every try failed; skipped: not tried, because the channel was broken or too many waited.',
    'delivered',
  ),
  tries: about(z.int(), 'How often it was sent.', 1),
  next_at: about(
    Time.nullable(),
    'When it is tried next; null: it is over.',
    '2026-11-17T09:12:33Z',
  ),
  answer_status: about(z.int().nullable(), 'The HTTP status of the last answer.', 200),
  answer: about(z.string().nullable(), 'The beginning of the last answer, as plain text.', 'ok'),
  error: about(
    z.string().nullable(),
    'Why the last try failed.',
    'hooks.slack.com did not answer in 10 s.',
  ),
  replay_of: about(Id.nullable(), 'The notification that this one repeats.', 40),
  created_at: about(Time, 'When it happened.', '2026-11-17T09:12:33Z'),
  finished_at: about(Time.nullable(), 'When it was delivered or given up.', '2026-11-17T09:12:34Z'),
})
export type Notification = z.infer<typeof Notification>

export const NotificationQuery = Paging.extend({
  status: about(
    z.enum(NOTIFICATION_STATUSES).optional(),
    'Only notifications in this state.',
    'given_up',
  ),
})
export type NotificationQuery = z.infer<typeof NotificationQuery>
