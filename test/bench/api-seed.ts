// Writes a large installation straight into the database, as years of use would leave it. The control plane itself made
// the schema, the first user and the keys; only history is planted here, by the database itself and without its indexes,
// so that millions of tasks take minutes.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import { hashToken, makeToken } from '../../control-plane/src/identity/tokens.ts'
import {
  type OpenDatabase,
  openPostgres,
  openSqlite,
} from '../../control-plane/src/store/engine/database.ts'
import type { Db, Engine } from '../../control-plane/src/store/engine/db.ts'
import {
  insertMember,
  insertToken,
  insertUser,
} from '../../control-plane/src/store/people/people.ts'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'
import { copyRows } from '../fixtures/platform/many-rows.ts'
import { thousands } from './figures.ts'

export interface Installation {
  engine: Engine
  dir: string
  /** Of PostgreSQL. */
  databaseUrl: string | undefined
  /** Tokens of many users, so that no user's quota limits the measurement. */
  tokens: string[]
  organizationId: number
  userId: number
  /** The project and environment that are read; the environment has a tenth of all tasks. */
  projectId: number
  environmentId: number
  /** Environments that were deployed, without an open task. */
  environmentIds: number[]
  /** An ended task of that environment. */
  taskId: number
  close(): void
}

export interface Size {
  engine: Engine
  projects: number
  environments: number
  tasks: number
}

const PEOPLE = 100
const YEAR_MS = 365 * 86_400_000
const CHUNK = 250_000
/** Bulk columns: which row, then what it says. Every tenth task is of the first environment. */
const OUTCOME = '((i / 10) % 50)'
const CAUSE = '((i / 10) % 100)'

export function openInstallation(of: Pick<Installation, 'dir' | 'databaseUrl'>): OpenDatabase {
  return of.databaseUrl === undefined
    ? openSqlite(join(of.dir, 'berth.db'))
    : openPostgres(of.databaseUrl, () => {})
}

export async function plantInstallation(size: Size): Promise<Installation> {
  const { engine } = size
  const cp = await TestControlPlane.start(engine)
  const { organization, user } = await cp.setUp()
  const server = await cp.server()
  const project = await cp.project('first', server.id)
  const environment = await cp.environment(project.id, 'main')
  const joined = {
    id: 'agent',
    serverId: server.id,
    installId: 'i',
    joinedAt: 1,
    disconnectedAt: 1,
  }
  await cp.running.ctx.db.insertInto('agents').values(joined).execute()
  await cp.make(`/api/environments/${environment.id}/tasks`)
  await cp.running.close()
  const { dir, databaseUrl } = cp
  const opened = openInstallation({ dir, databaseUrl })
  const tokens = await plantPeople(opened.db, organization.id)
  const [environmentIds, taskId] = await opened.db.connection().execute(async (db) => {
    const seed = new Seed(db, size, project.id, environment.id)
    return seed.plant()
  })
  await opened.db.destroy()
  return {
    engine,
    dir,
    databaseUrl,
    tokens,
    organizationId: organization.id,
    userId: user.id,
    projectId: project.id,
    environmentId: environment.id,
    environmentIds,
    taskId,
    close: () => rmSync(dir, { recursive: true, force: true }),
  }
}

async function plantPeople(db: Db, organizationId: number): Promise<string[]> {
  const tokens: string[] = []
  for (let i = 0; i < PEOPLE; i++) {
    const email = `person${i}@example.com`
    const userId = await insertUser(db, { name: `Person ${i}`, email, createdAt: 1 })
    await insertMember(db, { organizationId, userId, role: 'owner', createdAt: 1 })
    const token = makeToken('berth_pat_')
    await insertToken(db, {
      userId,
      kind: 'personal',
      name: 'bench',
      hash: hashToken(token),
      hint: token.slice(-4),
      scopes: ['read', 'deploy', 'write', 'admin'],
      organizationId: null,
      expiresAt: null,
      createdAt: 1,
    })
    tokens.push(token)
  }
  return tokens
}

class Seed {
  readonly #db: Db
  readonly #size: Size
  readonly #projectId: number
  readonly #environmentId: number

