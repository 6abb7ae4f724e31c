// Cost of requests in a long history. First, CPU of the control plane per request of the four most frequent operations
// as a ratio to plain node:http with prepared statements on the same database (SQLite). Then these and every list, its
// filters and its second page: CPU (SQLite) and latency as ratios to the same program with 1,000 tasks. It measures in
// many short alternating slices and takes the median of their ratios, so a busy moment affects all or drops out.
// Background work (deadlines) is a separate figure; repository checks come in waves and are postponed.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Engine } from '../../control-plane/src/store/engine/db.ts'
import { locate } from '../fixtures/platform/components.ts'
import { startPostgres } from '../fixtures/platform/postgres.ts'
import { makeTemplates } from '../fixtures/platform/templates.ts'
import { OPERATIONS, type Operation } from './api-operations.ts'
import { type Installation, openInstallation, plantInstallation, type Size } from './api-seed.ts'
import { percentile, round, thousands } from './figures.ts'
import { goalAtMost } from './goals.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const WIDTH = 8 // concurrent requests
const ROUNDS = 3
const SLICES = 8 // in each round
const GETS = 50 // requests per slice
const WARM_GETS = 4_000 // until little is left to compile: a control plane runs for months
const WARM_MORE = 300 // of the other operations, which share most code
const WARM_POSTS = 100
const SETTLE_MS = 10_000
const PUT_OFF_MS = 86_400_000
const IDLE_MS = 20_000
const FEW_TASKS = 1_000

/** CPU microseconds of all threads of a process, from the scheduler's nanoseconds. */
function cpuMicroseconds(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`)
  const times = threads.map((id) => readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8'))
  return times.reduce((sum, text) => sum + Number(text.split(' ')[0]), 0) / 1_000
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

interface Slice {
  cpu: number
  times: number[]
}

class Subject {
  readonly #child: ChildProcess
  #agent = new Agent({ keepAlive: true, maxSockets: WIDTH })
  readonly #url: string

  private constructor(child: ChildProcess, url: string) {
    this.#child = child
    this.#url = url
  }

  static async start(argv: string[], env: Record<string, string>): Promise<Subject> {
    const child = spawn(process.execPath, argv, {
      cwd: root,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let printed = ''
    for await (const chunk of child.stdout ?? []) {
      printed += String(chunk)
      const url = /http:\/\/[0-9.:]+/.exec(printed)
      if (url) return new Subject(child, url[0])
    }
    throw new Error(`it did not start: ${printed}`)
  }

  ask(method: string, path: string, token: string): Promise<{ status: number; link: string }> {
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}` }
      const options = { method, agent: this.#agent, headers }
      request(this.#url + path, options, (answer) => {
        const { statusCode: status = 0, headers: told } = answer
        answer.resume().on('end', () => resolve({ status, link: String(told.link ?? '') }))
      })
        .on('error', reject)
        .end()
    })
  }

  /** The address to read: of a second page, where the first one links to. */
  async find({ path, isSecondPage }: Operation, installation: Installation): Promise<string> {
    const first = path(installation, 0)
    if (!isSecondPage) return first
    const { link } = await this.ask('GET', first, installation.tokens[0] as string)
    const next = /<([^>]+)>; rel="next"/.exec(link)?.[1]
    if (!next) throw new Error(`${first} has no second page`)
    const { pathname, search } = new URL(next)
    return pathname + search
  }

  /** CPU microseconds of the server per request, without its idle use, and milliseconds of each request. */
  async measure(
    { method, path }: Pick<Operation, 'method' | 'path'>,
    installation: Installation,
    from: number,
    count: number,
  ): Promise<Slice> {
    const { tokens } = installation
    const times: number[] = []
    let next = from
    // the server may have closed idle connections while the others were measured
    this.#agent.destroy()
    this.#agent = new Agent({ keepAlive: true, maxSockets: WIDTH })
    const used = this.#watch()
    await Promise.all(
      Array.from({ length: WIDTH }, async () => {
        for (let i = next++; i < from + count; i = next++) {
          const where = path(installation, i)
          const began = performance.now()
          const { status } = await this.ask(method, where, tokens[i % tokens.length] as string)
          if (status >= 300) throw new Error(`${method} ${where}: ${status}`)
          times.push(performance.now() - began)
        }
      }),
    )
    const { cpu, ms } = used()
    return { cpu: (cpu - this.idle * ms) / count, times }
  }

  /** CPU microseconds per millisecond without requests. */
  idle = 0

  async measureIdle(): Promise<void> {
    const used = this.#watch()
    await pause(IDLE_MS)
    const { cpu, ms } = used()
    this.idle = cpu / ms
  }

  #watch(): () => { cpu: number; ms: number } {
    const pid = this.#child.pid as number
    const began = performance.now()
    const before = cpuMicroseconds(pid)
    return () => ({ cpu: cpuMicroseconds(pid) - before, ms: performance.now() - began })
  }

  async stop(): Promise<void> {
    this.#agent.destroy()
    this.#child.kill('SIGTERM')
    await once(this.#child, 'exit')
  }
}

