// npm run bench -- fleet --agents N [--engine sqlite|postgres] [--replicas R] [--program FILE] [--profile FOLDER] [--broken]
//
// What a large fleet costs: simulated agents that speak the real protocol, in their own processes, against control planes
// as real processes behind a TCP balancer. Memory and processor of a control plane without work, then with a bounded flow
// of deployments and reads, then after kill -9 of one. The history of the run is judged (test/histories).
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { openPostgres } from '../../../control-plane/src/store/engine/database.ts'
import { locate } from '../../fixtures/platform/components.ts'
import { createDatabase, startPostgres } from '../../fixtures/platform/postgres.ts'
import { freePort } from '../../fixtures/server/installation-docker.ts'
import { judge } from '../../histories/checker.ts'
import { HistoryWriter, readHistory } from '../../histories/history.ts'
import { MB_PER_MIB, residentMiB, round, thousands } from '../figures.ts'
import { goal, goalAtMost } from '../goals.ts'
import type { Counts, Instructions } from './agents-process.ts'
import { Balancer, ControlPlaneProcess, type Loop, type Memory } from './control-planes.ts'
import { Flow } from './flow.ts'
import { type Planted, plantFleet } from './plant.ts'

export interface FleetOptions {
  agents: number
  engine: 'sqlite' | 'postgres'
  replicas: number
  /** The program of the control plane; the bundle of this checkout if absent. */
  program?: string | undefined
  /** A folder for profiles of a control plane without work and in the storm. */
  profile?: string | undefined
  /** Run a build that acknowledges deployments and forgets them; the checker must notice. */
  broken: boolean
}

const GOALS = { memoryMB: 600, backMs: 120_000 }
const PER_PROCESS = 1_700
const ENVIRONMENTS = 50
const DEPLOYMENTS_PER_SECOND = 2
const RAMP_PER_SECOND = 60
const ONLINE_MS = 600_000
const IDLE_MS = 60_000
const BUSY_MS = 30_000
const AFTER_MS = 30_000
const SETTLE_MS = 120_000
const MB = 1_000_000

class Agents {
  readonly #children: ChildProcess[]

  constructor(dir: string, planted: Planted, port: number, history: string) {
    const { agents } = planted
    const count = Math.max(1, Math.ceil(agents.length / PER_PROCESS))
    this.#children = Array.from({ length: count }, (_, n) => {
      const instructions: Instructions = {
        agents: agents.filter((_, i) => i % count === n),
        credentials: planted.credentials,
        endpoint: { host: '127.0.0.1', port },
        lines: 20,
        runMs: 2_000,
        rampMs: (agents.length / RAMP_PER_SECOND) * 1_000,
        history,
      }
      const file = join(dir, `agents-${n}.json`)
      writeFileSync(file, JSON.stringify(instructions))
      return fork(join(import.meta.dirname, 'agents-process.ts'), [file])
    })
  }

  async count(): Promise<Counts> {
    const all = await Promise.all(
      this.#children.map(async (child) => {
        const answer = once(child, 'message')
        child.send('count')
        return ((await answer) as [Counts])[0]
      }),
    )
    const ends: Record<string, number> = {}
    for (const of of all)
      for (const [why, n] of Object.entries(of.ends)) ends[why] = (ends[why] ?? 0) + n
    const sum = (key: 'active' | 'unacknowledged' | 'live'): number =>
      all.reduce((total, of) => total + of[key], 0)
    return { active: sum('active'), unacknowledged: sum('unacknowledged'), live: sum('live'), ends }
  }

  /** Milliseconds until all are active. */
  async allActive(total: number, limitMs: number): Promise<number> {
    const began = performance.now()
    for (let said = began; ; ) {
      const { active, ends } = await this.count()
      const spent = performance.now() - began
      if (active >= total) return spent
      if (spent > limitMs) {
        console.log(`  only ${active} of ${total} after ${round(spent / 1_000, 0)} s`)
        return spent
      }
      if (performance.now() - said > 10_000) {
        said = performance.now()
        console.error(
          `  ${active} of ${total} online after ${round(spent / 1_000, 0)} s ${JSON.stringify(ends)}`,
        )
      }
      await delay(250)
    }
  }

  stop(): void {
    for (const child of this.#children) child.send('stop')
  }
}

export async function benchFleet(options: FleetOptions): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'berth-bench-fleet-'))
  const postgres =
    options.engine === 'postgres'
      ? await startPostgres(locate('postgres') ?? 'postgres')
      : undefined
  if (postgres) process.env.BERTH_TEST_POSTGRES = postgres.folder
  try {
    const databaseUrl = postgres ? await createDatabase() : undefined
    console.error(`writing ${thousands(options.agents)} agents`)
    const counts = { agents: options.agents, environments: ENVIRONMENTS }
    const planted = await plantFleet(dir, databaseUrl, counts)
    await run(options, dir, databaseUrl, planted)
  } finally {
    await postgres?.stop()
    rmSync(dir, { recursive: true, force: true })
  }
}

