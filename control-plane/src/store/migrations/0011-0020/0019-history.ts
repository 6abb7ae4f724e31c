// A new task is written into no key of the whole history any more: with years of tasks each of those was a cold page that
// every insert read, wrote and logged. A page of a history is merged from what is open and the keys of what has ended
// (store/deployments/task-history.ts), which a task enters when it ends, as before.
import type { Migration } from '../../engine/migration.ts'

export const history: Migration = {
  name: '0019-history',
  statements: () => ['drop index tasks_kind', 'drop index tasks_project_kind'],
}
