// npm run chaos -- upgrade: five servers and their control plane go from one release to the next while 30 deployments run
// and visitors look at every service. Then releases that crash are tried; everything must be back on the old version.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { AgentRollout, AgentUpdates, Environment, Server, Task } from '@berth/shared/api'
import { until } from '../fixtures/server/installation.ts'
import {
  type BuiltRelease,
  buildRelease,
  CRASHING_AGENT,
  CRASHING_SERVER,
} from '../fixtures/server/releases.ts'
import { Upgradable } from '../fixtures/server/upgradable.ts'

export interface UpgradePlan {
  servers: number
  deployments: number
  say: (line: string) => void
}

export interface UpgradeResult {
  deployments: number
  failed: string[]
  /** Lines that a deployment wrote and its log lacks. */
  lostLines: number
  lines: number
  asked: number
  unanswered: string[]
  upgraded: number
  /** From the stop of the good version, or the offer of a bad one, until everything was back; undefined: it never was. */
  serverBackMs: number | undefined
  agentBackMs: number | undefined
}

const LINES = 60
const PAGE = `import { createServer } from 'node:http'
const server = createServer((request, response) => response.end('ok'))
server.listen(process.env.PORT)
process.on('SIGTERM', () => { server.close(() => process.exit(0)); server.closeIdleConnections() })
`
/** Lines come at intervals, so that a restart of daemon or control plane falls between them. */
const FILE = (node: string): string => `manual:
  deploy:
    - name: Write lines
      run: for n in $(seq 1 ${LINES}); do echo "line $n of ${LINES}"; sleep 0.1; done
  services:
    web:
      run: exec ${node} server.mjs
      port: auto
      health: /
      stop_timeout: 5s
`
const BOUND_MS = 60_000

export const isGood = (r: UpgradeResult, { deployments, servers }: UpgradePlan): boolean =>
  r.deployments >= deployments &&
  r.upgraded === servers &&
  r.failed.length + r.lostLines + r.unanswered.length === 0 &&
  r.asked > 0 &&
  [r.serverBackMs, r.agentBackMs].every((ms) => ms !== undefined && ms < BOUND_MS)

export async function runUpgrade(plan: UpgradePlan): Promise<UpgradeResult> {
  const { say } = plan
  say('Building four releases (kept in dist/.test-releases) …')
  const old = buildRelease({ from: 'tree', version: '1.90.0', counter: 1_000 })
  const next = buildRelease({ from: 'tree', version: '1.90.1', counter: 2_000 })
  const badServer = buildRelease({
    from: 'tree',
    version: '1.90.3',
    counter: 3_000,
    changes: CRASHING_SERVER,
  })
  const badAgent = buildRelease({
    from: 'tree',
    version: '1.90.2',
    counter: 3_000,
    changes: [CRASHING_AGENT],
  })
  const platform = await Upgradable.open(old)
  const run = new UpgradeRun(platform, plan)
  try {
    await run.setUp(old)
    say(`${plan.servers} servers serve version ${old.version}.`)
    run.begin()
    await run.upgradeServer(next)
    say(`The control plane runs ${next.version}.`)
    await run.upgradeAgents(next)
    say(`${run.result.upgraded} agents run ${next.version}.`)
    await run.finish()
    say(`${run.result.deployments} deployments have ended.`)
    await run.tryServer(badServer, next)
    say(`The control plane is back after ${seconds(run.result.serverBackMs)}.`)
    await run.tryAgents(badAgent, next)
    say(`The agents are back after ${seconds(run.result.agentBackMs)}.`)
    await run.stopVisits()
    return run.result
  } finally {
    await run.stopVisits()
    await platform.close()
  }
}

const seconds = (ms: number | undefined): string =>
  ms === undefined ? 'NEVER' : `${(ms / 1_000).toFixed(1)} s`

class UpgradeRun {
  readonly result: UpgradeResult = {
    deployments: 0,
    failed: [],
    lostLines: 0,
    lines: 0,
    asked: 0,
    unanswered: [],
    upgraded: 0,
    serverBackMs: undefined,
    agentBackMs: undefined,
  }
  readonly #platform: Upgradable
  readonly #plan: UpgradePlan
  readonly #environments: { environment: Environment; port: number }[] = []
  #visits: Promise<void>[] = []
  #deployments: Promise<void>[] = []
  #begun = 0
  #projectId = 0
  #isVisited = true

