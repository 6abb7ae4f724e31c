// Variables of a project that reach several environments: all of them, all previews, or all manual ones. The index
// finds who changed the variables of one subject.
import type { Migration } from '../../engine/migration.ts'

export const projectVariables: Migration = {
  name: '0037-project-variables',
  statements: () => [
    `create table project_variables (
      project_id integer not null references projects(id), level text not null, key text not null,
      sealed text not null, fingerprint text not null, bytes integer not null, forks integer not null default 0,
      updated_at bigint not null, updated_by integer not null references users(id),
      primary key (project_id, level, key))`,
    'create index audit_subject on audit(subject_type, subject_id, id)',
  ],
}
