// People, servers with their agents, projects, environments, tasks with attempts, logs, events. The partial unique
// indexes enforce rules independently of the code: one live agent per server, one queued and one running deployment per
// environment, one live attempt per environment.
import type { Migration } from '../../engine/migration.ts'

export const foundation: Migration = {
  name: '0001-foundation',
  statements: ({ id }) => [
    `create table installation (
      id integer primary key check (id = 1),
      installation_id text not null,
      setup_token_hash text,
      setup_done_at bigint,
      ca_certificate text not null,
      ca_key_sealed text not null,
      created_at bigint not null)`,

    `create table organizations (
      id ${id}, name text not null, slug text not null unique, created_at bigint not null)`,
    `create table users (
      id ${id}, name text not null, email text not null unique,
      is_platform_admin integer not null default 0, disabled_at bigint, created_at bigint not null)`,
    `create table members (
      organization_id integer not null references organizations(id),
      user_id integer not null references users(id),
      role text not null, created_at bigint not null,
      primary key (organization_id, user_id))`,
    'create index members_user on members(user_id)',
    `create table tokens (
      id ${id}, user_id integer not null references users(id), kind text not null, name text not null,
      hash text not null unique, hint text not null, scopes text not null,
      organization_id integer references organizations(id),
      expires_at bigint, revoked_at bigint, last_used_at bigint, created_at bigint not null)`,

    `create table servers (
      id ${id}, organization_id integer not null references organizations(id),
      name text not null, hostname text not null, paused integer not null default 0,
      host text, created_at bigint not null,
      unique (organization_id, name))`,
    `create table agents (
      id text primary key, server_id integer not null references servers(id), install_id text not null,
      joined_at bigint not null, revoked_at bigint, locked_at bigint, lock_reason text,
      session_epoch bigint not null default 0, session_id text, replica_id text, instance_id text,
      journal_id text, acked_event_seq bigint not null default 0,
      connected_at bigint, disconnected_at bigint, last_seen_at bigint, draining_at bigint,
      version text, capabilities text not null default '[]')`,
    'create unique index agents_live on agents(server_id) where revoked_at is null',
    `create table agent_certificates (
      fingerprint text primary key, agent_id text not null references agents(id),
      generation integer not null, not_after bigint not null, first_seen_at bigint,
      issued_at bigint not null, unique (agent_id, generation, fingerprint))`,
    `create table join_tokens (
      id text primary key, secret_hash text not null, server_id integer not null references servers(id),
      created_at bigint not null, expires_at bigint not null, used_at bigint, used_key_hash text,
      agent_id text, response text)`,

    `create table projects (
      id ${id}, organization_id integer not null references organizations(id),
      name text not null, repo_url text not null, domain text not null,
      status text not null default 'active', owner_id integer not null references users(id),
      default_recipe text not null, default_branch text not null, default_server_id integer references servers(id),
      environment_limit integer not null, auto_deploy integer not null default 1,
      lost_after_ms bigint not null, deploy_key_public text not null, deploy_key_sealed text not null,
      created_at bigint not null, updated_at bigint not null)`,
    `create table project_servers (
      project_id integer not null references projects(id), server_id integer not null references servers(id),
      primary key (project_id, server_id))`,
    `create table environments (
      id ${id}, organization_id integer not null references organizations(id),
      project_id integer not null references projects(id),
      identifier text not null, title text not null, type text not null, recipe text,
      branch text not null, domain text not null, server_id integer not null references servers(id),
      owner_id integer not null references users(id),
      protected integer not null default 0, sticky integer not null default 0, auto_deploy integer not null default 1,
      fence bigint not null default 0, deployed_fence bigint not null default 0,
      commit_sha text, target_sha text, services text not null default '[]', actions text not null default '[]',
      variables_revision integer not null default 0, deployed_variables_revision integer,
      degraded_reason text, removing_at bigint, last_task_id integer,
      created_at bigint not null, updated_at bigint not null)`,
    'create index environments_server on environments(server_id)',
    `create table variables (
      environment_id integer not null references environments(id), key text not null, sealed text not null,
      revision integer not null, updated_at bigint not null, updated_by integer not null references users(id),
      primary key (environment_id, key))`,

    `create table tasks (
      id ${id}, organization_id integer not null references organizations(id),
      project_id integer not null references projects(id),
      environment_id integer not null references environments(id),
      server_id integer not null references servers(id),
      type text not null, reset integer not null default 0, no_cache integer not null default 0,
      status text not null, trigger_by text not null, user_id integer references users(id),
      triggered_by text not null, message text, branch text not null, recipe text not null,
      asked_sha text, commit_sha text, commit_message text,
      cancel_requested_at bigint, cancel_reason text, superseded_by integer,
      failure text, warnings text not null default '[]', late_outcome text,
      created_at bigint not null, started_at bigint, live_at bigint, finished_at bigint)`,
    // not partial: SQLite cannot use a partial index for a status that is bound as a parameter
    'create index tasks_environment on tasks(environment_id, id)',
    'create index tasks_environment_status on tasks(environment_id, status)',
    'create index tasks_status on tasks(status, server_id, id)',
    `create unique index tasks_one_queued on tasks(environment_id)
      where status = 'queued' and type in ('deploy', 'destroy')`,
    `create unique index tasks_one_running on tasks(environment_id)
      where status = 'running' and type in ('deploy', 'destroy')`,
    `create table attempts (
      id text primary key, task_id integer not null references tasks(id), number integer not null,
      agent_id text not null references agents(id), environment_id integer not null references environments(id),
      fence bigint not null, state integer not null, desired integer not null,
      variables_revision integer not null, waiting_for text,
      created_at bigint not null, accepted_at bigint, started_at bigint, finished_at bigint,
      code integer not null default 0, message text not null default '', failed_step_id text not null default '',
      exit_code integer, platform_check integer not null default 0,
      final_log_seq bigint, log_sha256 text, log_dropped bigint not null default 0,
      acked_log_seq bigint not null default 0, log_bytes bigint not null default 0,
      log_lines bigint not null default 0, log_gap integer not null default 0,
      log_complete_at bigint, log_truncated integer not null default 0, log_expired_at bigint,
      unreachable_since bigint, late_outcome text, released_at bigint,
      unique (task_id, number), unique (environment_id, fence))`,
    'create unique index attempts_one_live on attempts(environment_id) where state < 100',
    'create index attempts_held on attempts(agent_id) where released_at is null',
    'create index attempts_state on attempts(state)',
    'create index attempts_logs on attempts(finished_at) where log_expired_at is null',
    `create table attempt_steps (
      attempt_id text not null references attempts(id), step_index integer not null,
      phase text not null, phase_title text not null, step_id text not null, title text not null,
      state integer not null default 1, exit_code integer, message text not null default '',
      first_log_seq bigint, last_log_seq bigint, started_at bigint, duration_ms bigint,
      primary key (attempt_id, step_index))`,

    `create table agent_events (
      agent_id text not null, journal_id text not null, seq bigint not null,
      attempt_id text not null, kind text not null, body text not null, received_at bigint not null,
      primary key (agent_id, journal_id, seq))`,
    'create index agent_events_age on agent_events(received_at)',
    `create table events (
      seq ${id}, organization_id integer not null, project_id integer, environment_id integer, task_id integer,
      kind text not null, body text not null, at bigint not null)`,
    'create index events_age on events(at)',
    `create table audit (
      id ${id}, at bigint not null, organization_id integer, actor_type text not null, actor_id text,
      verb text not null, subject_type text not null, subject_id text, details text not null)`,
  ],
}
