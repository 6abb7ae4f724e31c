// Keys for what every push, every round and every returning server queries. Without them the cost grows with the number
// of pull requests a project ever had.
import type { Migration } from '../../engine/migration.ts'

export const lookups: Migration = {
  name: '0011-lookups',
  statements: () => [
    // used only by a query that repeats the condition literally instead of binding it
    `create index pull_requests_open on pull_requests(project_id, number)
      where state in ('open', 'presumed_closed')`,
    'create index project_servers_server on project_servers(server_id)',
  ],
}