async function programOf({ program, broken }: FleetOptions): Promise<string> {
  if (broken) return join(import.meta.dirname, '../../chaos/broken-control-plane.ts')
  return program ?? (await import('../../fixtures/server/programs.ts')).CONTROL_PLANE_MAIN
}

async function run(
  options: FleetOptions,
  dir: string,
  databaseUrl: string | undefined,
  planted: Planted,
): Promise<void> {
  const program = await programOf(options)
  const planes: ControlPlaneProcess[] = []
  for (let n = 0; n < options.replicas; n += 1) {
    const dataDir = n === 0 ? join(dir, 'data') : join(dir, `data-${n}`)
    mkdirSync(dataDir, { recursive: true, mode: 0o700 })
    const ports = { http: await freePort(), agents: await freePort() }
    const env = {
      BERTH_CONFIG_FILE: '',
      BERTH_DATA_DIR: dataDir,
      BERTH_KEK_FILE: planted.kekFile,
      BERTH_PORT: String(ports.http),
      BERTH_AGENT_PORT: String(ports.agents),
      BERTH_LOG: 'warn',
      BERTH_RATE_LIMIT_FACTOR: '10000',
      BERTH_AGENT_PACKAGES: join(dir, 'packages'),
      NODE_ENV: 'production',
      ...(databaseUrl ? { DATABASE_URL: databaseUrl } : {}),
    }
    const log = join(options.profile ?? dir, `control-plane-${n}.log`)
    planes.push(new ControlPlaneProcess(program, env, ports, log))
  }
  const balancer = await Balancer.start(planes.map(({ ports }) => ports))
  const history = join(dir, 'history.jsonl')
  let agents: Agents | undefined
  try {
    for (const plane of planes) await plane.start()
    const [plane] = planes as [ControlPlaneProcess]
    const empty = await plane.ask<Memory>('memory')
    const begun = { options, planes, plane, planted, balancer, history }
    const flow = new Flow(
      `http://127.0.0.1:${balancer.ports.http}`,
      planted.token,
      planted.environments,
      history,
    )
    agents = new Agents(dir, planted, balancer.ports.agents, history)
    await measure({ ...begun, agents, flow, empty })
    await flow.judge(SETTLE_MS)
    await writeAttempts(history, join(dir, 'data', 'berth.db'), databaseUrl)
    report(history, options.broken)
  } finally {
    agents?.stop()
    balancer.stop()
    for (const plane of planes) await plane.end('SIGTERM')
  }
}

interface Running {
  options: FleetOptions
  planes: ControlPlaneProcess[]
  plane: ControlPlaneProcess
  agents: Agents
  flow: Flow
  empty: Memory
}

/** Share of one core, and the delay of the event loop. */
async function processorOf(plane: ControlPlaneProcess, ms: number) {
  const before = await plane.ask<Loop>('loop')
  const began = performance.now()
  await delay(ms)
  const after = await plane.ask<Loop>('loop')
  const share = (100 * millisecondsBetween(before, after)) / (performance.now() - began)
  return { share, p99: after.p99, max: after.max }
}

const millisecondsBetween = ({ cpu: a }: Loop, { cpu: b }: Loop): number =>
  (b.user + b.system - a.user - a.system) / 1_000

async function profiled<T>(r: Running, name: string, work: () => Promise<T>): Promise<T> {
  const { profile } = r.options
  if (!profile) return work()
  await r.plane.ask('cpu-start')
  const result = await work()
  await r.plane.ask('cpu-stop', { file: join(profile, `${name}.cpuprofile`) })
  return result
}