  constructor(platform: Upgradable, plan: UpgradePlan) {
    this.#platform = platform
    this.#plan = plan
  }

  async setUp(release: BuiltRelease): Promise<void> {
    const platform = this.#platform
    for (let n = 1; n <= this.#plan.servers; n++) await platform.addAgent(release, `server-${n}`)
    const files = { '.service.yml': FILE(platform.node()), 'server.mjs': PAGE }
    const project = await platform.post<{ id: number }>('/api/projects', {
      name: 'web',
      repo_url: platform.repository('web', files),
      domain: 'web.example.com',
      server_ids: platform.agents.map(({ id }) => id),
      default_recipe: 'manual',
    })
    this.#projectId = project.id
    for (const { id, name, proxyPort } of platform.agents) {
      const environment = await platform.post<Environment>(
        `/api/projects/${project.id}/environments`,
        { identifier: name, branch: 'main', server_id: id, auto_deploy: false },
      )
      this.#environments.push({ environment, port: proxyPort })
    }
    const first = this.#environments.map(({ environment }) => this.#deploy(environment.id))
    for (const end of await Promise.all(first)) this.#judge(end)
    if (this.result.failed.length > 0) throw new Error(this.result.failed.join('\n'))
    Object.assign(this.result, { deployments: 0, lines: 0 })
    this.#visits = this.#environments.map((one) => this.#visit(one.environment.domain, one.port))
  }

  /** Each environment deploys again and again until the wanted number has begun. */
  begin(): void {
    this.#deployments = this.#environments.map(async ({ environment }) => {
      while (this.#begun < this.#plan.deployments) {
        this.#begun += 1
        this.#judge(await this.#deploy(environment.id))
        this.result.deployments += 1
      }
    })
  }

  async finish(): Promise<void> {
    await Promise.all(this.#deployments)
  }

  /** While the control plane restarts, a request is repeated under the same key; it is done once. */
  async #deploy(environmentId: number): Promise<{ task: Task; log: string }> {
    const platform = this.#platform
    const key = `${environmentId}-${this.#begun}-${performance.now()}`
    const path = `/api/environments/${environmentId}/tasks`
    const { id } = await until('the deployment to be accepted', () =>
      platform.post<Task>(path, {}, { 'idempotency-key': key }).catch((error: Error) => {
        if ('status' in error && Number(error.status) < 500) throw error
        return undefined
      }),
    )
    const task = await platform.finished(id)
    const log = await until('the log', async () => {
      const answer = await platform.call('GET', `/api/tasks/${id}/log`)
      return answer.ok ? answer.text() : undefined
    })
    return { task, log }
  }

  #judge({ task, log }: { task: Task; log: string }): void {
    if (task.status !== 'succeeded') {
      this.result.failed.push(`task ${task.id}: ${task.status} ${task.failure?.message ?? ''}`)
    }
    const found = new Set(log.match(/line \d+ of \d+/g))
    this.result.lines += found.size
    this.result.lostLines += LINES - found.size
  }

  /** Each request over a new connection, as browsers that have never been here. */
  async #visit(host: string, port: number): Promise<void> {
    while (this.#isVisited) {
      const why = await ask(host, port)
      this.result.asked += 1
      if (why !== undefined) {
        this.result.unanswered.push(`${new Date().toISOString()} ${host}: ${why}`)
      }
      await delay(50)
    }
  }

  async stopVisits(): Promise<void> {
    this.#isVisited = false
    await Promise.all(this.#visits)
  }

  /** `stopping`: called when the running version is about to be stopped. */
  async #upgrade(
    { folder }: BuiltRelease,
    stopping: () => void = () => {},
  ): Promise<{ code: number; text: string }> {
    const platform = this.#platform
    const program = join(platform.serverOpt, 'current/bin/berth-server')
    const child = spawn(program, ['upgrade', '--from', folder], {
      env: platform.serverEnvironment,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let text = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        if (!text.includes('Stopping') && String(chunk).includes('Stopping')) stopping()
        text += chunk
      })
    }
    const [code] = await once(child, 'close')
    return { code, text }
  }

  async upgradeServer(release: BuiltRelease): Promise<void> {
    await until('a running deployment', async () => {
      const path = `/api/projects/${this.#projectId}/environments`
      const list = await this.#platform.get<Environment[]>(path)
      return list.some((one) => one.locked_by?.status === 'running') || undefined
    })
    const { code, text } = await this.#upgrade(release)
    if (code !== 0) throw new Error(text)
  }

  async #rollOut(): Promise<AgentRollout> {
    const platform = this.#platform
    await this.online()
    const { id } = await platform.post<AgentRollout>('/api/agent_updates', {
      scope: 'organization',
    })
    return until(
      'the end of the rollout',
      async () => {
        const { rollouts } = await platform.get<AgentUpdates>('/api/agent_updates')
        return rollouts.find((one) => one.id === id && one.state !== 'running')
      },
      600_000,
    )
  }

  async upgradeAgents({ version }: BuiltRelease): Promise<void> {
    const rollout = await this.#rollOut()
    if (rollout.state !== 'done') throw new Error(`the rollout: ${rollout.reason}`)
    this.result.upgraded = (await this.#servers()).filter(
      (server) => server.agent_version === version,
    ).length
  }

  #servers = (): Promise<Server[]> => this.#platform.get<Server[]>('/api/servers')

  async online(version?: string): Promise<void> {
    await until('every server to be online', async () => {
      const servers = await this.#servers()
      const isRight = (s: Server): boolean =>
        s.status === 'online' && (version === undefined || s.agent_version === version)
      return servers.every(isRight) || undefined
    })
  }

  async tryServer(broken: BuiltRelease, before: BuiltRelease): Promise<void> {
    let began = 0
    const { code, text } = await this.#upgrade(broken, () => {
      began = performance.now()
    })
    const { version } = await this.#platform.get<{ version: string }>('/api/health')
    if (code === 1 && version === before.version) {
      this.result.serverBackMs = performance.now() - began
    } else this.#plan.say(text)
    await this.online(before.version)
  }

  /** The control plane of that release works; its agents crash. */
  async tryAgents(broken: BuiltRelease, before: BuiltRelease): Promise<void> {
    const { code, text } = await this.#upgrade(broken)
    if (code !== 0) throw new Error(text)
    await this.online()
    const began = performance.now()
    const rollout = await this.#rollOut()
    await this.online(before.version)
    const platform = this.#platform
    const isBack = platform.agents.every((agent) => platform.currentOf(agent) === before.version)
    const { failed, skipped } = rollout.servers
    const hasStopped = failed === 1 && skipped === this.#plan.servers - 1
    if (rollout.state === 'failed' && hasStopped && isBack) {
      this.result.agentBackMs = performance.now() - began
    }
  }
}

