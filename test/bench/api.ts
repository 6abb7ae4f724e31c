// CPU of the control plane per request of the four most frequent operations: as a ratio to plain node:http with
// prepared statements on the same database, and to itself with a thousandth of the history. It measures CPU time of the
// server's process in many short alternating slices and takes the median of their ratios, so a busy moment affects all
// or drops out. Background work (deadlines) is a separate figure; repository checks come in waves and are postponed.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, readdirSync, readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { type Installation, plantInstallation } from './api-seed.ts'
import { percentile, round, thousands } from './figures.ts'
import { goalAtMost } from './goals.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const WIDTH = 8 // concurrent requests
const SLICES = 30
const GETS = 150 // requests per slice
const WARM_GETS = 4_000 // until little is left to compile: a control plane runs for months
const WARM_POSTS = 100
const SETTLE_MS = 10_000
const PUT_OFF_MS = 86_400_000
const IDLE_MS = 20_000

interface Operation {
  name: string
  method: 'GET' | 'POST'
  path(installation: Installation, i: number): string
}

const OPERATIONS: Operation[] = [
  { name: 'GET /api/projects', method: 'GET', path: () => '/api/projects' },
  {
    name: 'GET …/environments',
    method: 'GET',
    path: ({ projectId }) => `/api/projects/${projectId}/environments`,
  },
  {
    name: 'GET …/tasks',
    method: 'GET',
    path: ({ environmentId }) => `/api/environments/${environmentId}/tasks`,
  },
  {
    name: 'POST …/tasks',
    method: 'POST',
    path: ({ environmentIds }, i) => `/api/environments/${environmentIds[1 + i]}/tasks`,
  },
]

/** CPU microseconds of all threads of a process, from the scheduler's nanoseconds. */
function cpuMicroseconds(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`)
  const times = threads.map((id) => readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8'))
  return times.reduce((sum, text) => sum + Number(text.split(' ')[0]), 0) / 1_000
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

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

  ask(method: string, path: string, token: string): Promise<number> {
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}` }
      const options = { method, agent: this.#agent, headers }
      request(this.#url + path, options, (answer) => {
        answer.resume().on('end', () => resolve(answer.statusCode ?? 0))
      })
        .on('error', reject)
        .end()
    })
  }

  /** CPU microseconds of the server per request, without its idle use. */
  async measure(
    { method, path }: Operation,
    installation: Installation,
    from: number,
    count: number,
  ): Promise<number> {
    const { tokens } = installation
    let next = from
    // the server may have closed idle connections while the others were measured
    this.#agent.destroy()
    this.#agent = new Agent({ keepAlive: true, maxSockets: WIDTH })
    const used = this.#watch()
    await Promise.all(
      Array.from({ length: WIDTH }, async () => {
        for (let i = next++; i < from + count; i = next++) {
          const where = path(installation, i)
          const status = await this.ask(method, where, tokens[i % tokens.length] as string)
          if (status >= 300) throw new Error(`${method} ${where}: ${status}`)
        }
      }),
    )
    const { cpu, ms } = used()
    return (cpu - this.idle * ms) / count
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
function putOffLooks({ dir }: Installation): void {
  const db = new Database(join(dir, 'berth.db'))
  db.prepare('update projects set reconcile_at = ?').run(Date.now() + PUT_OFF_MS)
  db.close()
}

interface Measured {
  subject: Subject
  installation: Installation
  /** By operation, then by slice. */
  figures: number[][]
}

/** Measures all in alternation; each slice begins with another one. */
async function measureInTurns(all: Measured[]): Promise<void> {
  for (const operation of OPERATIONS) {
    console.error(`measuring ${operation.name}`)
    const isRead = operation.method === 'GET'
    const warm = isRead ? WARM_GETS : WARM_POSTS
    const paths = Math.min(...all.map(({ installation }) => installation.environmentIds.length))
    const count = isRead ? GETS : Math.floor((paths - 1 - warm) / SLICES)
    if (count < 1) throw new Error(`${paths} environments are too few: use more --projects`)
    for (const { subject, installation, figures } of all) {
      await subject.measure(operation, installation, 0, warm)
      figures.push([])
    }
    for (let slice = 0; slice < SLICES; slice++) {
      for (let turn = 0; turn < all.length; turn++) {
        const { subject, installation, figures } = all[(slice + turn) % all.length] as Measured
        const from = warm + slice * count
        figures.at(-1)?.push(await subject.measure(operation, installation, from, count))
      }
    }
  }
}

const median = (values: number[]): number => percentile(values, 50)
const ratio = (a: number[], b: number[]): number =>
  median(a.map((value, i) => value / (b[i] as number)))

const startProduct = ({ dir }: Installation): Promise<Subject> =>
  Subject.start(['control-plane/src/main.ts'], {
    BERTH_CONFIG_FILE: '',
    BERTH_DATA_DIR: dir,
    BERTH_PORT: '0',
    BERTH_AGENT_PORT: '0',
    BERTH_LOG: 'error',
    BERTH_RATE_LIMIT_FACTOR: '1000',
    NODE_ENV: 'production',
  })

export async function benchApi(projects: number, tasks: number): Promise<void> {
  console.error(`planting ${thousands(tasks)} tasks`)
  const large = await plantInstallation(projects, tasks)
  const small = await plantInstallation(projects, Math.round(tasks / 1_000))
  console.log(`${thousands(projects)} projects, ${thousands(tasks)} tasks; CPU per request:`)
  try {
    await compareInstallations(large, small, thousands(tasks / 1_000))
  } finally {
    await large.close()
    await small.close()
  }
}

async function compareInstallations(
  large: Installation,
  small: Installation,
  fewTasks: string,
): Promise<void> {
  const floorFile = join(large.dir, 'floor.db')
  copyFileSync(join(large.dir, 'berth.db'), floorFile)
  const started: Subject[] = []
  const of = async (starting: Promise<Subject>, installation: Installation): Promise<Measured> => {
    const subject = await starting
    started.push(subject)
    return { subject, installation, figures: [] }
  }
  try {
    const floor = await of(Subject.start(['test/bench/api-floor.ts', floorFile], {}), large)
    const product = await of(startProduct(large), large)
    const before = await of(startProduct(small), small)
    putOffLooks(large)
    putOffLooks(small)
    await pause(SETTLE_MS)
    await Promise.all(started.map((subject) => subject.measureIdle()))
    await measureInTurns([floor, product, before])
    report(floor, product, before, fewTasks)
  } finally {
    for (const subject of started) await subject.stop()
  }
}

function report(floor: Measured, product: Measured, before: Measured, fewTasks: string): void {
  OPERATIONS.forEach(({ name, method }, i) => {
    const [least, cpu, little] = [floor, product, before].map(({ figures }) => figures[i] ?? [])
    if (!least || !cpu || !little) throw new Error(`${name} was not measured`)
    console.log(
      `${name}: ${round(median(cpu), 0)} µs, ${round(ratio(cpu, least))} × node:http with prepared ` +
        `statements (${round(median(least), 0)} µs); ${round(ratio(cpu, little))} × itself with ` +
        `${fewTasks} tasks`,
    )
    if (method === 'GET')
      goalAtMost(name, ratio(cpu, least), 2, '× node:http with prepared statements')
    goalAtMost(`${name}, history`, ratio(cpu, little), 1.1, `× itself with ${fewTasks} tasks`)
  })
  const { subject } = product
  console.log(
    `without requests: ${round(subject.idle, 1)} ms of CPU a second; ` +
      `with ${fewTasks} tasks ${round(before.subject.idle, 1)}`,
  )
}
