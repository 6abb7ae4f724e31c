// npm run bench -- deploy [--rounds 5]
//
// The same application, engine and repository, deployed alternately by Berth and by floor.sh, the shortest script that
// does the same by hand. Cases: no cache, a changed file, no change. Berth's time runs from `POST …/tasks` to the first
// answer of the new version through its proxy, and to `live_at` (proven to run); the script's from its first command to
// the container's first answer. Proxies are idle; under traffic the new version shows up to one PROXY.refreshMs later.
import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { watch } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Task } from '@berth/shared/api'
import { AGENT_ENV, AGENT_FLAGS } from '../../scripts/agent-flags.ts'
import { callEngine } from '../../scripts/docker-engine.ts'
import { APP_PORT, smallApp } from '../fixtures/docker/app.ts'
import {
  type DockerFixture,
  dockerEnvironment,
  openDockerFixture,
} from '../fixtures/docker/docker-fixture.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'
import { packaged } from './agent.ts'
import { percentile, round } from './figures.ts'
import { FixedProxy } from './fixed-proxy.ts'
import { goalAtMost } from './goals.ts'

const run = promisify(execFile)
const ROUND_MS = 120_000
/** `most`: of the script's time, although its switch loses requests and it proves nothing. */
const CASES = {
  cold: { title: 'no cache', most: 1.15 },
  changed: { title: 'a file changed', most: 1.15 },
  same: { title: 'nothing changed', most: 1 },
} as const
type Case = keyof typeof CASES
/** The proof of running lasts 3 s. */
const GOAL_LIVE_MS = 3_500
const PAUSE_MS = 1_500

interface Measured {
  answered: number
  live: number
  drain: number
  steps: Map<string, number>
}

interface Floor {
  clone: number
  build: number
  run: number
  wait: number
  switch: number
  remove: number
}

/** Some installed Docker clients lack the builder that the engine has. */
function findClient(socket: string): string {
  const names = ['/usr/bin/docker', '/usr/local/bin/docker', 'docker']
  const env = { ...process.env, DOCKER_HOST: `unix://${socket}`, DOCKER_BUILDKIT: '1' }
  for (const name of names) {
    try {
      const input = 'FROM scratch\nLABEL floor=1\n'
      execFileSync(name, ['build', '--quiet', '-'], {
        env,
        input,
        stdio: ['pipe', 'ignore', 'ignore'],
      })
      return name
    } catch {
      // try the next one
    }
  }
  throw new Error(`none of these can build with BuildKit: ${names.join(', ')}`)
}

class Bench {
  readonly #made: DockerFixture
  readonly #folder = mkdtempSync(join(tmpdir(), 'berth-floor-'))
  readonly #client: string
  readonly #proxy: FixedProxy
  readonly #url: string
  readonly #environmentId: number
  readonly #host: string
  #version = 0

  private constructor(
    made: DockerFixture,
    proxy: FixedProxy,
    url: string,
    environment: { id: number; domain: string },
  ) {
    this.#made = made
    this.#proxy = proxy
    this.#url = url
    this.#client = findClient(made.engine.socket)
    this.#environmentId = environment.id
    this.#host = environment.domain
  }

  static async open(made: DockerFixture): Promise<Bench> {
    const environment = await dockerEnvironment(made.fixture, 'speed', smallApp('0'))
    const proxy = new FixedProxy(await freePort())
    await proxy.start('127.0.0.1:1')
    const bench = new Bench(made, proxy, made.fixture.repository('speed', {}), environment)
    await bench.#berth('changed')
    await bench.#script('changed')
    return bench
  }

  close(): void {
    this.#proxy.stop()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async round(what: Case): Promise<{ berth: Measured; script: Floor }> {
    if (what !== 'same') this.#made.fixture.repository('speed', smallApp(String(++this.#version)))
    const berth = await this.#berth(what)
    // the script builds the same commit on the same engine and must not reuse Berth's build
    if (what !== 'same') this.#made.fixture.repository('speed', smallApp(String(++this.#version)))
    const script = await this.#script(what)
    return { berth, script }
  }

  async #prune(what: Case): Promise<void> {
    if (what !== 'cold') return
    await callEngine(this.#made.engine.socket, 'POST', '/build/prune?all=true')
  }