  constructor(db: Db, size: Size, projectId: number, environmentId: number) {
    this.#db = db
    this.#size = size
    this.#projectId = projectId
    this.#environmentId = environmentId
  }

  async plant(): Promise<[environmentIds: number[], taskId: number]> {
    const { engine, environments } = this.#size
    const isSqlite = engine === 'sqlite'
    for (const fast of isSqlite
      ? ['pragma synchronous = off', 'pragma foreign_keys = off', 'pragma cache_size = -2000000']
      : [`set session_replication_role = replica`, `set maintenance_work_mem = '512MB'`])
      await this.#run(fast)
    await this.#projects()
    const taskId = await this.#withoutIndexes(() => this.#history())
    await this.#run(`update environments set last_task_id = newest.id, fence = 2000000000
      from (select environment_id, max(id) as id from tasks group by environment_id) as newest
      where newest.environment_id = environments.id`)
    // the next start schedules the checks
    await this.#run('update projects set reconcile_at = null')
    if (!isSqlite) await this.#run('analyze')
    // every tenth has no task, except the first
    const used = Math.min(environments, this.#size.tasks)
    const ids = Array.from({ length: used }, (_, i) => i)
      .filter((i) => i === 0 || i % 10 !== 0)
      .map((i) => this.#environmentId + i)
    return [ids, taskId]
  }

  async #run(text: string): Promise<void> {
    await sql.raw(text).execute(this.#db)
  }

  #copy(table: string, base: string, count: number, over: Record<string, string>): Promise<void> {
    return copyRows(this.#db, this.#size.engine, { table, base, count, over })
  }

  /** Contiguous ids: environment n is of project n / (environments per project). */
  async #projects(): Promise<void> {
    const { projects, environments, tasks } = this.#size
    const each = Math.floor(environments / projects)
    const [p, e] = [this.#projectId, this.#environmentId]
    const name = `'project-' || cast(i as text)`
    await this.#copy('projects', `base.id = ${p}`, projects - 1, {
      id: `${p} + i`,
      name,
      domain: `${name} || '.example.com'`,
      updated_at: 'base.updated_at - i', // the first are the liveliest
    })
    await this.#copy('project_servers', `base.project_id = ${p}`, projects - 1, {
      project_id: `${p} + i`,
    })
    const identifier = `'env-' || cast(i as text)`
    await this.#copy('environments', `base.id = ${e}`, environments - 1, {
      id: `${e} + i`,
      project_id: `${p} + i / ${each}`,
      identifier,
      domain: `${identifier} || '.example.com'`,
    })
    // of pull requests that were closed; every tenth of the project that is read
    await this.#copy('environments', `base.id = ${e}`, Math.ceil(tasks / 250), {
      id: `${e + environments} + i`,
      project_id: `${p} + case when i % 10 = 0 then 0 else i % ${projects} end`,
      identifier: `'pr-' || cast(i as text)`,
      domain: `'pr-' || cast(i as text) || '.example.com'`,
      removed_at: 'base.created_at',
    })
    await this.#catchUp('projects')
    await this.#catchUp('environments')
  }

  async #history(): Promise<number> {
    const { tasks, environments, projects } = this.#size
    const each = Math.floor(environments / projects)
    const { id: base } = await this.#db.selectFrom('tasks').select('id').executeTakeFirstOrThrow()
    const now = Date.now()
    const at = `(${now - YEAR_MS} + i * ${Math.floor(YEAR_MS / tasks)})`
    // the others in turn, so that a short history is one of as many environments as possible, and of the first 50 projects
    const place = `(case when i % 10 = 0 then 0 else i % ${environments} end)`
    const environment = `${this.#environmentId} + ${place}`
    await this.#run(
      `update tasks set status = 'canceled', cancel_reason = 'user', finished_at = ${now}`,
    )
    await this.#firstAttempt()
    for (let from = 1; from <= tasks; from += CHUNK) {
      const count = [from, Math.min(tasks, from + CHUNK - 1)] as const
      const copy = (table: string, which: string, over: Record<string, string>) =>
        copyRows(this.#db, this.#size.engine, { table, base: which, count, over })
      await copy('tasks', `base.id = ${base}`, {
        id: `${base} + i`,
        project_id: `${this.#projectId} + ${place} / ${each}`,
        environment_id: environment,
        type: `case when ${CAUSE} = 98 then 'action' else 'deploy' end`,
        action: `case when ${CAUSE} = 98 then 'seed' end`,
        status: `case when ${OUTCOME} < 45 then 'succeeded' when ${OUTCOME} < 49 then 'failed' else 'canceled' end`,
        trigger_by: `case when ${CAUSE} < 80 then 'webhook' when ${CAUSE} < 90 then 'api'
          when ${CAUSE} < 95 then 'cli' when ${CAUSE} < 98 then 'dashboard' else 'schedule' end`,
        cancel_reason: 'null',
        commit_sha: `'${'0'.repeat(30)}' || cast(1000000000 + i as text)`,
        commit_message: `'Change number ' || cast(i as text)`,
        created_at: at,
        started_at: `${at} + 100`,
        finished_at: `${at} + 500`,
      })
      await copy('attempts', `base.id = 'first'`, {
        id: `'attempt-' || cast(i as text)`,
        task_id: `${base} + i`,
        environment_id: environment,
        fence: 'i',
        created_at: at,
        finished_at: `${at} + 500`,
        log_complete_at: `${at} + 500`,
        log_expired_at: `${at} + 500`,
        released_at: `${at} + 500`,
      })
      console.error(`  ${thousands(count[1])} tasks`)
    }
    await this.#run(`delete from attempts where id = 'first'`)
    await this.#audit(at, environment)
    await this.#catchUp('tasks')
    return base + Math.floor(tasks / 20) * 10
  }

  /** A fifth as many entries as tasks. */
  async #audit(at: string, environment: string): Promise<void> {
    const { tasks } = this.#size
    const count = Math.floor(tasks / 5)
    const { seq } = await this.#db.selectFrom('auditHead').select('seq').executeTakeFirstOrThrow()
    const first = '(select min(id) from audit where organization_id is not null)'
    await this.#copy('audit', `base.id = ${first}`, count, {
      at: at.replaceAll('i *', 'i * 5 *'),
      verb: `case when i % 20 < 18 then 'task.create' when i % 20 = 18 then 'project.update' else 'variable.set' end`,
      actor_type: `'user'`,
      actor_id: `case when i % 2 = 0 then base.actor_id else cast(1000 + i % 97 as text) end`,
      subject_type: `'environment'`,
      subject_id: `cast(${environment} as text)`,
      seq: `${seq} + i`,
    })
    await this.#run(`update audit_head set seq = ${seq + count}`)
    await this.#catchUp('audit')
  }

  /** The attempt that the others copy. */
  async #firstAttempt(): Promise<void> {
    await this.#db
      .insertInto('attempts')
      .values({
        id: 'first',
        taskId: 1,
        number: 1,
        agentId: 'agent',
        environmentId: this.#environmentId,
        fence: 1_999_999_999,
        state: 100,
        desired: 3,
        variablesRevision: 0,
        createdAt: 1,
        releasedAt: 1,
      })
      .execute()
  }

  /** PostgreSQL does not notice ids that were given to it. */
  async #catchUp(table: string): Promise<void> {
    if (this.#size.engine === 'sqlite') return
    await this.#run(
      `select setval(pg_get_serial_sequence('${table}', 'id'), (select max(id) from ${table}))`,
    )
  }

  async #withoutIndexes<T>(work: () => Promise<T>): Promise<T> {
    const where = `('tasks', 'attempts', 'audit')`
    const list =
      this.#size.engine === 'sqlite'
        ? `select name, sql as text from sqlite_master
           where type = 'index' and sql is not null and tbl_name in ${where}`
        : `select indexname as name, indexdef as text from pg_indexes
           where schemaname = 'public' and tablename in ${where} and not exists
             (select 1 from pg_constraint where conname = indexname)`
    const { rows } = await sql<{ name: string; text: string }>`${sql.raw(list)}`.execute(this.#db)
    for (const { name } of rows) await this.#run(`drop index ${name}`)
    const done = await work()
    console.error('  indexes')
    for (const { text } of rows) await this.#run(text)
    return done
  }
}
