// Sample answers about notifications and events, checked by the schemas of the API.
import { Channel, ChannelMade, Notification, PublicEvent, TaskDiagnostics } from '@berth/shared/api'

const AT = '2026-11-15T09:12:30Z'

export const channel = (more: object = {}) =>
  Channel.parse({
    id: 4,
    organization_id: 1,
    name: 'team-chat',
    kind: 'slack',
    target: 'hooks.slack.com',
    recipients: [],
    rules: [{ project_id: null, environment_type: 'protected', happenings: ['deployment.failed'] }],
    previous_secret_until: null,
    failing_since: null,
    broken_at: null,
    error: null,
    waiting: 0,
    last_delivered_at: AT,
    created_at: AT,
    updated_at: AT,
    updated_by: { id: 1, name: 'Ada Lovelace' },
    ...more,
  })

export const channelMade = (more: object = {}) =>
  ChannelMade.parse({ ...channel(), secret: null, ...more })

export const notification = (more: object = {}) =>
  Notification.parse({
    id: 41,
    channel_id: 4,
    happening: 'deployment.failed',
    message_id: 'msg_0198f7a2c3d44be8a1f0c5d6e7f80912',
    recipient: null,
    title: 'shop / pr-42: deployment failed',
    project_id: 12,
    environment_id: 101,
    task_id: 813,
    status: 'delivered',
    tries: 1,
    next_at: null,
    answer_status: 200,
    answer: 'ok',
    error: null,
    replay_of: null,
    created_at: AT,
    finished_at: AT,
    ...more,
  })

export const publicEvent = (more: object = {}) =>
  PublicEvent.parse({
    id: 8_231,
    type: 'task.succeeded',
    at: AT,
    organization_id: 1,
    project_id: 12,
    environment_id: 101,
    task_id: 813,
    data: {},
    environment: { id: 101, status: 'running', locked: false },
    task: { id: 813, status: 'succeeded' },
    ...more,
  })

export const taskDiagnostics = (more: object = {}) =>
  TaskDiagnostics.parse({
    task_id: 813,
    environment_id: 101,
    type: 'action',
    status: 'canceled',
    summary: 'A user canceled it.',
    step: { id: '1', title: 'Export', phase: 'run' },
    failure: null,
    output: 'row 1\nrow 2',
    output_first_line: 1,
    output_last_line: 2,
    output_truncated: false,
    output_complete: true,
    hints: [],
    since_last_success: null,
    log_url: 'https://berth.example.com/api/tasks/813/log',
    web_url: 'https://berth.example.com/tasks/813',
    superseded_by: null,
    ...more,
  })
