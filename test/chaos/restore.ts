// npm run chaos -- restore: each round takes a backup in the middle of deployments, deploys more, kills the control
// plane, restores the backup elsewhere and checks every server and task. Half of the rounds run on SQLite, half on
// PostgreSQL.
import { setTimeout as delay } from 'node:timers/promises'
import { locate } from '../fixtures/platform/components.ts'
import { createDatabase, startPostgres } from '../fixtures/platform/postgres.ts'
import type { FixtureOptions } from '../fixtures/server/installation.ts'
import { RestoreInstallation } from './restore-installation.ts'
import { seeded } from './run.ts'

export interface RestorePlan {
  engines: ('sqlite' | 'postgres')[]
  /** Per engine. */
  rounds: number
  servers: number
  seed: number
  build?: FixtureOptions
  /** All servers must be back by then. */
  backMs?: number
  say: (line: string) => void
}

export interface RestoreRound {
  engine: string
  /** Undefined if not all servers came back in time. */
  backMs: number | undefined
  stuck: number
  asked: number
  unanswered: number
  failed: number
  twice: number
  details: string[]
}

/** The strictest expectation. */
const BACK_MS = 60_000
const SETTLE_MS = 120_000
const MORE = 4 // tasks begun between backup and loss, at least

const isGood = (r: RestoreRound): boolean =>
  r.backMs !== undefined && r.stuck + r.unanswered + r.failed + r.twice === 0
export const countBad = (rounds: RestoreRound[]): number => rounds.filter((r) => !isGood(r)).length

export async function runRestore(plan: RestorePlan): Promise<RestoreRound[]> {
  const random = seeded(plan.seed)
  const rounds: RestoreRound[] = []
  plan.say('round  engine    back after  stuck  asked  unanswered  failed  twice')
  for (const engine of plan.engines) {
    await onEngine(engine, plan, async (installation) => {
      for (let n = 1; n <= plan.rounds; n++) {
        const round = await restoreOnce(installation, engine, n, plan, random)
        rounds.push(round)
        plan.say(describeRound(rounds.length, round))
        for (const line of round.details.slice(0, 10)) plan.say(`       ${line}`)
        if (round.backMs === undefined) {
          plan.say(
            [installation.fixture.logOf('control-plane'), ...(await installation.missing())].join(
              '\n',
            ),
          )
          return
        }
      }
    })
  }
  return rounds
}

async function onEngine(
  engine: 'sqlite' | 'postgres',
  plan: RestorePlan,
  use: (installation: RestoreInstallation) => Promise<void>,
): Promise<void> {
  const own = engine === 'postgres' && !process.env.BERTH_TEST_POSTGRES
  const program = own ? locate('postgres') : undefined
  if (own && !program) throw new Error('PostgreSQL is missing (run scripts/host-packages.sh test)')
  const postgres = program ? await startPostgres(program) : undefined
  if (postgres) process.env.BERTH_TEST_POSTGRES = postgres.folder
  try {
    const database = engine === 'postgres' ? { databaseUrl: await createDatabase() } : {}
    const installation = await RestoreInstallation.open(
      { ...plan.build, ...database },
      plan.servers,
    )
    try {
      await use(installation)
    } finally {
      await installation.close()
    }
  } finally {
    if (postgres) {
      delete process.env.BERTH_TEST_POSTGRES
      await postgres.stop()
    }
  }
}

async function restoreOnce(
  installation: RestoreInstallation,
  engine: string,
  n: number,
  plan: RestorePlan,
  random: () => number,
): Promise<RestoreRound> {
  const before = {
    ok: installation.visits.ok,
    failed: installation.visits.failed,
    twice: installation.twice().length,
  }
  installation.busy()
  await installation.running()
  await delay(random() * 1_500)
  const backup = await installation.backup()
  await installation.addUnknown()
  const enough = installation.begun + MORE
  for (const end = performance.now() + SETTLE_MS; installation.begun < enough; ) {
    if (performance.now() > end) throw new Error('nothing more is deployed')
    await delay(50)
  }
  await installation.running()
  await delay(random() * 1_000)
  await installation.lose(backup, n)
  const round = {
    engine,
    backMs: await installation.online(plan.backMs ?? BACK_MS).catch(() => undefined),
    stuck: 0,
    failed: 0,
    details: [] as string[],
  }
  await installation.calm()
  if (round.backMs !== undefined) {
    round.stuck = await installation.stuck(SETTLE_MS)
    round.details = await installation.deployAll()
    round.failed = round.details.length
  }
  const { visits } = installation
  return {
    ...round,
    asked: visits.ok + visits.failed - before.ok - before.failed,
    unanswered: visits.failed - before.failed,
    twice: installation.twice().length - before.twice,
    details: [...round.details, ...visits.failures.slice(before.failed), ...installation.twice()],
  }
}

function describeRound(n: number, r: RestoreRound): string {
  const back = r.backMs === undefined ? 'NEVER' : `${(r.backMs / 1_000).toFixed(1)} s`
  const cells: [string | number, number][] = [
    [n, 5],
    [back, 12],
    [r.stuck, 7],
    [r.asked, 7],
    [r.unanswered, 12],
    [r.failed, 8],
    [r.twice, 7],
  ]
  const [first = '', ...rest] = cells.map(([text, width]) => String(text).padStart(width))
  return `${first}  ${r.engine.padEnd(8)}${rest.join('')}  ${isGood(r) ? 'ok' : 'VIOLATED'}`
}

/** Alternates both engines; an odd round runs on SQLite. */
export async function chaosRestore(wishes: {
  rounds: number
  seed: number
  build: FixtureOptions
}): Promise<number> {
  const say = (line: string): void => console.log(line)
  say(`seed ${wishes.seed}`)
  const { seed, build } = wishes
  const halves = [Math.ceil(wishes.rounds / 2), Math.floor(wishes.rounds / 2)] as const
  const base = { servers: 3, seed, build, say }
  const rounds = [
    ...(await runRestore({ ...base, engines: ['sqlite'], rounds: halves[0] })),
    ...(halves[1] > 0
      ? await runRestore({ ...base, engines: ['postgres'], rounds: halves[1] })
      : []),
  ]
  const sum = (of: (r: RestoreRound) => number): number => rounds.reduce((all, r) => all + of(r), 0)
  const bad = countBad(rounds) + (wishes.rounds - rounds.length)
  const slowest = Math.max(...rounds.map((r) => r.backMs ?? Number.POSITIVE_INFINITY))
  say(
    `restore: ${rounds.length} rounds, servers back after at most ${(slowest / 1_000).toFixed(1)} s, ` +
      `${sum((r) => r.stuck)} tasks stuck, ${sum((r) => r.asked)} requests, ${sum((r) => r.unanswered)} unanswered, ` +
      `${sum((r) => r.failed)} deployments failed, ${sum((r) => r.twice)} tasks run twice: ${bad === 0 ? 'ok' : 'VIOLATED'}`,
  )
  return bad === 0 ? 0 : 1
}
