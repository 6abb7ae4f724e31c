// CPU of the control plane per request of the four operations that people and clients repeat most: as ratio to plain
// node:http with prepared statements on the same database, and to itself with a thousandth of the history. CPU time of
// the server's process is measured, not the clock: other work on the machine does not count.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Installation, plantInstallation } from './api-seed.ts'
import { round, thousands } from './figures.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const WIDTH = 8 // requests under way at once
const TICK_MS = 10 // of /proc: CLK_TCK is 100 on every Linux we run on

interface Operation {
  name: string
  method: 'GET' | 'POST'
  path(installation: Installation, i: number): string
  rounds: number
}

const OPERATIONS: Operation[] = [
  { name: 'GET /api/projects', method: 'GET', path: () => '/api/projects', rounds: 4_000 },
  {
    name: 'GET …/environments',
    method: 'GET',
    path: ({ projectId }) => `/api/projects/${projectId}/environments`,
    rounds: 4_000,
  },
  {
    name: 'GET …/tasks',
    method: 'GET',
    path: ({ environmentId }) => `/api/environments/${environmentId}/tasks`,
    rounds: 4_000,
  },
  {
    name: 'POST …/tasks',
    method: 'POST',
    path: ({ environmentIds }, i) => `/api/environments/${environmentIds[i]}/tasks`,
    rounds: 900,
  },
]

/** CPU time a process used so far. */
function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS
}

class Subject {
  readonly #child: ChildProcess
  readonly #agent = new Agent({ keepAlive: true, maxSockets: WIDTH })
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

  /** CPU microseconds of the server per request. */
  async measure(operation: Operation, installation: Installation, from: number): Promise<number> {
    const pid = this.#child.pid as number
    const { tokens } = installation
    let next = 0
    const before = cpuMs(pid)
    await Promise.all(
      Array.from({ length: WIDTH }, async () => {
        for (let i = next++; i < operation.rounds; i = next++) {
          const path = operation.path(installation, from + i)
          const status = await this.ask(operation.method, path, tokens[i % tokens.length] as string)
          if (status >= 300) throw new Error(`${operation.method} ${path}: ${status}`)
        }
      }),
    )
    return ((cpuMs(pid) - before) * 1_000) / operation.rounds
  }

  async stop(): Promise<void> {
    this.#agent.destroy()
    this.#child.kill('SIGTERM')
    await once(this.#child, 'exit')
  }
}

const WARM = 500
const ROUNDS = 4 // of each operation, in turns; the least counts, for others share the caches and the cores

interface Measured {
  subject: Subject
  installation: Installation
  figures: number[]
}

/** All in turns, so that a busy moment of the machine meets everybody. */
async function measureInTurns(all: Measured[]): Promise<void> {
  for (const operation of OPERATIONS) {
    const isRead = operation.method === 'GET'
    const rounds = isRead ? operation.rounds : Math.floor(operation.rounds / ROUNDS)
    const least = all.map(() => Number.POSITIVE_INFINITY)
    for (const { subject, installation } of all) {
      await subject.measure({ ...operation, rounds: isRead ? WARM : 100 }, installation, 1)
    }
    for (let round = 0; round < ROUNDS; round++) {
      for (const [i, { subject, installation }] of all.entries()) {
        const from = 101 + round * rounds
        const cpu = await subject.measure({ ...operation, rounds }, installation, from)
        least[i] = Math.min(least[i] as number, cpu)
      }
    }
    for (const [i, measured] of all.entries()) measured.figures.push(least[i] as number)
  }
}

const startProduct = ({ dir }: Installation): Promise<Subject> =>
  Subject.start(['control-plane/src/main.ts'], {
    BERTH_DATA_DIR: dir,
    BERTH_PORT: '0',
    BERTH_AGENT_PORT: '0',
    BERTH_LOG: 'error',
    BERTH_RATE_LIMIT_FACTOR: '1000',
    NODE_ENV: 'production',
  })

export async function benchApi(projects: number, tasks: number): Promise<void> {
  const large = await plantInstallation(projects, tasks)
  const small = await plantInstallation(projects, Math.round(tasks / 1_000))
  const floorFile = join(large.dir, 'floor.db')
  copyFileSync(join(large.dir, 'berth.db'), floorFile)
  const of = (subject: Subject, installation: Installation): Measured => ({
    subject,
    installation,
    figures: [],
  })
  const floor = of(await Subject.start(['test/bench/api-floor.ts', floorFile], {}), large)
  const product = of(await startProduct(large), large)
  const before = of(await startProduct(small), small)
  try {
    await measureInTurns([floor, product, before])
  } finally {
    for (const { subject } of [floor, product, before]) await subject.stop()
    await large.close()
    await small.close()
  }
  console.log(`${thousands(projects)} projects, ${thousands(tasks)} tasks; CPU per request:`)
  OPERATIONS.forEach(({ name, method }, i) => {
    const cpu = product.figures[i] as number
    const least = floor.figures[i] as number
    const goal = method === 'GET' ? ' (goal at most 2.0)' : ''
    console.log(
      `${name}: ${round(cpu, 0)} µs, ${round(cpu / least)} × node:http with prepared statements ` +
        `(${round(least, 0)} µs)${goal}; ${round(cpu / (before.figures[i] as number))} × itself with ` +
        `${thousands(tasks / 1_000)} tasks (goal at most 1.1)`,
    )
  })
}
