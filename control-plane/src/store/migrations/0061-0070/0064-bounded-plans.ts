// Keys for filters that walked a whole history: the trigger of tasks; the verb, the actor and the time of the audit log;
// and rows that a sweep looks for among all that were ever written.
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
  ],
}
