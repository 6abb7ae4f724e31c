// npm run bench -- cutover [--redeploys 10] [--recipe docker|manual] [--post-kib 64] [--control] [--peer]
//                          [--replicas 3 [--kills 10]]
//
// Redeploys one environment repeatedly through control plane, agent, engine and proxy under the strict client's full
// load: GET over kept and fresh connections, echoed POST bodies, WebSocket sessions, answers of five and twelve seconds
// (longer than switch and proof together: only a drain saves them). Nothing may fail; the second half of the versions
// ignores SIGTERM. With replicas, some are killed afterwards under requests that are safe to retry. --control switches
// as other platforms do (cutover-control.ts); the client must notice the loss. --peer runs kamal-proxy in the same way
// afterwards.
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import type { Environment } from '@berth/shared/api'
import { listProcesses } from '../../agent/src/machine/process/processes.ts'
import { callEngine } from '../../scripts/docker-engine.ts'
import { proxyPid } from '../chaos/docker-faults.ts'
import { APP_PORT, manualApp, nodeApp } from '../fixtures/docker/app.ts'
import {
  type DockerFixture,
  deployed,
  dockerEnvironment,
  openDockerFixture,
} from '../fixtures/docker/docker-fixture.ts'
import { Fixture, until } from '../fixtures/server/installation.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'
import { controlCutover, peerCutover } from './cutover-control.ts'
import { percentile, round, thousands } from './figures.ts'
import { FixedProxy } from './fixed-proxy.ts'
import { goal, goalAtLeast } from './goals.ts'
import { type ClientReport, type ClientWishes, countOf, LoadClient } from './load-client.ts'

/** As many as two cores carry beside the deployments; more would only slow every answer. */
export const FULL_LOAD = {
  'keep-alive': 16,
  fresh: 8,
  post: 8,
  websocket: 8,
  slow: 8,
  long: 8,
} as const
/** The allowed cost of look-ups, the probe and stripped headers. */
const GOAL_OVER_BARE = 0.9
const THROUGHPUT_MS = 4_000
/** Between two kills; requests meet the dead replica before it is back. */
const KILL_MS = 2_000

export function printReport(title: string, report: ClientReport): void {
  console.log(title)
  for (const [kind, { ok, failed, maxMs }] of Object.entries(report.kinds)) {
    console.log(
      `  ${kind.padEnd(11)} ${thousands(ok).padStart(9)} good, ${failed} failed, longest ${thousands(maxMs)} ms`,
    )
  }
  for (const { kind, why, at } of report.failures.slice(0, 10)) {
    console.log(`  failed: ${new Date(at).toISOString()} ${kind}: ${why}`)
  }
}

/** The same program and the same client; a process with `run` and `port: auto` instead of a container. */
async function manualCutover({ redeploys, postBytes }: CutoverWishes): Promise<void> {
  const fixture = await Fixture.open({ proxy: true })
  try {
    const app = manualApp(fixture.node())
    const project = await fixture.project('cutover', fixture.repository('cutover', app('v0')))
    const body = { identifier: 'main', branch: 'main', auto_deploy: false }
    const environment = await fixture.post<Environment>(
      `/api/projects/${project.id}/environments`,
      body,
    )
    await deployed(fixture, environment.id)
    const host = environment.domain
    const proxy = { address: '127.0.0.1', port: fixture.proxyPort, host, workers: {}, ...postBytes }
    await redeployUnderLoad(fixture, environment.id, proxy, redeploys, app)
  } finally {
    await fixture.close()
  }
}

export interface CutoverWishes {
  redeploys: number
  control: boolean
  peer: boolean
  recipe: string
  /** Containers of the service, and how many of them are killed. */
  replicas: number
  kills: number
  /** Empty: small bodies of varying length. */
  postBytes: Pick<ClientWishes, 'postBytes'>
}

export async function benchCutover(wishes: CutoverWishes): Promise<void> {
  const { redeploys, control, peer, recipe, postBytes, replicas, kills } = wishes
  if (recipe === 'manual') return manualCutover(wishes)
  const made = await openDockerFixture({ withNode: true })
  try {
    const { fixture } = made
    const app: typeof nodeApp = (version, options = {}) =>
      nodeApp(version, { ...options, more: replicas > 1 ? [`replicas: ${replicas}`] : [] })
    const environment = await dockerEnvironment(fixture, 'cutover', app('v0'))
    await deployed(fixture, environment.id)
    const host = environment.domain
    const others = { host, switches: redeploys, ...postBytes }
    if (control) return await controlCutover(made, others)
    const proxy: ClientWishes = { address: '127.0.0.1', port: fixture.proxyPort, host, workers: {} }
    const load = { ...proxy, ...postBytes }
    await redeployUnderLoad(fixture, environment.id, load, redeploys, app)
    if (replicas > 1) await killReplicas(made, proxy, { replicas, kills })
    else await throughput(made, proxy)
    if (peer) await peerCutover(made, others)
  } finally {
    await made.close()
  }
}