/** Undefined if the service answered completely. */
function ask(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const options = { host: '127.0.0.1', port, headers: { host }, agent: false, timeout: 30_000 }
    const asked = request(options, (answer) => {
      let text = ''
      answer.on('data', (piece) => {
        text += String(piece)
      })
      answer.on('close', () => {
        const isGood = answer.statusCode === 200 && text === 'ok' && answer.complete
        resolve(isGood ? undefined : `${answer.statusCode} ${text.slice(0, 80)}`)
      })
    })
    asked.on('timeout', () => asked.destroy(new Error('no answer in time')))
    asked.on('error', (error) => resolve(error.message))
    asked.end()
  })
}

export async function chaosUpgrade(plan: Omit<UpgradePlan, 'say'>): Promise<number> {
  const say = (line: string): void => console.log(line)
  const r = await runUpgrade({ ...plan, say })
  for (const line of [...r.failed, ...r.unanswered].slice(0, 20)) say(`  ${line}`)
  const verdict = isGood(r, { ...plan, say })
  say(
    `upgrade: 1 control plane and ${r.upgraded} agents upgraded during ${r.deployments} deployments: ` +
      `${r.failed.length} failed, ${r.lostLines} of ${r.lines + r.lostLines} log lines lost, ${r.asked} requests, ` +
      `${r.unanswered.length} unanswered; a build that crashes: control plane back after ${seconds(r.serverBackMs)}, ` +
      `agents after ${seconds(r.agentBackMs)}: ${verdict ? 'ok' : 'VIOLATED'}`,
  )
  return verdict ? 0 : 1
}