/** A start schedules a check of every repository half a minute later; there are none, so it is postponed. */
async function putOffLooks(installation: Installation): Promise<void> {
  const { db } = openInstallation(installation)
  await db
    .updateTable('projects')
    .set({ reconcileAt: Date.now() + PUT_OFF_MS })
    .execute()
  await db.destroy()
}

interface Measured {
  subject: Subject
  installation: Installation
  /** By operation, then by slice. */
  figures: Map<Operation, Slice[]>
}

/** In alternation; each slice begins with another one. Rounds, so that a bad moment of one process is a third of it. */
async function measureInTurns(all: Measured[], operations: Operation[]): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    for (const operation of operations) await measureRound(all, operation, round)
  }
}

async function measureRound(all: Measured[], operation: Operation, round: number): Promise<void> {
  console.error(`measuring ${operation.name}`)
  const isRead = operation.method === 'GET'
  const warmReads = operation.isFrequent ? WARM_GETS : WARM_MORE
  const warm = isRead ? warmReads : WARM_POSTS
  const ids = Math.min(...all.map(({ installation }) => installation.environmentIds.length))
  const most = Math.floor((ids - 1 - warm) / (ROUNDS * SLICES))
  const count = isRead ? GETS : Math.min(GETS, most)
  if (count < 1) throw new Error(`${ids} environments are too few`)
  const paths = new Map<Measured, Operation['path']>()
  for (const one of all) {
    const { subject, installation, figures } = one
    const found = isRead ? await subject.find(operation, installation) : undefined
    const path = found === undefined ? operation.path : () => found
    paths.set(one, path)
    if (round === 0) figures.set(operation, [])
    // each environment is deployed once
    if (!isRead && round > 0) continue
    await subject.measure({ ...operation, path }, installation, 0, warm)
  }
  for (let slice = round * SLICES; slice < (round + 1) * SLICES; slice++) {
    for (let turn = 0; turn < all.length; turn++) {
      const one = all[(slice + turn) % all.length] as Measured
      const path = paths.get(one) ?? operation.path
      const from = warm + slice * count
      const taken = await one.subject.measure({ ...operation, path }, one.installation, from, count)
      one.figures.get(operation)?.push(taken)
    }
  }
}

const median = (values: number[]): number => percentile(values, 50)
const ratio = (a: number[], b: number[]): number =>
  median(a.map((value, i) => value / (b[i] as number)))

const startProduct = ({ dir, databaseUrl }: Installation): Promise<Subject> =>
  Subject.start(['control-plane/src/main.ts'], {
    BERTH_CONFIG_FILE: '',
    BERTH_DATA_DIR: dir,
    BERTH_PORT: '0',
    BERTH_AGENT_PORT: '0',
    BERTH_LOG: 'error',
    BERTH_RATE_LIMIT_FACTOR: '1000',
    NODE_ENV: 'production',
    ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }),
  })

export async function benchApi(size: Size): Promise<void> {
  const stop = size.engine === 'postgres' ? await providePostgres() : undefined
  console.error(`planting ${thousands(size.tasks)} tasks`)
  const large = await plantInstallation(size)
  const small = await plantInstallation({ ...size, tasks: FEW_TASKS })
  const { projects, environments, tasks, engine } = size
  console.log(
    `${engine}: ${thousands(projects)} projects, ${thousands(environments)} environments, ` +
      `${thousands(tasks)} tasks, compared with ${thousands(FEW_TASKS)} tasks`,
  )
  try {
    await compareInstallations(large, small)
  } finally {
    large.close()
    small.close()
    await stop?.()
  }
}

