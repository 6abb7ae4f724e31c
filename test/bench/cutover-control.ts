// The cut-over by others: containers of the same image behind another proxy. The positive control is a Caddy with a
// fixed upstream, where a switch is a configuration push and the old container is stopped immediately; the strict client
// must lose requests here, or it would not notice a loss anywhere. The peer is kamal-proxy, which drains.
import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { callEngine } from '../../scripts/docker-engine.ts'
import { APP_PORT } from '../fixtures/docker/app.ts'
import type { DockerFixture } from '../fixtures/docker/docker-fixture.ts'
import { until } from '../fixtures/server/installation.ts'
import { freePort } from '../fixtures/server/installation-docker.ts'
import { FULL_LOAD, printReport } from './cutover.ts'
import { thousands } from './figures.ts'
import { FixedProxy } from './fixed-proxy.ts'
import { goal } from './goals.ts'
import { KamalProxy } from './kamal-proxy.ts'
import { type ClientReport, type ClientWishes, countOf, LoadClient } from './load-client.ts'

const BETWEEN_MS = 2_000

/** Starts one more container of the environment's image on its network; returns its address once it is healthy. */
async function startVersion(
  made: DockerFixture,
  prefix: string,
): Promise<{ id: string; at: string }> {
  const { socket } = made.engine
  const owned = await made.fixture.owned()
  const body = JSON.stringify({
    Image: owned.containers[0]?.image,
    Env: ['GRACEFUL=1', `PORT=${APP_PORT}`],
    // with the image's own label the agent would remove it as a leftover
    Labels: { 'dev.berth.agent': 'control' },
    HostConfig: { NetworkMode: owned.networks[0], Init: true },
  })
  const name = `${prefix}${randomBytes(4).toString('hex')}`
  const { text } = await callEngine(socket, 'POST', `/containers/create?name=${name}`, body)
  const { Id: id } = JSON.parse(text) as { Id: string }
  await callEngine(socket, 'POST', `/containers/${id}/start`)
  const facts = await callEngine(socket, 'GET', `/containers/${id}/json`)
  const { NetworkSettings } = JSON.parse(facts.text) as {
    NetworkSettings: { Networks: Record<string, { IPAddress: string }> }
  }
  const address = Object.values(NetworkSettings.Networks)[0]?.IPAddress ?? ''
  await until('a healthy container', async () => {
    const answer = await fetch(`http://${address}:${APP_PORT}/healthz`)
    return answer.ok || undefined
  })
  return { id, at: `${address}:${APP_PORT}` }
}

interface Switched {
  readonly port: number
  start(upstream: string): Promise<void>
  push(upstream: string): Promise<void>
  stop(): void
}

interface ControlWishes extends Pick<ClientWishes, 'host' | 'postBytes'> {
  switches: number
}

/** Switches between containers by this proxy, under the strict client. */
async function switchUnderLoad(
  made: DockerFixture,
  proxy: Switched,
  { switches, ...wishes }: ControlWishes,
): Promise<ClientReport> {
  const prefix = `${made.fixture.accountPrefix}control-` // removed with the fixture
  let client: LoadClient | undefined
  try {
    let current = await startVersion(made, prefix)
    await proxy.start(current.at)
    const { port } = proxy
    client = new LoadClient({ address: '127.0.0.1', port, ...wishes, workers: FULL_LOAD })
    for (let n = 1; n <= switches; n++) {
      await delay(BETWEEN_MS)
      const next = await startVersion(made, prefix)
      await proxy.push(next.at)
      await callEngine(made.engine.socket, 'POST', `/containers/${current.id}/stop?t=10`)
      current = next
    }
    return await client.stop()
  } finally {
    client?.kill()
    proxy.stop()
  }
}

export async function controlCutover(made: DockerFixture, wishes: ControlWishes): Promise<void> {
  const report = await switchUnderLoad(made, new FixedProxy(await freePort()), wishes)
  const { ok, failed } = countOf(report)
  printReport(`control: ${wishes.switches} switches by configuration push, no drain`, report)
  goal(
    'the client notices lost requests',
    failed > 0,
    `${failed} of ${thousands(ok + failed)} failed`,
  )
}

/** A peer under the same client and on the same engine; its losses are printed and are no goal of ours. */
export async function peerCutover(made: DockerFixture, wishes: ControlWishes): Promise<void> {
  const proxy = await KamalProxy.build()
  if (!proxy) return
  const report = await switchUnderLoad(made, proxy, wishes)
  printReport(`kamal-proxy: ${wishes.switches} deployments under load`, report)
}
