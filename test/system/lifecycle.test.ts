// Restart, stop and start without a deployment, on a real server with both recipes: what runs, what the address shows,
// what a restart of the daemon and a failed deployment leave stopped, and that a deployment starts it again.
import { createServer } from 'node:net'
import { AttemptState, FailureCode, LifecycleVerb } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inspectContainer } from '../../agent/src/machine/docker/containers.ts'
import { openEngine } from '../../agent/src/machine/docker/engine.ts'
import { DriftWatch } from '../../agent/src/maintenance/drift.ts'
import { Observations } from '../../agent/src/maintenance/observations.ts'
import { openEdge } from '../../agent/src/proxy/client.ts'
import { recoverDocker } from '../../agent/src/runner/docker/recover.ts'
import { reviveServices } from '../../agent/src/supervise/control.ts'
import { DockerHost, httpd } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import type { Deployment, Repository } from '../fixtures/server/deployment.ts'
import { type AgentHost, isRoot } from '../fixtures/server/server.ts'
import { answer, freePort, ServiceFixture } from '../fixtures/server/service.ts'

const { RESTART, STOP, START } = LifecycleVerb

async function succeeds(deployment: Deployment): Promise<Deployment> {
  const verdict = await deployment.verdict()
  expect(verdict.state, deployment.log() + deployment.runnerLog()).toBe(AttemptState.SUCCEEDED)
  return deployment
}

/** What the control plane would be told. */
async function observe(host: AgentHost, environmentId: number) {
  const observations = new Observations()
  const { settings } = host
  const engine = openEngine(settings)
  const watch = new DriftWatch({ settings, engine, observations, now: Date.now })
  const ledger = host.ledger()
  try {
    await watch.look(ledger, environmentId)
    await watch.look(ledger, environmentId) // a missing supervisor counts at the second look
  } finally {
    ledger.close()
  }
  const { services = [], degradedReason } = observations.find(environmentId) ?? {}
  return { states: services.map(({ name, state }) => `${name} ${state}`), degradedReason }
}

