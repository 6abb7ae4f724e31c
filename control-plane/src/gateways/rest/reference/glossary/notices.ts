// Channels of notifications, what was sent to them, and the public events.
import type { Glossary } from './entries.ts'

const EVENT =
  '{"id":8231,"type":"task.succeeded","at":"2026-11-15T09:14:02Z","organization_id":7,"project_id":12,"environment_id":101,"task_id":812,"data":{"trigger":"webhook"},"environment":{"id":101,"status":"running","locked":false},"task":{"id":812,"status":"succeeded"}}'

export const NOTICES: Glossary = {
  operations: {
    listOrganizationChannels: {
      says: 'Lists the channels of an organization with their rules, all on one page. Addresses of receivers and signing secrets are never returned.',
    },
    createOrganizationChannel: {
      says: 'Creates a channel; nothing is sent until something happens that a rule names. The kind `email` needs `recipients`, the others need `url`. The signing secret of a `webhook` is shown this once. An organization can have 50 channels.',
      body: {
        name: 'Team chat',
        kind: 'slack',
        url: 'https://hooks.slack.com/services/…',
        rules: [{ project_id: 12, happenings: ['deployment.failed', 'deployment.recovered'] }],
      },
      answer: { secret: null },
    },
    getChannel: {
      says: 'Answers one channel with its rules, and whether its receiver works.',
    },
    updateChannel: {
      says: 'Changes the given fields; absent ones stay as they are, and `rules` replaces all rules. A new receiver starts a broken channel again. What waits for an address that is removed is skipped.',
      body: { rules: [{ environment_type: 'protected', happenings: ['deployment.failed'] }] },
    },
    deleteChannel: {
      says: 'Deletes a channel with its rules, what waits, and the list of what was sent. It cannot be undone.',
    },
    postChannelRotateSecret: {
      says: 'Creates a new signing secret for a `webhook` and shows it this once. For 24 hours each request carries a signature of both secrets. Other kinds have no secret (422).',
      answer: {
        kind: 'webhook',
        target: 'ci.example.com',
        previous_secret_until: '2026-11-16T09:12:31Z',
        secret: 'whsec_…',
      },
    },
    postChannelTest: {
      says: 'Sends a test now, past what waits, and answers what became of it: of an `email` channel one notification for each address. A success starts a broken channel again. Once in five seconds.',
      answer: { happening: 'test', project_id: null, environment_id: null, task_id: null },
    },
    listChannelNotifications: {
      says: 'Lists what a channel was sent and what became of it, newest first, page by page. Kept are 30 days and at most 2,000 notifications of a channel.',
    },
    postNotificationReplay: {
      says: 'Sends a notification again, behind those that wait and with the same `message_id`. 409 `notification_not_replayable` while it still waits, or if its address is no longer in the channel.',
      answer: {
        id: 42,
        status: 'waiting',
        tries: 0,
        answer_status: null,
        answer: null,
        replay_of: 41,
        finished_at: null,
      },
    },
    getEvents: {
      says: 'Answers what happened in one organization as a page or, with `Accept: text/event-stream`, sends it as it happens, as Server-Sent Events. The organization follows from the filters, from `X-Service-Organization`, or from your only membership. To continue, repeat the last id as `Last-Event-ID` or `after`: no event is missing, none comes twice. Events are kept for 7 days; 410 `events_gone` if the id is too old. You can have 20 open streams.',
      answer: `id: 8231\nevent: task.succeeded\ndata: ${EVENT}\n\n`,
    },
  },
  fields: {
    '/channels/{id}': ['The channel, by the `id` in the list of its organization.', '4'],
    '/notifications/{id}': ['The notification, by the `id` in the list of its channel.', '41'],
    'listOrganizationChannels.project_id': [
      'Only channels with a rule that can match this project.',
      '12',
    ],
    'listChannelNotifications.status': ['Only notifications with this status.', 'given_up'],
    'getEvents.after': [
      'Continues after the event with this id; the header `Last-Event-ID` wins. Without it, a stream has only new events and a page the newest ones.',
      '8231',
    ],
    'getEvents.project_id': ['Only events of this project.', '12'],
    'getEvents.environment_id': ['Only events of this environment.', '101'],
    'getEvents.task_id': ['Only events of this task.', '812'],
    'getEvents.limit': [
      'Events of one page, 1 to 500; 100 if it is absent. A stream ignores it.',
      100,
    ],

    'Channel.id': ['Names it in paths.', 4],
    'Channel.name': ['What people call it; unique in the organization.', 'Team chat'],
    'Channel.kind': [
      'What receives the notifications. `webhook`: your own program, with signed JSON.',
      'slack',
    ],
    'Channel.target': [
      'The host of the receiver; its full address is a secret. Null for `email`.',
      'hooks.slack.com',
    ],
    'Channel.recipients': ['Mail addresses of an `email` channel; empty for other kinds.', []],
    'Channel.rules': ['What is sent: one matching rule is enough, and several send it once.'],
    'Channel.previous_secret_until': [
      'Until then requests are signed with the former secret too; null: only with the present one.',
      null,
    ],
    'Channel.failing_since': ['The first failure after the last success; null: it works.', null],
    'Channel.broken_at': [
      'When Berth stopped sending, after a day of failures, five refusals in a row or an answer 410; null: it sends.',
      null,
    ],
    'Channel.error': ['Why the last try failed; null: it did not.', null],
    'Channel.waiting': ['Notifications that are not delivered yet.', 0],
    'Channel.last_delivered_at': [
      'When a notification was last delivered; null: never.',
      '2026-11-15T09:14:03Z',
    ],
    'Channel.updated_at': ['When a person last changed it.', '2026-11-15T09:12:31Z'],
    'ChannelMade.secret': [
      'The signing secret of a `webhook`, shown only in this answer; null for other kinds.',
      'whsec_…',
    ],
    'ChannelCreate.name': [
      'What people call it: 1 to 64 characters, unique in the organization.',
      'Team chat',
    ],
    'ChannelCreate.url': [
      'The address of the incoming webhook or of your receiver, over HTTPS; not with `email`. It is stored encrypted and never returned.',
      'https://hooks.slack.com/services/…',
    ],
    'ChannelCreate.recipients': [
      '1 to 20 mail addresses, only with `email`. The installation must be able to send mail.',
      ['ops@example.com'],
    ],
    'ChannelCreate.rules': [
      'What is sent, 1 to 20 rules. Without it, what needs attention and its end, everywhere.',
      [{ project_id: 12, happenings: ['deployment.failed'] }],
    ],
    'ChannelPatch.rules': [
      'What is sent, 1 to 20 rules in place of all former ones.',
      [{ project_id: 12, happenings: ['deployment.failed'] }],
    ],
    'rules.project_id': ['Only of this project; null or absent: of every project and server.', 12],
    'rules.environment_type': [
      'Only of environments of pull requests (`preview`), of manual ones, or of protected ones; null or absent: of any.',
      'protected',
    ],
    'ChannelRule.project_id': ['Only of this project; null: of every project and server.', null],
    'ChannelRule.environment_type': [
      'Only of environments of pull requests (`preview`), of manual ones, or of protected ones; null: of any.',
      null,
    ],
    happenings: [
      'What is sent. Those of servers match no rule that names a project or a type of environment.',
      ['deployment.failed', 'deployment.recovered'],
    ],

    'Notification.id': ['Names it in paths.', 41],
    'Notification.channel_id': ['The channel that it goes to.', 4],
    'Notification.happening': [
      'What happened; `test`: a person asked for it.',
      'deployment.failed',
    ],
    'Notification.message_id': [
      'The same for every try and replay, so that receivers recognise a repetition: the header `webhook-id`, or a part of the mail’s Message-ID.',
      'msg_0198f7a2c3d44be8a1f0c5d6e7f80912',
    ],
    'Notification.recipient': ['The address of a mail; null for other kinds.', null],
    'Notification.title': ['What it says in one line.', 'shop / pr-42: deployment failed'],
    'Notification.project_id': ['The project it is about; null: none.', 12],
    'Notification.environment_id': ['The environment it is about; null: none.', 101],
    'Notification.task_id': ['The task it is about; null: none.', 812],
    'Notification.status': [
      '`waiting`: it is sent or tried again. `given_up`: every try failed. `skipped`: not tried, because the channel was broken or too many waited.',
      'delivered',
    ],
    'Notification.tries': ['How often it was sent.', 1],
    'Notification.next_at': ['When it is tried next; null: it is over.', null],
    'Notification.answer_status': [
      'The HTTP status of the receiver’s last answer; null: none came, or it is a mail.',
      200,
    ],
    'Notification.answer': [
      'The beginning of the last answer as plain text; null: there was none.',
      'ok',
    ],
    'Notification.error': ['Why the last try failed; null: it did not.', null],
    'Notification.replay_of': ['The notification that it repeats; null: none.', null],
    'Notification.created_at': [
      'When it was stored, together with what it is about.',
      '2026-11-15T09:14:02Z',
    ],
    'Notification.finished_at': [
      'When it was delivered, given up or skipped; null: it still waits.',
      '2026-11-15T09:14:03Z',
    ],

    'PublicEvent.id': ['Higher is later; continue after it with `after`.', 8231],
    'PublicEvent.type': [
      'What happened. Later releases add types; pass over those you do not know.',
      'task.succeeded',
    ],
    'PublicEvent.organization_id': ['The organization in which it happened.', 7],
    'PublicEvent.project_id': ['The project it is about; null: none.', 12],
    'PublicEvent.environment_id': ['The environment it is about; null: none.', 101],
    'PublicEvent.task_id': ['The task it is about; null: none.', 812],
    'PublicEvent.data': ['A few words and numbers, by type.', { trigger: 'webhook' }],
    'PublicEvent.environment': [
      'The environment as it is now, which may be newer than the event; null: none, or removed.',
    ],
    'PublicEvent.environment.id': ['Names the environment in paths.', 101],
    'PublicEvent.environment.status': ['As `GET /api/environments/{id}` has it.', 'running'],
    'PublicEvent.environment.locked': [
      'A deployment or removal is queued or running there.',
      false,
    ],
    'PublicEvent.task': ['The task as it is now, which may be newer than the event; null: none.'],
    'PublicEvent.task.id': ['Names the task in paths.', 812],
    'PublicEvent.task.status': ['How it ended, or how far it is.', 'succeeded'],
  },
}
