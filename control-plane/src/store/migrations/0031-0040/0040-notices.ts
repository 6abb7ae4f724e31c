// Notifications: channels of an organization, the rules that choose them, and what was or will be sent.
import type { Migration } from '../../engine/migration.ts'

export const notices: Migration = {
  name: '0040-notices',
  statements: ({ id }) => [
    `create table notice_channels (id ${id}, organization_id integer not null references organizations(id),
      name text not null, kind text not null, target text, url_sealed text, secret_sealed text,
      previous_secret_sealed text, previous_secret_until bigint, recipients text not null, failing_since bigint,
      refused integer not null default 0, broken_at bigint, error text, last_delivered_at bigint,
      created_at bigint not null, updated_at bigint not null, updated_by integer not null references users(id))`,
    'create unique index notice_channels_name on notice_channels(organization_id, name)',
    `create table notice_rules (id ${id}, organization_id integer not null references organizations(id),
      channel_id integer not null references notice_channels(id), project_id integer references projects(id),
      environment_type text, happenings text not null)`,
    'create index notice_rules_organization on notice_rules(organization_id)',
    'create index notice_rules_channel on notice_rules(channel_id)',
    `create table notices (id ${id}, organization_id integer not null references organizations(id),
      channel_id integer not null references notice_channels(id), recipient text not null, happening text not null,
      message_id text not null, project_id integer, environment_id integer, task_id integer, body text not null,
      complete integer not null, status text not null, tries integer not null default 0, next_at bigint,
      answer_status integer, answer text, error text, replay_of integer, created_at bigint not null,
      finished_at bigint)`,
    'create index notices_channel on notices(channel_id, id)',
    "create index notices_waiting on notices(channel_id, recipient, id) where status = 'waiting'",
    "create index notices_due on notices(next_at) where status = 'waiting'",
    'create index notices_old on notices(created_at)',
  ],
}