  async #berth(what: Case): Promise<Measured> {
    await this.#prune(what)
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS)) // like a user
    const { fixture } = this.#made
    const before = await this.#instance()
    const moved = this.#routesMoved()
    const began = Date.now()
    const body = what === 'cold' ? { no_cache: true } : undefined
    const { id } = await fixture.deploy(this.#environmentId, body)
    await moved
    const answered = await this.#changed(before, began)
    const task = await fixture.finished(id, ROUND_MS)
    if (task.status !== 'succeeded') throw new Error(`task ${id}: ${task.failure?.message}`)
    const steps = stepsOf(task)
    return {
      answered,
      live: Date.parse(task.live_at ?? '') - began,
      drain: steps.get('drain') ?? 0,
      steps,
    }
  }

  /** The name of the proxy's current upstream; empty if nothing answers. */
  #instance(): Promise<string> {
    return new Promise((resolve) => {
      const options = { host: '127.0.0.1', port: this.#made.fixture.proxyPort, path: '/instance' }
      const headers = { host: this.#host }
      const call = request({ ...options, headers, agent: false, timeout: 5_000 }, (answer) => {
        let text = ''
        answer.setEncoding('utf8').on('data', (piece: string) => {
          text += piece
        })
        answer.on('close', () => resolve(answer.statusCode === 200 ? text : ''))
      })
      call.on('timeout', () => call.destroy())
      call.on('error', () => resolve(''))
      call.end()
    })
  }

  /**
   * Waits until the edge has a new table for the environment. Constant polling would use processor time that the
   * script's side does not spend, so the first request is sent when the new version can answer.
   */
  async #routesMoved(): Promise<void> {
    const folder = join(this.#made.fixture.stateDir, 'edge')
    const read = (): string => {
      const table = JSON.parse(readFileSync(join(folder, 'table.json'), 'utf8'))
      return JSON.stringify(table.environments[this.#environmentId]?.routes)
    }
    const before = read()
    for await (const { filename } of watch(folder, { signal: AbortSignal.timeout(ROUND_MS) })) {
      if (filename === 'table.json' && read() !== before) return
    }
  }

  /** Milliseconds until another instance answers. */
  async #changed(before: string, began: number): Promise<number> {
    for (const end = began + ROUND_MS; Date.now() < end; ) {
      const now = await this.#instance()
      if (now !== '' && now !== before) return Date.now() - began
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    throw new Error('the new version never answered')
  }

  async #script(what: Case): Promise<Floor> {
    await this.#prune(what)
    const args = [this.#client, this.#url, this.#folder, String(APP_PORT), this.#proxy.admin]
    const script = join(import.meta.dirname, 'floor.sh')
    const { stdout } = await run(
      'sh',
      [script, ...args, ...(what === 'cold' ? ['--no-cache'] : [])],
      {
        env: {
          ...process.env,
          DOCKER_HOST: `unix://${this.#made.engine.socket}`,
          DOCKER_BUILDKIT: '1',
        },
        timeout: ROUND_MS,
      },
    )
    const [clone = 0, build = 0, start = 0, wait = 0, change = 0, remove = 0] = stdout
      .trim()
      .split(' ')
      .map(Number)
    return { clone, build, run: start, wait, switch: change, remove }
  }
}

const stepsOf = (task: Task): Map<string, number> =>
  new Map(
    (task.phases ?? []).flatMap(({ steps }) =>
      steps.map(({ name, duration_ms }) => [name, duration_ms ?? 0] as const),
    ),
  )

const median = (values: number[]): number => percentile(values, 50)
const ms = (n: number): string => `${round(n, 0)} ms`

/** Everything except the removal of the old container, which Berth also does after its answer. */
const total = (f: Floor): number => f.clone + f.build + f.run + f.wait + f.switch

function judge(what: Case, berth: Measured[], script: Floor[]): void {
  const { title, most } = CASES[what]
  const of = (part: keyof Floor) => median(script.map((one) => one[part]))
  const floor = median(script.map(total))
  const answered = median(berth.map((one) => one.answered))
  const live = median(berth.map((one) => one.live))
  // ratios of neighbouring rounds, because a shared machine changes from minute to minute
  const ratio = median(berth.map((one, n) => one.answered / total(script[n] as Floor)))
  const parts = (['clone', 'build', 'run', 'wait', 'switch', 'remove'] as const)
    .map((part) => `${part} ${round(of(part), 0)}`)
    .join(', ')
  console.log(`${title}: script ${ms(floor)} (${parts})`)
  console.log(
    `  Berth: answers after ${ms(answered)}, proven to run after ${ms(live)}, ` +
      `drain ${ms(median(berth.map((one) => one.drain)))}`,
  )
  const names = [...(berth[0]?.steps.keys() ?? [])]
  const steps = names.map(
    (name) => `${name} ${round(median(berth.map((one) => one.steps.get(name) ?? 0)), 0)}`,
  )
  console.log(`  steps, ms: ${steps.join(', ')}`)
  goalAtMost(`${title}, first answer`, ratio, most, '× the script')
  goalAtMost(`${title}, proven to run`, live / (floor * most + GOAL_LIVE_MS), 1, 'of its time')
}

export async function benchDeploy(rounds: number): Promise<void> {
  const packages = mkdtempSync(join(tmpdir(), 'berth-bench-agent-'))
  // the packaged agent, as on servers: from sources, every runner would compile them
  const agent = packaged(packages)
  const made = await openDockerFixture({
    fixture: { agent, agentFlags: [...AGENT_FLAGS], agentEnv: AGENT_ENV },
  })
  let bench: Bench | undefined
  try {
    bench = await Bench.open(made)
    for (const what of Object.keys(CASES) as Case[]) {
      const berth: Measured[] = []
      const script: Floor[] = []
      await bench.round(what) // the first round of a kind starts from another state than the next ones
      for (let n = 0; n < rounds; n++) {
        const one = await bench.round(what)
        berth.push(one.berth)
        script.push(one.script)
      }
      judge(what, berth, script)
    }
  } finally {
    bench?.close()
    await made.close()
    rmSync(packages, { recursive: true, force: true })
  }
}