/** A server of its own for this run. */
async function providePostgres(): Promise<() => Promise<void>> {
  const program = locate('postgres')
  if (!program) throw new Error('PostgreSQL is not installed')
  const postgres = await startPostgres(program)
  process.env.BERTH_TEST_POSTGRES = postgres.folder
  await makeTemplates()
  return () => postgres.stop()
}

async function compareInstallations(large: Installation, small: Installation): Promise<void> {
  const started: Subject[] = []
  const of = async (starting: Promise<Subject>, installation: Installation): Promise<Measured> => {
    const subject = await starting
    started.push(subject)
    return { subject, installation, figures: new Map() }
  }
  try {
    const product = await of(startProduct(large), large)
    const before = await of(startProduct(small), small)
    await putOffLooks(large)
    await putOffLooks(small)
    await pause(SETTLE_MS)
    await Promise.all(started.map((subject) => subject.measureIdle()))
    await measureInTurns([product, before], OPERATIONS)
    report(large.engine, product, before)
    if (large.engine === 'sqlite') await compareWithFloor(product, of)
  } finally {
    for (const subject of started) await subject.stop()
  }
}

/** On a copy of the database, because both write. */
async function compareWithFloor(
  product: Measured,
  of: (starting: Promise<Subject>, installation: Installation) => Promise<Measured>,
): Promise<void> {
  const { installation } = product
  const file = join(installation.dir, 'floor.db')
  copyFileSync(join(installation.dir, 'berth.db'), file)
  try {
    const floor = await of(Subject.start(['test/bench/api-floor.ts', file], {}), installation)
    await floor.subject.measureIdle()
    const reads = OPERATIONS.filter(({ isFrequent, method }) => isFrequent && method === 'GET')
    await measureInTurns([floor, product], reads)
    for (const operation of reads) {
      const [cpu, least] = [cpuOf(product, operation), cpuOf(floor, operation)]
      const unit = '× node:http with prepared statements'
      console.log(`${operation.name}: ${round(median(cpu), 0)} µs, ${round(median(least), 0)} µs`)
      goalAtMost(operation.name, ratio(cpu, least), 2, unit)
    }
  } finally {
    rmSync(file, { force: true })
  }
}

const slicesOf = ({ figures }: Measured, operation: Operation): Slice[] => {
  const slices = figures.get(operation)
  if (!slices?.length) throw new Error(`${operation.name} was not measured`)
  return slices
}
const cpuOf = (one: Measured, operation: Operation): number[] =>
  slicesOf(one, operation).map(({ cpu }) => cpu)

function report(engine: Engine, product: Measured, before: Measured): void {
  for (const operation of OPERATIONS) {
    const [many, few] = [slicesOf(product, operation), slicesOf(before, operation)]
    const p50 = ratio(
      many.map(({ times }) => median(times)),
      few.map(({ times }) => median(times)),
    )
    const [all, little] = [many, few].map((slices) => slices.flatMap(({ times }) => times))
    const at = (p: number): string =>
      `p${p} ${round(percentile(all ?? [], p), 1)} ms (${round(percentile(little ?? [], p), 1)} ms)`
    const p99 = percentile(all ?? [], 99) / percentile(little ?? [], 99)
    console.log(`${operation.name}: ${at(50)}, ${at(99)}, p99 ${round(p99)} ×`)
    goalAtMost(`${operation.name}, latency`, p50, 1.1, `× itself with ${FEW_TASKS} tasks (p50)`)
    if (engine === 'postgres') continue // its own processes do the work
    const cpu = ratio(cpuOf(product, operation), cpuOf(before, operation))
    goalAtMost(`${operation.name}, CPU`, cpu, 1.1, `× itself with ${FEW_TASKS} tasks`)
  }
  console.log(
    `without requests: ${round(product.subject.idle, 1)} ms of CPU a second; ` +
      `with ${FEW_TASKS} tasks ${round(before.subject.idle, 1)}`,
  )
}
