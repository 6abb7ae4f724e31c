// No query's cost grows with history: every list of the REST API and of the dashboard, with every filter and second
// pages, and all that timers do, on a database in which each table that grows has thousands of rows that a page does
// not show. The plan of each statement decides (test/fixtures/plans/).
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { passDeadlines, sweep } from '../../control-plane/src/app/deployments/deadlines.ts'
import { checkAlerts } from '../../control-plane/src/app/installation/alerts.ts'
import { HISTORIES, listTables, PRESENT, plantHistory } from '../fixtures/plans/history.ts'
import { readEverything } from '../fixtures/plans/requests.ts'
import { type Statement, StatementRecorder } from '../fixtures/plans/statements.ts'
import { type Finding, judge } from '../fixtures/plans/verdicts.ts'
import { ENGINES } from '../fixtures/platform/engines.ts'
import { type Organization, Tenants } from '../fixtures/tenants/organizations.ts'

/** Statements that may read more than a page, and what bounds them. */
const BOUNDED: [says: RegExp, by: string][] = [
  [/from "deliveries" group by "project_id"/, 'once an hour; each project keeps 500 deliveries'],
  [/from "agent_rollouts" where "organization_id" in/, 'a person started each of them'],
  [/from "ssh_certificates" .*"session_until" > /, 'the certificates that are valid now'],
  [/from "projects" where .*"removed_at" is null order by "updated_at" desc/, 'present projects'],
  [
    /from "hosts" .*"removed_at" is null order by "hosts"."host" limit/,
    'hostnames of present environments',
  ],
  [/from "pull_requests" .*"waiting_for" = /, 'pull requests that wait now'],
]

describe.each(ENGINES)('plans on %s', (engine) => {
  let recorder: StatementRecorder
  let tenants: Tenants
  let o: Organization
  const grows = new Set(Object.keys(HISTORIES({ users: {} } as Organization)))

  beforeAll(async () => {
    recorder = StatementRecorder.start()
    tenants = await Tenants.build(engine)
    o = tenants.organizations[0] as Organization
    recorder.isPaused = true
    await plantHistory(tenants.cp.running.ctx, o)
    recorder.isPaused = false
  })
  afterAll(async () => {
    await tenants.cp.close()
    recorder.stop()
  })

  const problemsOf = async (statements: readonly Statement[]): Promise<Finding[]> =>
    (await judge(tenants.cp, statements, grows)).filter(
      ({ text }) => !BOUNDED.some(([says]) => says.test(text)),
    )

  test('every table either grows with history or says what bounds it', async () => {
    const tables = await listTables(tenants.cp.running.ctx, engine)
    // blocks of a log are read by the key of its attempt, and retention drops whole partitions
    const logs = engine === 'postgres' ? ['log_blocks'] : []
    expect(tables.toSorted()).toEqual([...grows, ...PRESENT, ...logs].toSorted())
  })

  test('no list, filter, order, second page or timer reads a history', async () => {
    const { ctx } = tenants.cp.running
    expect(await readEverything(tenants, o)).toEqual([])
    await passDeadlines(ctx)
    await sweep(ctx)
    await checkAlerts(ctx)
    await ctx.metrics.registry.metrics()
    const statements = recorder.take()
    expect(statements.length).toBeGreaterThan(250)
    expect(await problemsOf(statements)).toEqual([])
    // what no statement needs any more must go
    const isUsed = ([says]: [RegExp, string]) => statements.some(({ text }) => says.test(text))
    expect(BOUNDED.filter((one) => !isUsed(one))).toEqual([])
  })

  const BAD: [string, () => string][] = [
    ['a whole table', () => `select id from tasks where message = 'x'`],
    [
      'an order without a key',
      () => `select id from tasks where environment_id = 1 order by message limit 2`,
    ],
    ['a key from its second column', () => `select id from audit where verb = 'nothing.ever'`],
  ]
  const ended = `status in ('succeeded', 'failed', 'canceled') and status = 'succeeded' and type = 'deploy'`
  if (engine === 'postgres')
    BAD.push([
      'a history and drops it',
      () => `select id from tasks where environment_id = ${o.environment} and ${ended} and message = 'x'
        order by id desc limit 2`,
    ])
  test.each(BAD)('a statement that reads %s is found', async (_what, text) => {
    expect(await problemsOf([{ text: text(), values: [[]] }])).not.toEqual([])
  })
})
