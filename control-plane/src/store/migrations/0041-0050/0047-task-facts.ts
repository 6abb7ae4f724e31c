// What the page of a deployment says about it: who wrote the commit, who canceled the task, which images it started.
import type { Migration } from '../../engine/migration.ts'

export const taskFacts: Migration = {
  name: '0047-task-facts',
  statements: () => [
    'alter table tasks add column commit_author text',
    'alter table tasks add column canceled_by text',
    'alter table tasks add column images text',
  ],
}