async function redeployUnderLoad(
  fixture: Fixture,
  environmentId: number,
  proxy: ClientWishes,
  redeploys: number,
  app: typeof nodeApp,
): Promise<void> {
  const client = new LoadClient({ ...proxy, workers: FULL_LOAD })
  try {
    const lived: number[] = []
    const whole: number[] = []
    for (let n = 1; n <= redeploys; n++) {
      fixture.repository('cutover', app(`v${n}`, { graceful: n <= redeploys / 2 }))
      const began = Date.now()
      const task = await deployed(fixture, environmentId)
      lived.push(Date.parse(task.live_at ?? '') - began)
      whole.push(Date.parse(task.finished_at ?? '') - began)
      const { ok, failed } = countOf(await client.report())
      console.log(
        `redeployment ${n} of ${redeploys}: live after ${lived.at(-1)} ms, over after ${whole.at(-1)} ms; ` +
          `${thousands(ok)} good, ${failed} failed so far`,
      )
    }
    const report = await client.stop()
    const { ok, failed } = countOf(report)
    printReport(`${redeploys} redeployments under load`, report)
    const unseen = Array.from({ length: redeploys + 1 }, (_, n) => `v${n}`).filter(
      (version) => report.versions[version] === undefined,
    )
    if (unseen.length > 0) console.log(`  never answered: ${unseen.join(', ')}`)
    console.log(
      `cut-over: ${thousands(ok + failed)} requests and sessions, ${failed} failed; ` +
        `live p50 ${round(percentile(lived, 50), 0)} ms, with drain ${round(percentile(whole, 50), 0)} ms`,
    )
    goal(
      'requests and sessions that failed',
      failed === 0,
      `${failed} of ${thousands(ok + failed)}`,
    )
    goal('versions that never answered', unseen.length === 0, unseen.join(', ') || 'none')
  } finally {
    client.kill()
  }
}

/** One after the other, each when all of them run; every request of this client is safe to retry. */
async function killReplicas(
  { fixture, engine }: DockerFixture,
  proxy: ClientWishes,
  { replicas, kills }: Pick<CutoverWishes, 'replicas' | 'kills'>,
): Promise<void> {
  const allRun = (): Promise<string[]> =>
    until('all replicas', async () => {
      const { containers } = await fixture.owned()
      const running = containers.filter(({ running: isUp }) => isUp).map(({ id }) => id)
      const areUp = await Promise.all(running.map((id) => isHealthy(engine.socket, id)))
      return running.length === replicas && areUp.every((isUp) => isUp) ? running : undefined
    })
  const client = new LoadClient({ ...proxy, workers: { 'keep-alive': 16, fresh: 8 } })
  try {
    for (let n = 0; n < kills; n++) {
      const running = await allRun()
      const { State } = await inspect(engine.socket, running[n % replicas] ?? '')
      process.kill(State.Pid, 'SIGKILL')
      await delay(KILL_MS)
    }
    await allRun()
    const report = await client.stop()
    const { ok, failed } = countOf(report)
    printReport(`${kills} kills among ${replicas} replicas under load`, report)
    goal('requests lost to killed replicas', failed === 0, `${failed} of ${thousands(ok + failed)}`)
  } finally {
    client.kill()
  }
}

interface Inspected {
  State: { Pid: number }
  NetworkSettings: { Networks: Record<string, { IPAddress: string }> }
}

async function inspect(socket: string, id: string): Promise<Inspected> {
  const { text } = await callEngine(socket, 'GET', `/containers/${id}/json`)
  return JSON.parse(text) as Inspected
}

const addressOf = ({ NetworkSettings }: Inspected): string =>
  Object.values(NetworkSettings.Networks)[0]?.IPAddress ?? ''

async function isHealthy(socket: string, id: string): Promise<boolean> {
  const address = addressOf(await inspect(socket, id))
  if (address === '') return false
  const answer = await fetch(`http://${address}:${APP_PORT}/healthz`).catch(() => undefined)
  return answer?.ok ?? false
}

/** Processor time of these processes so far, in ticks. */
const ticksOf = (pids: number[]): number =>
  pids.reduce((sum, pid) => {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return sum + Number(fields[11]) + Number(fields[12])
  }, 0)

/** Requests per tick that client, application and proxy spent on them together. */
async function requestsPerTick(wishes: ClientWishes, pids: number[]): Promise<number> {
  const client = new LoadClient({ ...wishes, workers: { 'keep-alive': 16 } })
  try {
    await delay(1_000) // its first connections
    const all = [...pids, client.pid]
    const before = { ok: countOf(await client.report()).ok, ticks: ticksOf(all) }
    await delay(THROUGHPUT_MS)
    const ok = countOf(await client.report()).ok - before.ok
    const ticks = ticksOf(all) - before.ticks
    await client.stop()
    return ok / ticks
  } finally {
    client.kill()
  }
}

/** The same client, the same container: through the proxy, through a Caddy that does nothing but pass on, and straight
 * to its address. By processor time, so that others on the machine do not count: where it is all used, twice the time
 * means half the requests. */
async function throughput(made: DockerFixture, proxy: ClientWishes): Promise<void> {
  const { fixture, engine } = made
  const { containers } = await fixture.owned()
  const id = containers.find(({ running }) => running)?.id ?? ''
  const facts = await inspect(engine.socket, id)
  const address = addressOf(facts)
  const application = listProcesses()
    .filter(({ pid, parent }) => pid === facts.State.Pid || parent === facts.State.Pid)
    .map(({ pid }) => pid)
  const bare = new FixedProxy(await freePort())
  try {
    await bare.start(`${address}:${APP_PORT}`)
    const overBare: number[] = []
    const overDirect: number[] = []
    for (let n = 0; n < 5; n++) {
      const direct = await requestsPerTick({ ...proxy, address, port: APP_PORT }, application)
      const passed = await requestsPerTick({ ...proxy, port: bare.port }, [
        ...application,
        bare.pid,
      ])
      const through = await requestsPerTick(proxy, [...application, proxyPid(made, 'caddy')])
      overBare.push(through / passed)
      overDirect.push(through / direct)
    }
    const [ratio, plain] = [percentile(overBare, 50), percentile(overDirect, 50)]
    console.log(
      `requests for the same processor time: ${round(ratio)} of a Caddy that only passes on, ` +
        `${round(plain)} of none at all`,
    )
    goalAtLeast('requests for the same processor time', ratio, GOAL_OVER_BARE, 'of a bare Caddy')
  } finally {
    bare.stop()
  }
}
