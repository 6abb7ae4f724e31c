// Writes a large installation straight into the database, as years of use would leave it. The control plane itself made
// the schema, the first user and the keys; only history is planted here.
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { hashToken, makeToken } from '../../control-plane/src/identity/tokens.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'

export interface Installation {
  dir: string
  /** Tokens of many users, so that no user's quota limits the measurement. */
  tokens: string[]
  /** The project and environment that are read; the environment has a tenth of all tasks. */
  projectId: number
  environmentId: number
  /** Environments without an open task. */
  environmentIds: number[]
  close(): Promise<void>
}

const PEOPLE = 100
const ENVIRONMENTS = 3

export async function plantInstallation(projects: number, tasks: number): Promise<Installation> {
  const cp = await TestControlPlane.start('sqlite')
  const { organization, user } = await cp.setUp()
  const server = await cp.server()
  const project = await cp.project('first', server.id)
  const environment = await cp.environment(project.id, 'main')
  await cp.running.close()
  const db = new Database(join(cp.dir, 'berth.db'))
  db.pragma('synchronous = OFF')
  const seed = { db, organizationId: organization.id, userId: user.id, serverId: server.id }
  const tokens = plantPeople(seed)
  const environmentIds = plantProjects(seed, project.id, environment.id, projects)
  plantTasks(seed, environmentIds, tasks)
  db.exec('update projects set reconcile_at = null') // the next start schedules the checks
  db.close()
  return {
    dir: cp.dir,
    tokens,
    projectId: project.id,
    environmentId: environment.id,
    environmentIds,
    close: async () => {
      const { rmSync } = await import('node:fs')
      rmSync(cp.dir, { recursive: true, force: true })
    },
  }
}

interface Seed {
  db: Database.Database
  organizationId: number
  userId: number
  serverId: number
}

/** Copies a row with some fields changed, so that this file does not depend on the schema. */
function copier(db: Database.Database, table: string, id: number | string) {
  const row = db.prepare(`select * from ${table} where id = ?`).get(id) as Record<string, unknown>
  const names = Object.keys(row).filter((name) => name !== 'id')
  const marks = names.map(() => '?').join(', ')
  const insert = db.prepare(`insert into ${table}(${names.join(', ')}) values (${marks})`)
  return (over: Record<string, unknown>): number =>
    Number(insert.run(names.map((n) => (n in over ? over[n] : row[n]))).lastInsertRowid)
}

function plantPeople({ db, organizationId, userId }: Seed): string[] {
  const tokens: string[] = []
  const addUser = copier(db, 'users', userId)
  const first = db.prepare('select id from tokens limit 1').get() as { id: number }
  const addToken = copier(db, 'tokens', first.id)
  const member = db.prepare('insert into members values (?, ?, ?, ?)')
  for (let i = 0; i < PEOPLE; i++) {
    const id = addUser({ email: `person${i}@example.com`, is_platform_admin: 0 })
    member.run(organizationId, id, 'developer', Date.now())
    const token = makeToken('berth_pat_')
    addToken({ user_id: id, hash: hashToken(token), hint: token.slice(-4) })
    tokens.push(token)
  }
  return tokens
}

function plantProjects(seed: Seed, projectId: number, environmentId: number, count: number) {
  const { db, serverId } = seed
  const addProject = copier(db, 'projects', projectId)
  const addEnvironment = copier(db, 'environments', environmentId)
  const addServer = db.prepare('insert into project_servers values (?, ?)')
  const ids = [environmentId]
  db.transaction(() => {
    for (let p = 0; p < count; p++) {
      const name = `project-${String(p).padStart(5, '0')}`
      const domain = `${name}.example.com`
      const id = p === 0 ? projectId : addProject({ name, domain })
      if (p > 0) addServer.run(id, serverId)
      for (let e = 1; e < ENVIRONMENTS; e++) {
        const identifier = `env-${e}`
        const host = `${identifier}.${domain}`
        ids.push(addEnvironment({ project_id: id, identifier, domain: host }))
      }
    }
  })()
  return ids
}

function plantTasks({ db, organizationId, userId, serverId }: Seed, ids: number[], count: number) {
  const agentId = randomUUID()
  db.prepare(
    `insert into agents(id, server_id, install_id, joined_at, disconnected_at)
     values (?, ?, ?, ?, ?)`,
  ).run(agentId, serverId, randomUUID(), Date.now(), Date.now())
  const projectOf = new Map(
    (db.prepare('select id, project_id as p from environments').all() as never[]).map(
      (row: { id: number; p: number }) => [row.id, row.p],
    ),
  )
  const addTask = db.prepare(
    `insert into tasks(organization_id, project_id, environment_id, server_id, type, status, trigger_by,
      user_id, triggered_by, branch, recipe, commit_sha, created_at, started_at, finished_at)
     values (?, ?, ?, ?, 'deploy', 'succeeded', 'api', ?, 'Ada', 'main', 'manual', ?, ?, ?, ?)`,
  )
  const addAttempt = db.prepare(
    `insert into attempts(id, task_id, number, agent_id, environment_id, fence, state, desired,
      variables_revision, created_at, finished_at, log_complete_at, released_at)
     values (?, ?, 1, ?, ?, ?, 100, 3, 0, ?, ?, ?, ?)`,
  )
  const start = Date.now() - count * 1_000
  const fences = new Map<number, number>()
  const last = new Map<number, number>()
  db.transaction(() => {
    for (let i = 0; i < count; i++) {
      // every tenth task belongs to the first environment; the first hundred give it a page in any case
      const environment = ids[i % 10 === 0 || i < 100 ? 0 : i % ids.length] as number
      const at = start + i * 1_000
      const sha = i.toString(16).padStart(40, '0')
      const task = Number(
        addTask.run(
          organizationId,
          projectOf.get(environment),
          environment,
          serverId,
          userId,
          sha,
          at,
          at,
          at + 500,
        ).lastInsertRowid,
      )
      const fence = (fences.get(environment) ?? 0) + 1
      fences.set(environment, fence)
      last.set(environment, task)
      addAttempt.run(
        `${task.toString(16).padStart(8, '0')}-0000-7000-8000-000000000000`,
        task,
        agentId,
        environment,
        fence,
        at,
        at + 500,
        at + 500,
        at + 500,
      )
    }
    const remember = db.prepare(
      `update environments set last_task_id = ?, fence = ?, deployed_fence = ? where id = ?`,
    )
    for (const [id, task] of last) remember.run(task, fences.get(id), fences.get(id), id)
  })()
}
