// Columns and tables for the rules of projects, environments, pull requests, webhooks and mail. Removed environments
// and projects keep their row (tasks and audit reference it, task rows are kept forever) and release their names.
import type { Migration } from '../../engine/migration.ts'

const project = (column: string): string => `alter table projects add column ${column}`
const environment = (column: string): string => `alter table environments add column ${column}`

export const rules: Migration = {
  name: '0002-rules',
  statements: ({ id }) => [
    ...[
      'removed_at bigint',
      'pull_request_environments integer not null default 1',
      `pull_request_bases text not null default '["**"]'`,
      'deploy_drafts integer not null default 1',
      `fork_pull_requests text not null default 'approve'`,
      `watch_paths text not null default '[]'`,
      'skip_marker integer not null default 0',
      'comment_on_pull_requests integer not null default 0',
      `custom_domains text not null default '[]'`,
      // null: the project has no Basic Auth; the password is a bcrypt hash
      'basic_auth_username text',
      'basic_auth_hash text',
      'webhook_secret_sealed text',
      'webhook_secret_rotated_at bigint',
      'previous_webhook_secret_sealed text',
      'previous_accepted_until bigint',
      'legacy_webhook_secret_sealed text',
      'last_delivery_at bigint',
      'last_delivery_secret text',
      // learned from deliveries and checks
      'provider text',
      'external_id text',
      'renamed_to text',
      'reachable integer',
      'checked_at bigint',
      'repository_error text',
      'host_token_sealed text',
      'host_token_checked_at bigint',
      'host_token_error text',
      'deploy_key_created_at bigint',
      'previous_deploy_key_public text',
      'reconcile_at bigint',
      'reconciled_at bigint',
    ].map(project),
    ...[
      'removed_at bigint',
      `basic_auth_mode text not null default 'inherit'`,
      'basic_auth_username text',
      'basic_auth_hash text',
      'branch_missing integer not null default 0',
      'pull_request_number integer',
      'from_fork integer not null default 0',
      // the copy on the former server, destroyed after the first success on the new one
      'former_server_id integer references servers(id)',
    ].map(environment),
    'alter table tasks add column delivery_id integer',
    // "remove anyway" skips the repository's destroy steps
    'alter table tasks add column skip_steps integer not null default 0',
    'create unique index projects_name on projects(organization_id, name) where removed_at is null',
    'create unique index projects_domain on projects(domain) where removed_at is null',
    `create unique index environments_identifier on environments(project_id, identifier)
      where removed_at is null`,
    'create unique index environments_domain on environments(domain) where removed_at is null',
    'create index environments_project on environments(project_id, removed_at)',
    'create index projects_reconcile on projects(reconcile_at) where removed_at is null',
    'create index tasks_project on tasks(project_id, id)',

    `create table pull_requests (
      id ${id}, organization_id integer not null references organizations(id),
      project_id integer not null references projects(id), number integer not null,
      title text not null, url text not null, author text not null, state text not null,
      draft integer not null, head_branch text not null, base_branch text not null,
      from_fork integer not null, head_sha text not null, head_ref text,
      environment_id integer references environments(id),
      waiting_for text, waiting_since bigint,
      branch_missing_since bigint, presumed_closed_at bigint,
      happened_at bigint not null, created_at bigint not null, updated_at bigint not null,
      unique (project_id, number))`,
    'create index pull_requests_waiting on pull_requests(project_id, waiting_for, waiting_since)',
    `create table approvals (
      project_id integer not null references projects(id), number integer not null, sha text not null,
      user_id integer not null references users(id), at bigint not null,
      primary key (project_id, number, sha))`,
    `create table deliveries (
      id ${id}, organization_id integer not null references organizations(id),
      project_id integer not null references projects(id), provider text not null,
      delivery_id text not null, event text not null, received_at bigint not null, decided_at bigint,
      actor text, branch text, pull_request_number integer, sha text, signed_with text not null,
      outcome text not null, rule text, reason text, results text not null default '[]',
      replay_of integer, tries integer not null default 0, response_status integer not null,
      error text, headers text not null, normalised text, body_sha256 text not null,
      body_bytes integer not null, body text)`,
    'create index deliveries_project on deliveries(project_id, id)',
    'create index deliveries_key on deliveries(project_id, delivery_id)',
    'create index deliveries_open on deliveries(id) where decided_at is null',
    'create index deliveries_age on deliveries(received_at)',
    `create table refused_deliveries (
      id ${id}, project_id integer not null references projects(id), at bigint not null,
      address text not null, provider text, reason text not null)`,
    'create index refused_deliveries_project on refused_deliveries(project_id, id)',

    // outboxes: written with the change, sent afterwards, kept until sent or given up
    `create table mails (
      id ${id}, kind text not null, recipient text not null, subject text not null,
      sealed text not null, created_at bigint not null, tries integer not null default 0,
      next_at bigint, sent_at bigint, error text)`,
    'create index mails_due on mails(next_at) where next_at is not null',
    `create table host_reports (
      id ${id}, organization_id integer not null references organizations(id),
      project_id integer not null references projects(id), environment_id integer, task_id integer,
      kind text not null, subject text not null, body text not null, external_id text,
      created_at bigint not null, tries integer not null default 0,
      next_at bigint, done_at bigint, error text)`,
    'create index host_reports_due on host_reports(next_at) where next_at is not null',
    'create index host_reports_subject on host_reports(project_id, kind, subject)',
  ],
}
