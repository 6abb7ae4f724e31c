// npm run chaos -- restore: each round takes a backup in the middle of deployments, deploys more, kills the control
// plane, restores the backup elsewhere and checks every server and task. Half of the rounds run on SQLite, half on
// PostgreSQL.
import { setTimeout as delay } from 'node:timers/promises'
import { type Sums, tryUnfit } from '../fixtures/platform/backups.ts'
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
  /** Tables whose rows are those of the moment of the backup, and those whose rows are not. */
  equal: number
  different: number
  /** Unfit backups (damaged, wrong key, newer version) that were not refused with the right sentence. */
  accepted: number
  details: string[]
}

/** The strictest expectation. */
const BACK_MS = 60_000
const SETTLE_MS = 120_000
const MORE = 4 // tasks begun between backup and loss, at least

const isGood = (r: RestoreRound): boolean =>
  r.backMs !== undefined &&
  r.stuck + r.unanswered + r.failed + r.twice + r.different + r.accepted === 0 &&
  r.equal > 0
export const countBad = (rounds: RestoreRound[]): number => rounds.filter((r) => !isGood(r)).length

export async function runRestore(plan: RestorePlan): Promise<RestoreRound[]> {
  const random = seeded(plan.seed)
  const rounds: RestoreRound[] = []
  plan.say(
    'round  engine    back after  stuck  asked  unanswered  failed  twice  equal  different  accepted',
  )
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
  const { backup, sums } = await installation.backup()
  const accepted = await tryUnfit(backup, random)
  await installation.addUnknown()
  const enough = installation.begun + MORE
  for (const end = performance.now() + SETTLE_MS; installation.begun < enough; ) {
    if (performance.now() > end) throw new Error('nothing more is deployed')
    await delay(50)
  }
  await installation.running()
  await delay(random() * 1_000)
  if (plan.build) await installation.running() // what is broken on purpose shows only with a newer attempt
  const different = compareSums(sums, await installation.lose(backup, n))
  const round = {
    engine,
    backMs: await installation.online(plan.backMs ?? BACK_MS).catch(() => undefined),
    stuck: 0,
    failed: 0,
    details: [] as string[],
    equal: Object.keys(sums.tables).length - different.length,
    different: different.length,
    accepted: accepted.length,
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
    details: [
      ...accepted,
      ...different.map((name) => `the table ${name} differs`),
      ...round.details,
      ...visits.failures.slice(before.failed),
      ...installation.twice(),
    ],
  }
}

/** The tables that are not as they were. */
const compareSums = (before: Sums, after: Sums): string[] =>
  Object.keys({ ...before.tables, ...after.tables }).filter((name) => {
    const [a, b] = [before.tables[name], after.tables[name]]
    const isSame = a?.rows === b?.rows && a?.sha256 === b?.sha256
    return !isSame || (before.counters[name] ?? 0) !== (after.counters[name] ?? 0)
  })

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
    [r.equal, 7],
    [r.different, 11],
    [r.accepted, 10],
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
      `${sum((r) => r.failed)} deployments failed, ${sum((r) => r.twice)} tasks run twice, ` +
      `${sum((r) => r.equal)} tables equal by hash, ${sum((r) => r.different)} different, ` +
      `${rounds.length * 3} unfit backups, ${sum((r) => r.accepted)} accepted: ${bad === 0 ? 'ok' : 'VIOLATED'}`,
  )
  return bad === 0 ? 0 : 1
}