async function measure(r: Running): Promise<void> {
  const { agents, flow, plane, planes, empty, options } = r
  const total = options.agents
  const each = total / options.replicas
  const line = (what: string, text: string): void => console.log(`  ${what.padEnd(44)} ${text}`)
  console.log(
    `${thousands(total)} agents, ${options.replicas} control plane(s), ${options.engine}:`,
  )
  if (options.profile) await plane.ask('heap-start')
  const beforeJoining = await plane.ask<Loop>('loop')
  const joined = await profiled(r, 'joining', () => agents.allActive(total, ONLINE_MS))
  line('all online after', `${round(joined / 1_000, 1)} s`)
  const joining = millisecondsBetween(beforeJoining, await plane.ask<Loop>('loop'))
  line('processor for each session that opens', `${round(joining / each, 1)} ms`)
  line('ends of tries until then', JSON.stringify((await agents.count()).ends))
  await delay(10_000)
  if (options.profile) {
    await plane.ask('heap-stop', { file: join(options.profile, 'online.heapprofile') })
  }
  const idle = await profiled(r, 'idle', () => processorOf(plane, IDLE_MS))
  line('processor without work', `${round(idle.share)} % of one core`)
  line('  for 1,000 agents', `${round((idle.share * 1_000) / each)} %`)
  line(
    '  delay of the event loop, p99 and max',
    `${round(idle.p99, 0)} and ${round(idle.max, 0)} ms`,
  )
  const memory = await plane.ask<Memory>('memory')
  line('memory without agents', memoryText(empty))
  line('memory with agents', memoryText(memory))
  const perAgent = (memory.rssAfter - empty.rssAfter) / each
  line('memory for each agent', `${round(perAgent / 1_000, 1)} kB`)
  goalAtMost('memory of a control plane', memory.rss / MB, GOALS.memoryMB, 'MB')

  flow.start(DEPLOYMENTS_PER_SECOND)
  const busyFrom = Date.now()
  const busy = await processorOf(plane, BUSY_MS)
  const busyTo = Date.now()
  line('processor with deployments and reads', `${round(busy.share)} % of one core`)
  line('REST with deployments', timesText(flow.between(busyFrom, busyTo)))

  const struck = planes.at(-1) as ControlPlaneProcess
  const killedAt = Date.now()
  const { active: before } = await agents.count()
  await struck.end('SIGKILL')
  if (planes.length === 1) await struck.start()
  // connections of the dead one end first
  await delay(1_000)
  const backMs = Date.now() - killedAt + (await agents.allActive(total, 2 * GOALS.backMs))
  const backAt = Date.now()
  line('online before the kill', `${before}`)
  goalAtMost('all agents back after kill -9', backMs / 1_000, GOALS.backMs / 1_000, 's')
  line('REST from the kill until then', timesText(flow.between(killedAt, backAt)))
  const survivor = planes.length > 1 ? plane : struck
  const storm = await survivor.ask<Loop>('loop')
  line(
    'delay of the event loop, p99 and max',
    `${round(storm.p99, 0)} and ${round(storm.max, 0)} ms`,
  )
  await delay(AFTER_MS)
  line('REST after that', timesText(flow.between(backAt, Date.now())))
  line('resident memory after that', `${round(residentMiB(survivor.pid) * MB_PER_MIB, 0)} MB`)
  if (planes.length > 1) await struck.start()
  await flow.stop()
  const { ends } = await agents.count()
  line('ends of tries and sessions', JSON.stringify(ends))
  line('deployments acknowledged', `${flow.acknowledged.size}`)
}

const memoryText = ({ rss, rssAfter, heapUsed, external }: Memory): string =>
  `${round(rss / MB, 0)} MB resident, ${round(rssAfter / MB, 0)} after a collection ` +
  `(heap ${round(heapUsed / MB, 0)}, external ${round(external / MB, 0)})`

const timesText = (of: ReturnType<Flow['between']>): string =>
  `p50 ${round(of.p50, 0)} ms, p99 ${round(of.p99, 0)} ms, ${of.failed} of ${of.count} without an answer`

/** The fences that were given out, from the table. */
async function writeAttempts(
  history: string,
  file: string,
  databaseUrl: string | undefined,
): Promise<void> {
  const writer = new HistoryWriter(history, 'harness')
  const rows = databaseUrl ? await attemptsOfPostgres(databaseUrl) : await attemptsOfSqlite(file)
  for (const row of rows) writer.add({ f: 'assigned', type: 'ok', ...row })
}

interface Row {
  environment: number
  task: number
  attempt: string
  fence: number
  number: number
}
const ATTEMPTS =
  'select environment_id as environment, task_id as task, id as attempt, fence, number from attempts'

async function attemptsOfSqlite(file: string): Promise<Row[]> {
  const { default: Database } = await import('better-sqlite3')
  const db = new Database(file, { readonly: true })
  try {
    return db.prepare(ATTEMPTS).all() as Row[]
  } finally {
    db.close()
  }
}

async function attemptsOfPostgres(url: string): Promise<Row[]> {
  const { db } = openPostgres(url, () => {})
  try {
    const rows = await db
      .selectFrom('attempts')
      .select(['environmentId', 'taskId', 'id', 'fence', 'number'])
      .execute()
    return rows.map(({ environmentId, taskId, id, ...rest }) => ({
      environment: environmentId,
      task: taskId,
      attempt: id,
      ...rest,
    }))
  } finally {
    await db.destroy()
  }
}

function report(history: string, broken: boolean): void {
  const { violations, counts } = judge(readHistory(history), {
    allRun: true,
    resets: false,
    closed: false,
  })
  console.log(`  history: ${JSON.stringify(counts)}`)
  for (const { rule, text } of violations.slice(0, 10)) console.log(`  ${rule}: ${text}`)
  const isGood = broken ? violations.length > 0 : violations.length === 0
  goal(broken ? 'the broken build is caught' : 'history', isGood, `${violations.length} violations`)
}
