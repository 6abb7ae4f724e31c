// Inserting a task no longer writes a key of the whole history; with years of tasks each was a cold page that every
// insert read, wrote and logged. store/deployments/task-history.ts merges a page from open tasks and the keys of ended
// ones, which a task enters when it ends, as before.
import type { Migration } from '../../engine/migration.ts'

export const history: Migration = {
  name: '0019-history',
  statements: () => ['drop index tasks_kind', 'drop index tasks_project_kind'],
}
