// One chaos run on the docker recipe: one deployment at a time with one fault at a chosen step, under constant load of
// the strict client. After each fault the task has a verdict, the version that it names serves, the engine, the edge's
// table and the proxy's answers agree, and nothing else is left. No request fails when daemon, runner, edge or (with
// live-restore, as set here) the engine is killed; a killed Caddy only has to come back.
import type { Task } from '@berth/shared/api'
import { type ClientReport, countOf, LoadClient } from '../bench/load-client.ts'
import { nodeApp } from '../fixtures/docker/app.ts'
import {
  type DockerFixture,
  deployed,
  dockerEnvironment,
  openDockerFixture,
} from '../fixtures/docker/docker-fixture.ts'
import { until } from '../fixtures/server/installation.ts'
import { knownAttempts, nextAttempt, reached } from './attempt-watch.ts'
import { FAULTS, type Fault, MOMENTS, type Strike, strike } from './docker-faults.ts'
import { settled } from './docker-state.ts'

const STEP_MS = 60_000
const TASK_MS = 180_000
const SETTLE_MS = 30_000
const EDGE_AWAY_MS = 4_000
/** Background load: enough to hit every gap, and little enough to leave the cores to the rest. */
const WORKERS = { 'keep-alive': 4, fresh: 2, post: 2 } as const
const PAUSE_MS = 15

/** The results a task may have; a fault that only delays must not fail it. */
const MAY_FAIL: Record<Fault, string[]> = {
  agent: [],
  runner: ['runner_died'],
  'engine-term': ['docker_unavailable', 'build_failed', 'release_failed', 'health_check_failed'],
  'engine-kill': ['docker_unavailable', 'build_failed', 'release_failed', 'health_check_failed'],
  edge: [],
  caddy: [],
}

export interface DockerChaosPlan {
  strikes: Strike[]
  say: (line: string) => void
}

export interface DockerVerdict {
  strikes: number
  requests: number
  /** Failures without an explanation below. */
  failed: number
  /**
   * Lost with Caddy itself, whose end cuts its connections; while a starved machine started the edge later than the
   * five seconds that requests wait; or a POST that waited, which Caddy may answer with 502 instead of resending it.
   */
  cut: number
  violations: string[]
}

const files = (version: string): Record<string, string> => {
  const app = nodeApp(version, { bootMs: 300, more: ['release: sleep 0.5'] })
  return { ...app, Dockerfile: `${app.Dockerfile}RUN sleep 0.5\n` }
}

const postsOf = (report: ClientReport): number => report.kinds.post?.failed ?? 0

export class DockerChaos {
  readonly #made: DockerFixture
  readonly #say: (line: string) => void
  readonly #environment: { id: number; domain: string }
  readonly #client: LoadClient
  readonly verdict: DockerVerdict = { strikes: 0, requests: 0, failed: 0, cut: 0, violations: [] }
  #running = 'v0'
  #next = 1

  private constructor(
    made: DockerFixture,
    environment: { id: number; domain: string },
    say: (line: string) => void,
  ) {
    this.#made = made
    this.#say = say
    this.#environment = environment
    const { domain: host } = environment
    const port = made.fixture.proxyPort
    const proxy = { address: '127.0.0.1', port, host }
    this.#client = new LoadClient({ ...proxy, workers: WORKERS, pauseMs: PAUSE_MS })
  }

  static async open(made: DockerFixture, say: (line: string) => void): Promise<DockerChaos> {
    const environment = await dockerEnvironment(made.fixture, 'chaos', files('v0'))
    await deployed(made.fixture, environment.id)
    return new DockerChaos(made, environment, say)
  }

