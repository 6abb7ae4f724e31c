// Keys for filters that walked a whole history: the trigger of tasks; the verb, the actor and the time of the audit log;
// and rows that are present, valid or running among all that were ever written. PostgreSQL locks a table against writes
// while it makes an index, so writes of tasks wait; with millions of tasks, upgrade at a quiet time.
import type { Migration } from '../../engine/migration.ts'

const ENDED = `status in ('succeeded', 'failed', 'canceled')`

export const boundedPlans: Migration = {
  name: '0064-bounded-plans',
  statements: () => [
    `create index tasks_trigger on tasks(environment_id, trigger_by, type, status, id) where ${ENDED}`,
    `create index tasks_project_trigger on tasks(project_id, trigger_by, type, status, id) where ${ENDED}`,
    'create index audit_verb on audit(organization_id, verb, id)',
    'create index audit_actor on audit(organization_id, actor_type, actor_id, id)',
    'create index audit_time on audit(at)',
    'create index environments_present on environments(server_id) where removed_at is null',
    'create index backups_kept on backups(environment_id, id) where removed_at is null',
    'create index backups_project on backups(project_id, id) where removed_at is null',
    'create index agents_former on agents(server_id, revoked_at, joined_at) where revoked_at is not null',
    `create index agent_rollouts_running on agent_rollouts(state, id) where state = 'running'`,
    'create index tokens_valid on tokens(user_id, id) where revoked_at is null',
    'create index invitations_organization on invitations(organization_id, id)',
    'create index ssh_certificates_age on ssh_certificates(session_until)',
    'create index projects_present on projects(id) where removed_at is null',
  ],
}
