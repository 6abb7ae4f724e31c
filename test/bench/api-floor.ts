// The floor of `npm run bench -- api`: only node:http and prepared statements. It authenticates (token, user,
// memberships) and reads the same rows as the product's answer, because every implementation must do both.
//   node test/bench/api-floor.ts <database file>
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import Database from 'better-sqlite3'

const db = new Database(process.argv[2] ?? '')
db.pragma('synchronous = FULL')
const PAGE = 30
const marks = (n: number): string => Array.from({ length: n }, () => '?').join(',')
const token = db.prepare('select * from tokens where hash = ?')
const user = db.prepare('select * from users where id = ?')
const memberships = db.prepare(
  `select o.id, o.name, o.slug, m.role from members m join organizations o on o.id = m.organization_id
   where m.user_id = ? order by o.id`,
)
const projects = db.prepare(
  `select id, organization_id, name, repo_url, domain, environment_limit from projects
   where organization_id = ? and removed_at is null order by name, id limit ${PAGE}`,
)
const servers = db.prepare(
  `select ps.project_id, s.id, s.name, s.hostname from project_servers ps
   join servers s on s.id = ps.server_id where ps.project_id in (${marks(PAGE)}) order by s.name`,
)
const counts = db.prepare(
  `select project_id, count(*) as n from environments
   where project_id in (${marks(PAGE)}) and removed_at is null group by project_id`,
)
const project = db.prepare('select * from projects where id = ? and removed_at is null')
const environment = db.prepare('select * from environments where id = ? and removed_at is null')
const environments = db.prepare(
  `select e.*, s.name as server_name, s.hostname, u.name as owner_name, t.status as last_status,
     t.finished_at as last_finished_at
   from environments e join servers s on s.id = e.server_id join users u on u.id = e.owner_id
     left join tasks t on t.id = e.last_task_id
   where e.project_id = ? and e.removed_at is null
   order by e.sticky desc, e.type, e.created_at desc, e.id desc limit ${PAGE}`,
)
const open = db.prepare(
  `select id, status, trigger_by from tasks where environment_id in (${marks(PAGE)})
   and status in ('queued', 'running') and type in ('deploy', 'destroy')`,
)
// open tasks use one index and ended ones another, by outcome; the results are merged in order
const ended = `t.status in ('succeeded', 'failed', 'canceled')`
const parts = [
  ...['succeeded', 'failed', 'canceled'].map((status) => `${ended} and t.status = '${status}'`),
  `t.status in ('queued', 'running')`,
].map(
  (status) => `select t.*, a.log_lines, a.log_complete_at, a.unreachable_since from tasks t
   left join attempts a on a.task_id = t.id and a.number = 1
   where t.environment_id = ? and t.type = 'deploy' and ${status}`,
)
const tasks = db.prepare(`${parts.join(' union all ')} order by id desc limit 31`)
const insertTask = db.prepare(
  `insert into tasks(organization_id, project_id, environment_id, server_id, type, status, trigger_by,
    user_id, triggered_by, branch, recipe, created_at)
   values (?, ?, ?, ?, 'deploy', 'queued', 'api', ?, 'Ada', 'main', 'manual', ?)`,
)
const remember = db.prepare('update environments set last_task_id = ? where id = ?')
const event = db.prepare(
  `insert into events(organization_id, project_id, environment_id, task_id, kind, body, at)
   values (?, ?, ?, ?, 'task.queued', '{}', ?)`,
)

type Row = Record<string, unknown> & { id: number; name: string; organization_id: number }

const listProjects = (organization: number): unknown => {
  const rows = projects.all(organization) as Row[]
  const ids = rows.map((r) => r.id)
  const of = servers.all(ids) as (Row & { project_id: number })[]
  const n = new Map(
    (counts.all(ids) as { project_id: number; n: number }[]).map((c) => [c.project_id, c.n]),
  )
  return rows.map((r) => ({
    id: r.id,
    name: r.name,
    repo_url: r.repo_url,
    domain: r.domain,
    environment_count: n.get(r.id) ?? 0,
    servers: of
      .filter((s) => s.project_id === r.id)
      .map(({ id, name, hostname }) => ({ id, name, hostname })),
  }))
}

function listEnvironments(id: number): unknown {
  project.get(id)
  const rows = environments.all(id) as Row[]
  const locks = open.all(Array.from({ length: PAGE }, (_, i) => rows[i]?.id ?? 0))
  return rows.map((r) => ({ ...r, locked: locks.length > 0 }))
}

function listTasks(id: number): unknown {
  environment.get(id)
  return tasks.all(parts.map(() => id))
}

const queue = db.transaction((row: Row, userId: number) => {
  const place = [row.organization_id, row.project_id, row.id]
  const { lastInsertRowid } = insertTask.run(...place, row.server_id, userId, Date.now())
  remember.run(lastInsertRowid, row.id)
  event.run(...place, lastInsertRowid, Date.now())
  return Number(lastInsertRowid)
})

function answer(method: string, path: string, authorization: string): unknown {
  const hash = createHash('sha256').update(authorization.slice(7)).digest('hex')
  const known = token.get(hash) as { user_id: number } | undefined
  if (!known) return undefined
  user.get(known.user_id)
  const [organization] = memberships.all(known.user_id) as Row[]
  const id = Number(path.split('/')[3])
  if (method === 'POST') return { id: queue(environment.get(id) as Row, known.user_id) }
  if (path === '/api/projects') return listProjects(organization?.id ?? 0)
  return path.endsWith('/tasks') ? listTasks(id) : listEnvironments(id)
}

const server = createServer((request, response) => {
  request.resume()
  const body = answer(request.method ?? '', request.url ?? '', request.headers.authorization ?? '')
  const text = JSON.stringify(body ?? {})
  response.writeHead(body ? 200 : 401, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
  })
  response.end(text)
})
server.listen(0, '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${(server.address() as { port: number }).port}`)
})
