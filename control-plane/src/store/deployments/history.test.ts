// Cost must not grow with history: a query that runs every second, on every request or on every event finds its rows by
// key. SQLite's query plan shows for each statement whether it would read a whole table.
import Database from 'better-sqlite3'
import { CompiledQuery } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openEngine } from '../../../../test/fixtures/platform/engines.ts'
import { findEventRange, listEventsAfter, listEventsBetween } from '../core/events.ts'
import type { OpenDatabase } from '../engine/database.ts'
import {
  findEnvironment,
  listEnvironments,
  listEnvironmentsAwaitingServer,
  takeFence,
  updateDeployed,
} from '../environments/environments.ts'
import { listSurroundings } from '../environments/surroundings.ts'
import { listChangedKeys } from '../environments/variables.ts'
import * as reports from '../forges/commit-statuses.ts'
import * as pulls from '../forges/pull-requests.ts'
import { listDueRounds } from '../forges/repositories.ts'
import * as deliveries from '../forges/webhook-deliveries.ts'
import * as alerts from '../installation/alerts.ts'
import * as logins from '../people/logins.ts'
import { listDueMails } from '../people/mails.ts'
import { findTokenByHash, listMemberships } from '../people/people.ts'
import { countEnvironments } from '../projects/projects.ts'
import {
  findServerAgent,
  listServerAgents,
  takeSession,
  updateUnderEpoch,
} from '../servers/agents.ts'
import {
  listRevokedSerials,
  type RevocationScope,
  revokeSshCertificates,
} from '../ssh/certificates.ts'
import * as attempts from './attempts.ts'
import * as history from './task-history.ts'
import * as tasks from './tasks.ts'

const DELIVERY = { id: 1, projectId: 1, deliveryId: 'a' }
const revoke = (scope: RevocationScope) =>
  revokeSshCertificates(opened.db, scope, { now: 1, userId: null, reason: 'revoked' })

const seen = new Set<string>()
const { prepare } = Database.prototype
let opened: OpenDatabase
beforeAll(async () => {
  opened = await openEngine('sqlite')
  Database.prototype.prepare = function record(this: Database.Database, text: string) {
    seen.add(text)
    return prepare.call(this, text)
  } as typeof prepare
})
afterAll(async () => {
  Database.prototype.prepare = prepare
  await opened.db.destroy()
})

/** Returns the lines of SQLite's query plans for the statements of `work` that match. */
async function plans(work: () => Promise<unknown>, says: RegExp): Promise<string[]> {
  seen.clear()
  await work()
  const found: string[] = []
  for (const text of [...seen].filter((t) => /^(select|update|delete)/i.test(t))) {
    const values = Array.from({ length: text.split('?').length - 1 }, () => 1)
    const plan = CompiledQuery.raw(`explain query plan ${text}`, values)
    const { rows } = await opened.db.executeQuery<{ detail: string }>(plan)
    for (const { detail } of rows) if (says.test(detail)) found.push(`${detail}: ${text}`)
  }
  return found
}

/** These partial indexes hold only rows that are open, alive or failed; every other scan grows. */
const PARTIAL =
  /USING INDEX (attempts_held|alerts_open|deliveries_open|deliveries_errors|projects_reconcile)/
/** A scan of a page is bounded by the page. */
const LIMITED = /^SCAN part: /
const scans = async (work: () => Promise<unknown>): Promise<string[]> =>
  (await plans(work, /^SCAN /)).filter((found) => !PARTIAL.test(found) && !LIMITED.test(found))

