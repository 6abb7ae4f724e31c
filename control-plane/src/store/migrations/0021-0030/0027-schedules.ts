// Actions that run by themselves: when each is due next, and what became of its runs.
import type { Migration } from '../../engine/migration.ts'

export const schedules: Migration = {
  name: '0027-schedules',
  statements: ({ id }) => [
    `create table schedules (environment_id integer not null, action text not null, cron text not null,
      timezone text not null, next_run_at bigint, problem text, primary key (environment_id, action))`,
    'create index schedules_due on schedules(next_run_at)',
    `create table schedule_runs (id ${id}, environment_id integer not null, action text not null,
      outcome text not null, reason text, due_at bigint not null, last_due_at bigint not null,
      runs integer not null, task_id integer)`,
    'create index schedule_runs_action on schedule_runs(environment_id, action, id)',
    'create index schedule_runs_age on schedule_runs(last_due_at)',
  ],
}