describe('the manual recipe', () => {
  let fixture: ServiceFixture
  beforeAll(async () => {
    fixture = await ServiceFixture.open()
  })
  afterAll(() => fixture.close())

  const change = (environmentId: number, verb: LifecycleVerb, service?: string) =>
    fixture.host.deploy(fixture.repository, {
      environmentId,
      lifecycle: { verb, ...(service === undefined ? {} : { service }) },
    })
  const portOf = (id: number) => fixture.rows(id)[0]?.port
  const pidOf = (id: number, { taskId }: Deployment) => fixture.state(id, taskId)?.pid

  /** As after a restart of the machine. */
  async function restartDaemon(): Promise<string[]> {
    const ledger = fixture.host.ledger()
    try {
      return await reviveServices(fixture.host.settings, ledger, {
        occupy: () => true,
        vacate: () => undefined,
        isFirst: () => true,
        onTrouble: (_, error) => {
          throw error
        },
      })
    } finally {
      ledger.close()
    }
  }

  it('stops a service, keeps it stopped, and starts it again', async () => {
    const deployed = await fixture.deployed(20, { version: 'one' })
    const port = portOf(20)
    const stopped = await succeeds(await change(20, STOP, 'web'))
    expect(Object.keys(stopped.steps())).toEqual(['stop:web'])
    expect(stopped.log()).toMatch(/web was stopped in \d+ ms\./)
    await expect(answer(port)).rejects.toThrow()
    const routes = await openEdge(fixture.host.settings).getRoutes(20)
    expect(routes?.routes.map(({ target }) => target)).toEqual([{ kind: 'page', page: 'off' }])
    expect(await observe(fixture.host, 20)).toEqual({ states: ['web stopped'], degradedReason: '' })
    expect(await restartDaemon()).toEqual([])
    await expect(answer(port)).rejects.toThrow()
    expect((await succeeds(await change(20, STOP))).log()).toContain('web is stopped already.')

    const started = await succeeds(await change(20, START))
    expect(Object.keys(started.steps())).toEqual(['start:web'])
    expect(started.log()).toContain('web is healthy.')
    expect(await answer(port)).toBe('one')
    expect(await observe(fixture.host, 20)).toEqual({ states: ['web running'], degradedReason: '' })
    expect((await openEdge(fixture.host.settings).getRoutes(20))?.routes).toMatchObject([
      { target: { kind: 'loopback', port } },
    ])
    const pid = pidOf(20, deployed)
    expect((await succeeds(await change(20, START, 'web'))).log()).toContain('web runs already.')
    expect(pidOf(20, deployed)).toBe(pid)
  })

  it('restarts a service with a check by command: it runs in the release that serves', async () => {
    const health =
      '{ command: \'test -f .service.yml && test -n "$PORT"\', start_period: 1s, retries: 1 }'
    const deployed = await fixture.deployed(26, { version: 'one', health })
    const before = pidOf(26, deployed)
    const restarted = await succeeds(await change(26, RESTART, 'web'))
    expect(restarted.log()).toContain('web is healthy.')
    expect(pidOf(26, deployed)).not.toBe(before)
  })

  it('restarts a service: another process, the same version and address', async () => {
    const deployed = await fixture.deployed(21, { version: 'one' })
    const [port, pid] = [portOf(21), pidOf(21, deployed)]
    const done = await succeeds(await change(21, RESTART))
    expect(done.log()).toMatch(/web was away for \d+ ms\./)
    expect(await answer(port)).toBe('one')
    expect(pidOf(21, deployed)).not.toBe(pid)
    expect(fixture.rows(21).map(({ taskId, state }) => [taskId, state])).toEqual([
      [deployed.taskId, 'serving'],
    ])
  })

  it('a failed deployment leaves it stopped, a successful one starts it', async () => {
    const target = 'port: auto'
    await fixture.deployed(22, { version: 'one', target })
    const port = portOf(22)
    await succeeds(await change(22, STOP))
    fixture.commit({ version: 'two', target, mode: 'crash' })
    const failed = await fixture.host.deploy(fixture.repository, { environmentId: 22 })
    expect(await failed.verdict()).toMatchObject({ code: FailureCode.HEALTH_CHECK_FAILED })
    await expect(answer(port)).rejects.toThrow()
    expect(await observe(fixture.host, 22)).toEqual({ states: ['web stopped'], degradedReason: '' })
    await fixture.deployed(22, { version: 'three', target })
    expect(await answer(portOf(22))).toBe('three')
    expect(await observe(fixture.host, 22)).toEqual({ states: ['web running'], degradedReason: '' })
  })

  it('a version that does not come up is stopped again, and the task says why', async () => {
    const deployed = await fixture.deployed(23, { version: 'one' })
    await succeeds(await change(23, STOP))
    const port = portOf(23)
    const server = createServer().listen(port, '127.0.0.1')
    const done = await change(23, START)
    server.close()
    expect(await done.verdict()).toMatchObject({
      state: AttemptState.FAILED,
      failedStepId: 'start:web',
    })
    expect(fixture.state(23, deployed.taskId)).toBeUndefined()
    expect(await observe(fixture.host, 23)).toEqual({ states: ['web stopped'], degradedReason: '' })
  })

  it('says what is not there, and what Berth does not run', async () => {
    expect(await (await change(98, STOP)).verdict()).toMatchObject({
      code: FailureCode.NOT_DEPLOYED,
    })
    await fixture.deployed(24, { version: 'one' })
    expect((await (await change(24, STOP, 'api')).verdict()).message).toMatch(
      /^The last deployment \(\d+\) has no service api\. It has: web\.$/,
    )
    const port = await freePort()
    const yaml = `manual:
  deploy:
    - PORT=${port} VERSION=own setsid ${fixture.host.node} server.mjs >/dev/null 2>&1 &
  services: { web: { port: ${port}, health: /up } }
`
    fixture.repository.commit({ '.service.yml': yaml })
    const deployed = await fixture.host.deploy(fixture.repository, { environmentId: 25 })
    await succeeds(deployed)
    expect((await (await change(25, RESTART, 'web')).verdict()).message).toBe(
      "web has no 'run': the repository's own commands start and stop it, so Berth cannot.",
    )
    expect((await (await change(25, STOP)).verdict()).message).toContain(
      'has no service that Berth runs. Berth keeps none of it running.',
    )
  })

  it('an agent that does not know the verb says so', async () => {
    await fixture.deployed(26, { version: 'one' })
    const done = await change(26, 99 as LifecycleVerb)
    expect(await done.verdict()).toMatchObject({ code: FailureCode.AGENT_OUTDATED })
  })
})