  #violated(what: string): void {
    this.verdict.violations.push(what)
    this.#say(`VIOLATED: ${what}`)
  }

  /** One deployment with one fault in it. */
  async round({ fault, moment }: Strike): Promise<void> {
    const { fixture } = this.#made
    const title = `${FAULTS[fault]} in ${moment}`
    const before = await this.#client.report()
    const version = `v${this.#next++}`
    fixture.repository('chaos', files(version))
    const known = knownAttempts(fixture)
    const { id } = await fixture.deploy(this.#environment.id)
    const attempt = await nextAttempt(fixture, known)
    if (!(await reached(attempt, MOMENTS[moment], STEP_MS))) {
      this.#violated(`${title}: the deployment ended before it`)
    }
    const awayMs = await strike(this.#made, attempt, fault)
    const task = await this.#ended(id)
    const now = await this.#judge(title, fault, task, version)
    // requests wait this long for an edge, by design; a starved machine may start it later
    const isExplained = fault === 'caddy' || (fault === 'edge' && awayMs > EDGE_AWAY_MS)
    const lost = await this.#lost(title, isExplained, fault === 'edge', before)
    this.verdict.strikes += 1
    const failure = task?.failure ? ` (${task.failure.code})` : ''
    const away = fault === 'runner' ? '' : `, away for ${Math.round(awayMs)} ms`
    this.#say(
      `${title}${away}: ${task?.status ?? 'no verdict'}${failure}, ${now} serves, ${lost} failed`,
    )
  }

  #ended(id: number): Promise<Task | undefined> {
    const { fixture } = this.#made
    return until(
      `the end of task ${id}`,
      async () => {
        const task = await fixture.get<Task>(`/api/tasks/${id}`)
        return task.finished_at === null ? undefined : task
      },
      TASK_MS,
    ).catch(() => undefined)
  }

  async #judge(
    title: string,
    fault: Fault,
    task: Task | undefined,
    version: string,
  ): Promise<string> {
    const code = task?.failure?.code ?? ''
    if (!task) this.#violated(`${title}: the task has no verdict after ${TASK_MS / 1_000} s`)
    else if (task.status !== 'succeeded' && !MAY_FAIL[fault].includes(code)) {
      this.#violated(
        `${title}: task ${task.id} is ${task.status}: ${code} ${task.failure?.message}`,
      )
    }
    // a runner that dies after the switch leaves one complete version, old or new
    const either = fault === 'runner' && task?.status !== 'succeeded'
    const versions = task?.status === 'succeeded' ? [version] : [this.#running]
    if (either) versions.push(version)
    const { id: environmentId, domain: host } = this.#environment
    const installation = await settled(this.#made, { environmentId, host, versions }, SETTLE_MS)
    for (const wrong of installation.wrong) this.#violated(`${title}: ${wrong}`)
    if (installation.version !== '') this.#running = installation.version
    return installation.version
  }

  async #lost(
    title: string,
    isExplained: boolean,
    isEdge: boolean,
    before: ClientReport,
  ): Promise<number> {
    const after = await this.#client.report()
    const reported = isEdge ? postsOf(after) - postsOf(before) : 0
    this.verdict.cut += reported
    const lost = countOf(after).failed - countOf(before).failed - reported
    if (isExplained) this.verdict.cut += lost
    else this.verdict.failed += lost
    if (!isExplained && lost > 0) {
      const known = before.failures.length
      const why = after.failures
        .slice(known, known + 3)
        .map((f) => `${new Date(f.at).toISOString().slice(11, 23)} ${f.kind}: ${f.why}`)
      this.#violated(`${title}: ${lost} requests failed (${why.join('; ')})`)
    }
    return lost
  }

  /** Removes everything; nothing may stay on the engine. */
  async finish(): Promise<void> {
    const report = await this.#client.stop()
    const { ok, failed } = countOf(report)
    this.verdict.requests = ok + failed
    const strange = Object.keys(report.versions).filter((version) => !/^v\d+$/.test(version))
    if (strange.length > 0) this.#violated(`answers of unknown versions: ${strange}`)
    const { fixture } = this.#made
    const answer = await fixture.call('DELETE', `/api/environments/${this.#environment.id}`)
    if (answer.status >= 300) this.#violated(`the removal was refused: ${await answer.text()}`)
    const left = await until('the end of the environment', async () => {
      const owned = await fixture.owned()
      const all = Object.values(owned).reduce((sum, list) => sum + list.length, 0)
      return all === 0 || undefined
    }).catch(async () => JSON.stringify(await fixture.owned()))
    if (left !== true) this.#violated(`left after the removal: ${left}`)
  }

  kill(): void {
    this.#client.kill()
  }
}

export async function runDockerChaos(plan: DockerChaosPlan): Promise<DockerVerdict> {
  const made = await openDockerFixture({ withNode: true, liveRestore: true })
  let chaos: DockerChaos | undefined
  try {
    chaos = await DockerChaos.open(made, plan.say)
    for (const one of plan.strikes) await chaos.round(one)
    await chaos.finish()
    if (chaos.verdict.violations.length > 0) plan.say(made.fixture.logOf('agent'))
    return chaos.verdict
  } finally {
    chaos?.kill()
    await made.close()
  }
}
