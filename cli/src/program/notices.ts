// Commands about notifications and events.
import { NOTICE_ENVIRONMENTS, NOTIFICATION_STATUSES } from '@berth/shared'
import type { CommandSpec, FlagSpec } from './spec.ts'

const ON: FlagSpec = {
  flags: '--on <happenings>',
  summary:
    'What is sent: failed, recovered, succeeded, waiting, approval, task, degraded, server, all; several with commas',
  repeat: true,
}
const ENVIRONMENTS: FlagSpec = {
  flags: '--environments <type>',
  summary: 'Only of these environments: preview, manual or protected',
  choices: NOTICE_ENVIRONMENTS,
}
const TO: FlagSpec = {
  flags: '--to <address>',
  summary: 'Address of an e-mail channel',
  repeat: true,
}
const URL_STDIN: FlagSpec = {
  flags: '--url-stdin',
  summary: 'Read the address of the receiver from stdin; it is a secret',
}

export const NOTICES: readonly CommandSpec[] = [
  {
    path: 'notify list',
    summary: 'List channels of notifications; with -p those of a project',
    examples: ['berth notify', 'berth notify list -p shop'],
    load: async () => (await import('../commands/notices/notify.ts')).notifyList,
  },
  {
    path: 'notify add',
    summary: 'Send notifications to email, slack, discord, teams, mattermost or a webhook',
    args: '<kind>',
    flags: [
      { flags: '--name <name>', summary: 'Name of the channel (default: its kind)' },
      ON,
      ENVIRONMENTS,
      TO,
      URL_STDIN,
    ],
    examples: [
      'berth notify add email --to ops@example.com',
      'berth notify add slack --name team-chat --on failed,recovered -p shop --environments protected',
      'pass show hooks/ci | berth notify add webhook --name ci --on all --url-stdin',
    ],
    load: async () => (await import('../commands/notices/notify.ts')).notifyAdd,
  },
  {
    path: 'notify edit',
    summary: 'Change what a channel sends, its name or its receiver',
    args: '<channel>',
    flags: [
      { flags: '--name <name>', summary: 'New name' },
      ON,
      ENVIRONMENTS,
      TO,
      { flags: '--new-url', summary: 'Ask for a new address of the receiver' },
      URL_STDIN,
    ],
    examples: ['berth notify edit team-chat --on all'],
    load: async () => (await import('../commands/notices/notify.ts')).notifyEdit,
  },
  {
    path: 'notify test',
    summary: 'Send a test now; exit 1 if it does not arrive',
    args: '<channel>',
    examples: ['berth notify test team-chat'],
    load: async () => (await import('../commands/notices/notify.ts')).notifyTest,
  },
  {
    path: 'notify deliveries',
    summary: 'Show what was sent to a channel and what became of it',
    args: '<channel>',
    flags: [
      {
        flags: '--status <status>',
        summary: NOTIFICATION_STATUSES.join(', '),
        choices: NOTIFICATION_STATUSES,
      },
      { flags: '--limit <n>', summary: 'How many (default 20)' },
    ],
    examples: ['berth notify deliveries team-chat --status given_up'],
    load: async () => (await import('../commands/notices/notify.ts')).notifyDeliveries,
  },
  {
    path: 'notify replay',
    summary: 'Send a notification again, by its ID',
    args: '<id>',
    examples: ['berth notify replay 41'],
    load: async () => (await import('../commands/notices/notify.ts')).notifyReplay,
  },
  {
    path: 'notify rotate-secret',
    summary: 'Give a webhook a new signing secret; both sign for one day',
    args: '<channel>',
    examples: ['berth notify rotate-secret ci --yes'],
    load: async () => (await import('../commands/notices/notify.ts')).notifyRotate,
  },
  {
    path: 'notify remove',
    summary: 'Remove a channel and its history',
    args: '<channel>',
    examples: ['berth notify remove team-chat'],
    load: async () => (await import('../commands/notices/notify.ts')).notifyRemove,
  },
  {
    path: 'events',
    summary: 'Show what happened in the organization, a project (-p) or an environment (-e)',
    flags: [
      { flags: '-f, --follow', summary: 'Print events as they happen' },
      { flags: '--after <id>', summary: 'Continue after this event' },
      { flags: '--limit <n>', summary: 'At most so many past events (default 50)' },
    ],
    examples: ['berth events -f', 'berth events -f --json -p shop'],
    load: async () => (await import('../commands/notices/events.ts')).events,
  },
]
