// Turns channels and the ledger of notifications into the documented fields. Addresses and secrets have no field.
import type { Channel, Notification } from '@berth/shared/api'
import type { ChannelView } from '../../app/notices/channels.ts'
import type { NoticeView } from '../../app/notices/ledger.ts'
import { time, timeOrNull } from './fields.ts'

export const serializeChannel = (view: ChannelView): Channel => ({
  id: view.id,
  organization_id: view.organizationId,
  name: view.name,
  kind: view.kind,
  target: view.target,
  recipients: view.recipients,
  rules: view.rules.map(({ projectId, environmentType, happenings }) => ({
    project_id: projectId,
    environment_type: environmentType,
    happenings,
  })),
  previous_secret_until: timeOrNull(view.previousSecretUntil),
  failing_since: timeOrNull(view.failingSince),
  broken_at: timeOrNull(view.brokenAt),
  error: view.error,
  waiting: view.waiting,
  last_delivered_at: timeOrNull(view.lastDeliveredAt),
  created_at: time(view.createdAt),
  updated_at: time(view.updatedAt),
  updated_by: { id: view.updatedBy, name: view.updatedByName },
})

export const serializeNotice = (view: NoticeView): Notification => ({
  id: view.id,
  channel_id: view.channelId,
  happening: view.happening,
  message_id: view.messageId,
  recipient: view.recipient === '' ? null : view.recipient,
  title: view.title,
  project_id: view.projectId,
  environment_id: view.environmentId,
  task_id: view.taskId,
  status: view.status,
  tries: view.tries,
  next_at: timeOrNull(view.nextAt),
  answer_status: view.answerStatus,
  answer: view.answer,
  error: view.error,
  replay_of: view.replayOf,
  created_at: time(view.createdAt),
  finished_at: timeOrNull(view.finishedAt),
})
