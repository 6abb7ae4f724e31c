// Which keys the statements about tasks use: on both databases, open and ended tasks are found in small or ordered
// indexes of their own, regardless of the length of the history.
import Database from 'better-sqlite3'
import { CompiledQuery, sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ENGINES, openEngine } from '../../../../test/fixtures/platform/engines.ts'
import type { OpenDatabase } from '../engine/database.ts'
import type { Db } from '../engine/db.ts'
import * as actions from './actions.ts'
import * as history from './task-history.ts'
import * as tasks from './tasks.ts'

interface Asked {
  text: string
  values: unknown[]
}

const seen: Asked[] = []
const { prepare } = Database.prototype
const { query } = pg.Client.prototype
beforeAll(() => {
  Database.prototype.prepare = function record(this: Database.Database, text: string) {
    const values = Array.from({ length: text.split('?').length - 1 }, () => 1)
    seen.push({ text, values })
    return prepare.call(this, text)
  } as typeof prepare
  pg.Client.prototype.query = function record(this: pg.Client, ...args: unknown[]) {
    if (typeof args[0] === 'string') seen.push({ text: args[0], values: (args[1] ?? []) as [] })
    return (query as (...all: unknown[]) => unknown).apply(this, args)
  } as typeof query
})
afterAll(() => {
  Database.prototype.prepare = prepare
  pg.Client.prototype.query = query
})

/**
 * Returns the query plans of `work`. Sequential scans are disabled, because PostgreSQL prefers them for small tables.
 */
async function plansOf({ db, engine }: OpenDatabase, work: () => Promise<unknown>) {
  seen.length = 0
  await work()
  const asked = seen.filter(({ text }) => /^select .* from "tasks"/.test(text))
  return db.transaction().execute(async (tx) => {
    if (engine === 'postgres') await sql`set local enable_seqscan = off`.execute(tx)
    const word = engine === 'postgres' ? 'explain' : 'explain query plan'
    const lines: string[] = []
    for (const { text, values } of asked) {
      const { rows } = await tx.executeQuery(CompiledQuery.raw(`${word} ${text}`, values))
      lines.push(...rows.map((row) => JSON.stringify(row)))
    }
    return lines.join('\n')
  })
}

describe.each(ENGINES)('keys of tasks on %s', (engine) => {
  let opened: OpenDatabase
  beforeAll(async () => {
    opened = await openEngine(engine)
  })
  afterAll(() => opened.db.destroy())

  const list = (filter: Partial<history.TaskFilter>, scope: history.TaskScope) => (db: Db) =>
    history.listTasks(db, scope, { limit: 3, types: ['deploy'], ...filter })
  const [here, there] = [{ environmentId: 1 }, { projectId: 1 }]
  const failed = { status: ['failed' as const] }

  test.each<[string, string, (db: Db) => Promise<unknown>]>([
    ['the open task', 'tasks_open', (db) => tasks.findOpenTask(db, 1)],
    ['open tasks', 'tasks_open', (db) => tasks.listOpenTasks(db, [1, 2])],
    ['running actions', 'tasks_open', (db) => actions.listRunningActions(db, [1, 2])],
    ['what a server has to do', 'tasks_open_server', (db) => tasks.listServerTasks(db, 1)],
    ['what can be sent', 'tasks_open_server', (db) => tasks.listDispatchable(db, 1, 1)],
    ['what was never sent', 'tasks_queued', (db) => tasks.listNeverSent(db, 1)],
    ['a page', 'tasks_ended and tasks_open', list({}, here)],
    ['a page of a project', 'tasks_project_ended and tasks_open_project', list({}, there)],
    ['failed ones', 'tasks_ended', list(failed, here)],
    ['failed ones of a project', 'tasks_project_ended', list(failed, there)],
    ['queued ones', 'tasks_open', list({ status: ['queued'] }, here)],
    ['queued ones of a project', 'tasks_open_project', list({ status: ['queued'] }, there)],
    ['by a trigger', 'tasks_trigger', list({ trigger: 'mcp' }, here)],
    ['by a trigger, of a project', 'tasks_project_trigger', list({ trigger: 'mcp' }, there)],
    ['since a moment', 'tasks_time', list({ since: 1 }, here)],
    ['until a moment', 'tasks_time', list({ until: 1 }, there)],
    ['the newest failure', 'tasks_ended', (db) => history.findNewestDeployment(db, 1, 'failed')],
  ])('%s: by %s', async (_what, indexes, work) => {
    const plans = await plansOf(opened, () => work(opened.db))
    for (const index of indexes.split(' and ')) expect(plans).toMatch(new RegExp(`${index}\\b`))
  })
})