describe.skipIf(!dockerEngine() || missing('caddy') || !isRoot)('the docker recipe', () => {
  const AT = 'pr-42.shop.example.com'
  const YAML = `docker:
  services:
    web: { build: ., port: 8080, health: /, depends_on: [worker] }
    worker: { build: ., command: 'exec sleep 1000', stop_timeout: 1s }
`
  const SICK = 'health: { path: /none, start_period: 1s, interval: 1s, retries: 1 }'
  let host: DockerHost
  let repository: Repository
  beforeAll(async () => {
    host = await DockerHost.open()
    repository = host.repository()
    repository.commit(httpd('one', { '.service.yml': YAML }))
    await succeeds(await host.run(repository))
  })
  afterAll(() => host.close())

  const change = async (verb: LifecycleVerb, service?: string) =>
    succeeds(
      await host.run(repository, {
        lifecycle: { verb, ...(service === undefined ? {} : { service }) },
      }),
    )
  const containers = async () =>
    Object.fromEntries(
      (await host.containers(1)).map(({ labels, id, state }) => [
        labels['dev.berth.service'] as string,
        { id, state },
      ]),
    )

  it('stops the environment in reverse, shows a page, and keeps it stopped', async () => {
    const before = await containers()
    const stopped = await change(STOP)
    expect(Object.keys(stopped.steps())).toEqual(['stop:web', 'stop:worker'])
    const page = await host.get(AT)
    expect(page.status).toBe(503)
    expect(page.text).toContain('Stopped. This application was stopped.')
    expect(await observe(host, 1)).toEqual({
      states: ['web stopped', 'worker stopped'],
      degradedReason: '',
    })
    // as after a restart of the machine, with services that ran when the engine went down
    const ledger = host.ledger()
    const { engine, settings } = host
    const context = { engine, settings, ledger, edge: openEdge(settings) }
    await recoverDocker(context, { environmentId: 1, ran: ['web', 'worker'] })
    ledger.close()
    const now = await containers()
    expect(now).toEqual({
      web: { id: before.web?.id, state: 'exited' },
      worker: { id: before.worker?.id, state: 'exited' },
    })
    expect((await host.get(AT)).status).toBe(503)
  })

  it('one that was started past Berth is reported', async () => {
    const { worker } = await containers()
    const docker = await host.engine.docker()
    await docker.getContainer(worker?.id ?? '').start()
    expect(await observe(host, 1)).toMatchObject({
      states: ['web stopped', 'worker running'],
      degradedReason: expect.stringContaining('worker runs although it was stopped'),
    })
  })

  it('starts it again in order, from the same containers', async () => {
    const before = await containers()
    const started = await change(START)
    expect(Object.keys(started.steps())).toEqual(['start:worker', 'start:web'])
    expect(await host.get(AT)).toMatchObject({ status: 200, text: 'version one\n' })
    const now = await containers()
    expect([now.web?.id, now.worker?.id]).toEqual([before.web?.id, before.worker?.id])
    expect(await observe(host, 1)).toEqual({
      states: ['web running', 'worker running'],
      degradedReason: '',
    })
  })

  it('restarts one service and leaves the other alone', async () => {
    const startOf = async (service: string) =>
      (await inspectContainer(host.engine, (await containers())[service]?.id ?? ''))?.startedAt
    const [web, worker] = [await startOf('web'), await startOf('worker')]
    await change(RESTART, 'web')
    expect(await startOf('web')).not.toBe(web)
    expect(await startOf('worker')).toBe(worker)
    expect((await host.get(AT)).text).toBe('version one\n')
  })

  it('a failed deployment leaves it stopped, a successful one starts it', async () => {
    await change(STOP)
    repository.commit(httpd('two', { '.service.yml': YAML.replace('health: /', SICK) }))
    const failed = await host.run(repository)
    expect((await failed.verdict()).state).toBe(AttemptState.FAILED)
    expect(await observe(host, 1)).toEqual({
      states: ['web stopped', 'worker stopped'],
      degradedReason: '',
    })
    const page = await host.get(AT)
    expect([page.status, page.text.split('.')[0]]).toEqual([503, 'Stopped'])
    repository.commit(httpd('three', { '.service.yml': YAML }))
    await succeeds(await host.run(repository))
    expect((await host.get(AT)).text).toBe('version three\n')
    expect(await observe(host, 1)).toEqual({
      states: ['web running', 'worker running'],
      degradedReason: '',
    })
  })
})
