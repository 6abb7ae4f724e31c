// Updates of agents: a rollout over some servers, and what became of each of them.
import type { Migration } from '../../engine/migration.ts'

export const agentUpdates: Migration = {
  name: '0032-agent-updates',
  statements: ({ id }) => [
    `create table agent_rollouts (
      id ${id}, organization_id integer references organizations(id), version text not null,
      counter bigint not null, state text not null, reason text not null default '',
      started_by integer references users(id), started_at bigint not null, finished_at bigint)`,
    `create table agent_updates (
      id text primary key, rollout_id integer not null references agent_rollouts(id),
      server_id integer not null references servers(id), state text not null,
      reason text not null default '', from_version text, offered_at bigint, finished_at bigint)`,
    'create index agent_updates_by_rollout on agent_updates (rollout_id)',
    'create index agent_updates_by_server on agent_updates (server_id, rollout_id)',
  ],
}