test.each<[string, () => Promise<unknown>]>([
  ['open task of an environment', () => tasks.findOpenTask(opened.db, 1)],
  ['open tasks of environments', () => tasks.listOpenTasks(opened.db, [1, 2])],
  ['what could be dispatched', () => tasks.listDispatchable(opened.db, 1, 1)],
  ['what was never sent', () => tasks.listNeverSent(opened.db, 1)],
  ['newest failure', () => history.findNewestDeployment(opened.db, 1, 'failed')],
  [
    'success before a failure',
    () => history.findNewestDeployment(opened.db, 1, 'succeeded', { beforeId: 9 }),
  ],
  [
    'success after a failure',
    () => history.findNewestDeployment(opened.db, 1, 'succeeded', { afterId: 9 }),
  ],
  [
    'variables changed between deployments',
    () => listChangedKeys(opened.db, 1, { after: 1, until: 9 }, 200),
  ],
  ['moving a task', () => tasks.moveTask(opened.db, 1, 'failed')],
  ['live attempts', () => attempts.listLiveAttempts(opened.db)],
  ['live attempt of a task', () => attempts.findLiveAttempt(opened.db, 1)],
  ['held attempts', () => attempts.listHeldAttempts(opened.db, 'a')],
  ['what environments are shown with', () => listSurroundings(opened.db, [1, 2])],
  ['attempts of a page', () => attempts.listNewestAttempts(opened.db, [1, 2])],
  ['logs that never became whole', () => attempts.listIncompleteLogs(opened.db, 1)],
  ['logs to look at on start', () => attempts.listUncertainLogs(opened.db)],
  ['logs past their time', () => attempts.listWithLogsBefore(opened.db, 1)],
  ['position of a log', () => attempts.updateReachability(opened.db, ['a'], 1)],
  ['steps', () => attempts.listSteps(opened.db, ['a', 'b'])],
  ['agent of a server', () => findServerAgent(opened.db, 1)],
  ['agents of servers', () => listServerAgents(opened.db, [1, 2])],
  ['a write under an epoch', () => updateUnderEpoch(opened.db, 'a', 1, { lastSeenAt: 1 })],
  ['a fence', () => takeFence(opened.db, 1).catch(() => undefined)],
  ['an environment', () => findEnvironment(opened.db, 1)],
  ['facts of a deployment', () => updateDeployed(opened.db, 1, 1, { commitSha: 'a' })],
  ['a token', () => findTokenByHash(opened.db, 'a')],
  ['memberships', () => listMemberships(opened.db, 1)],
  ['events after a number', () => listEventsAfter(opened.db, 1, 10)],
  [
    'events of a subscriber',
    () => listEventsBetween(opened.db, { organizationId: 1, taskId: 1 }, 1, 10, 10),
  ],
  ['which events are kept', () => findEventRange(opened.db)],
  ['environments of a project', () => listEnvironments(opened.db, 1)],
  ['how many there are', () => countEnvironments(opened.db, [1, 2])],
  ['what waits for a server', () => listEnvironmentsAwaitingServer(opened.db, 1)],
  ['unfinished tasks', () => tasks.listUnfinishedTasks(opened.db, 1)],
  ['whether anything was sent', () => tasks.wasSentTo(opened.db, 1, 1)],
  ['what a server has to do', () => tasks.listServerTasks(opened.db, 1)],
  ['attempts of a task', () => attempts.listTaskAttempts(opened.db, 1)],
  ['a pull request', () => pulls.findPullRequest(opened.db, 1, 1)],
  ['the line', () => pulls.listWaiting(opened.db, 1, 10)],
  ['whoever waits', () => pulls.listWaitingPullRequests(opened.db, 1, 10)],
  ['who waits for a server', () => pulls.listProjectsAwaiting(opened.db, 1)],
  ['an approval', () => pulls.isApproved(opened.db, 1, 1, 'a')],
  ['approvals', () => pulls.listApprovals(opened.db, 1, [1, 2])],
  ['a delivery of before', () => deliveries.findDecided(opened.db, DELIVERY, 1)],
  ['a delivery seen', () => deliveries.wasSeen(opened.db, 1, 'a')],
  ['undecided deliveries', () => deliveries.listOpenDeliveries(opened.db, 10)],
  ['the ledger', () => deliveries.listDeliveries(opened.db, 1, { limit: 10 })],
  ['failed deliveries', () => alerts.listFailedDeliveries(opened.db, 1, 10)],
  ['the newest delivery', () => alerts.findNewestDecided(opened.db, 1)],
  ['open alerts', () => alerts.listOpenAlerts(opened.db)],
  ['letters to send', () => listDueMails(opened.db, 1, 10)],
  ['reports to send', () => reports.listDueReports(opened.db, 1, 10)],
  ['the newest report', () => reports.findNewestReport(opened.db, 1, 'status', 'a')],
  ['rounds that are due', () => listDueRounds(opened.db, 1, 10)],
  ['a refresh token', () => logins.findRefreshToken(opened.db, 'a')],
  ['a device that polls', () => logins.findDeviceByCode(opened.db, 'a')],
  ['a typed code', () => logins.findDeviceByUserCode(opened.db, 'a')],
  ['certificates of a person', () => revoke({ userId: 1 })],
  ['certificates of an environment', () => revoke({ environmentId: 1 })],
  ['what a server refuses', () => listRevokedSerials(opened.db, 1, 1)],
])('%s: by key', async (_what, work) => {
  expect(await scans(work)).toEqual([])
})

const FILTERS: [string, Omit<history.TaskFilter, 'limit'>][] = [
  ['everything', {}],
  ['the next page', { beforeId: 9 }],
  ['deployments', { types: ['deploy'] }],
  ['failed deployments', { types: ['deploy'], status: ['failed'] }],
  ['whatever is open', { status: ['queued', 'running'], beforeId: 9 }],
  ['of one day', { types: ['deploy'], since: 1, until: 9 }],
  ['by push, failed', { types: ['deploy'], status: ['failed'], trigger: 'webhook' }],
]
const SCOPES = [{ environmentId: 1 }, { projectId: 1 }]

test.each(
  SCOPES.flatMap((scope) => FILTERS.map(([what, filter]) => [scope, what, filter] as const)),
)(
  'history of %o, %s: walked by key, newest first, without sorting what is not shown',
  async (scope, _what, filter) => {
    const work = () => history.listTasks(opened.db, scope, { ...filter, limit: 2 })
    expect(await scans(work)).toEqual([])
    expect(await plans(work, /TEMP B-TREE/)).toEqual([])
  },
)

test('a push reads the open pull requests of its project, not all it ever had', async () => {
  const work = () => pulls.listOpenPullRequests(opened.db, 1, 10)
  expect(await plans(work, /USING INDEX pull_requests_open \(project_id=\?\)/)).toHaveLength(1)
})

test('a walk in the wrong order would be noticed', async () => {
  const { db } = opened
  const sorted = () =>
    db.selectFrom('tasks').select('id').where('environmentId', '=', 1).orderBy('message').execute()
  expect(await plans(sorted, /TEMP B-TREE/)).toHaveLength(1)
})

test('a statement that reads a whole table would be noticed', async () => {
  const bad = () => opened.db.selectFrom('tasks').select('id').where('message', '=', 'x').execute()
  expect(await scans(bad)).toHaveLength(1)
  const session = {
    sessionId: 's',
    replicaId: 'r',
    instanceId: 'i',
    version: '1',
    capabilities: [],
    now: 1,
  }
  expect(await scans(() => takeSession(opened.db, 'a', session))).toEqual([])
})
