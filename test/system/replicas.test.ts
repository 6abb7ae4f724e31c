// A service with several containers: they start one after the other, share the requests, and are replaced, restarted
// and killed without a lost request; requests that outlast their deployment. Each case has its own environment.
import { AttemptState, FailureCode, LifecycleVerb } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inspectContainer } from '../../agent/src/machine/docker/containers.ts'
import { makeNodeImage, NODE_IMAGE } from '../fixtures/docker/images.ts'
import { DockerHost } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { type Deployment, eventually, type Files } from '../fixtures/server/deployment.ts'
import { type Load, slowly, startLoad } from '../fixtures/server/edge-load.ts'
import { type DeployRequest, isRoot } from '../fixtures/server/server.ts'
import { Upkeep } from '../fixtures/server/upkeep.ts'

/** Answers with its version and container; echoes bodies; /hold waits for /release, sent to the same container. */
const SERVER = `const { createServer } = require('node:http')
const { hostname } = require('node:os')
const me = process.env.VERSION + ' ' + hostname()
console.log('up', me)
const held = []
const server = createServer((request, response) => {
  response.setHeader('x-application', me)
  if (request.url === '/hold') return void held.push(response)
  if (request.url === '/holding') return response.end(String(held.length))
  if (request.url === '/release') for (const one of held.splice(0)) one.end(me)
  const parts = []
  request.on('data', (part) => parts.push(part))
  request.on('end', () => response.end(request.method === 'POST' ? Buffer.concat(parts) : me))
})
server.keepAliveTimeout = 65000
server.listen(process.env.PORT)
process.on('SIGTERM', () => server.close(() => process.exit(0)))
`

const web = (version: string, more: string): Files => ({
  Dockerfile: `FROM ${NODE_IMAGE}\nCOPY server.js /app/\nCMD ["node", "/app/server.js"]\n`,
  'server.js': SERVER,
  '.service.yml': `docker: { services: { web: { build: ., port: 8080, health: /, memory: 128m, env: { VERSION: ${version} }, ${more} } } }\n`,
})

/** Without an address, so unchanged containers stay. */
const worker = (replicas: number): Files => ({
  Dockerfile: `FROM berth-test/busybox\nCMD ["/bin/sh", "-c", "echo ready; exec sleep 3600"]\n`,
  '.service.yml': `docker: { services: { jobs: { build: ., replicas: ${replicas}, memory: 32m, stop_timeout: 1s } } }\n`,
})

const engineOfRun = dockerEngine()

describe.skipIf(!engineOfRun || missing('caddy') || !isRoot)('replicas', () => {
  let host: DockerHost

  beforeAll(async () => {
    await makeNodeImage(engineOfRun?.socket ?? '')
    host = await DockerHost.open()
  })
  afterAll(() => host.close())

  async function deploy(
    files: Files,
    request: DeployRequest,
    repository: ReturnType<DockerHost['repository']>,
  ): Promise<Deployment> {
    repository.commit(files)
    return succeeds(await host.run(repository, request))
  }

  async function succeeds(deployment: Deployment): Promise<Deployment> {
    const verdict = await deployment.verdict()
    expect(verdict.state, deployment.log() + deployment.runnerLog()).toBe(AttemptState.SUCCEEDED)
    return deployment
  }

  const names = async (environmentId: number): Promise<string[]> =>
    (await host.containers(environmentId)).map(({ name }) => name).sort()

  const strict = (at: string): Load =>
    startLoad(
      { port: host.settings.proxy.http.port, host: at },
      { connections: 8, keepAlive: true, posts: false },
    )

  /** Waits for this many more answers, so that an event is covered by traffic before and after it. */
  const more = (load: Load, count: number): Promise<true> => {
    const from = load.done
    return eventually(async () => load.done >= from + count || undefined, `${count} more answers`)
  }

  it('start one after the other, share the requests, and are replaced under load', async () => {
    const repository = host.repository()
    const at = 'r201.example.com'
    const first = await deploy(
      web('one', 'replicas: 3'),
      { environmentId: 201, host: 'r201.example.com' },
      repository,
    )
    expect(first.log()).toMatch(
      /web \(replica 1\) is healthy\.[\s\S]*web \(replica 2\) was started[\s\S]*web \(replica 2\) is healthy\.[\s\S]*web \(replica 3\) was started[\s\S]*web \(replica 3\) is healthy\./,
    )
    const before = await host.containers(201)
    expect(before.map(({ labels }) => labels['dev.berth.replica']).sort()).toEqual(['1', '2', '3'])
    const load = strict(at)
    await more(load, 300)
    expect([...load.by.keys()].filter((who) => who.startsWith('one '))).toHaveLength(3)
    await deploy(
      web('two', 'replicas: 3'),
      { environmentId: 201, host: 'r201.example.com' },
      repository,
    )
    await more(load, 300)
    await load.stop()
    expect(load.failures).toEqual([])
    expect([...load.by.keys()].filter((who) => who.startsWith('two '))).toHaveLength(3)
    await eventually(async () => (await names(201)).length === 3 || undefined, 'the old ones end')
    await succeeds(
      await host.run(repository, { environmentId: 201, host: 'r201.example.com', destroy: true }),
    )
    expect(await host.objects(201)).toEqual([])
  })

  it('one is killed: no request is lost, the others answer, and it comes back', async () => {
    const repository = host.repository()
    const at = 'r202.example.com'
    await deploy(
      web('one', 'replicas: 3'),
      { environmentId: 202, host: 'r202.example.com' },
      repository,
    )
    const [victim] = await host.containers(202)
    const load = strict(at)
    await more(load, 300)
    // a kill through the engine counts as a stop by hand, after which it restarts nothing
    process.kill((await inspectContainer(host.engine, victim?.id ?? ''))?.pid ?? 0, 'SIGKILL')
    await more(load, 300)
    await eventually(async () => {
      const seen = await inspectContainer(host.engine, victim?.id ?? '')
      return (seen?.state === 'running' && seen.restarts > 0) || undefined
    }, 'the engine restarts it')
    load.by.clear()
    await eventually(async () => load.by.size === 3 || undefined, 'all three answer again')
    await load.stop()
    expect(load.failures).toEqual([])
  })

  it('are restarted in turn: nothing is lost, and every one is new', async () => {
    const repository = host.repository()
    const at = 'r203.example.com'
    await deploy(
      web('one', 'replicas: 2'),
      { environmentId: 203, host: 'r203.example.com' },
      repository,
    )
    const startOf = async (): Promise<(string | undefined)[]> =>
      Promise.all(
        (await host.containers(203)).map(
          async ({ id }) => (await inspectContainer(host.engine, id))?.startedAt,
        ),
      )
    const before = await startOf()
    const load = strict(at)
    await more(load, 100)
    const request = {
      environmentId: 203,
      host: 'r203.example.com',
      lifecycle: { verb: LifecycleVerb.RESTART },
    }
    const restarted = await succeeds(await host.run(repository, request))
    await more(load, 100)
    await load.stop()
    expect(load.failures).toEqual([])
    expect(restarted.log()).toContain('one replica after the other')
    const after = await startOf()
    expect(after.some((at) => before.includes(at))).toBe(false)
  })

  it('a broken version ends at its first replica, and the old ones serve', async () => {
    const repository = host.repository()
    const at = 'r204.example.com'
    await deploy(
      web('one', 'replicas: 2'),
      { environmentId: 204, host: 'r204.example.com' },
      repository,
    )
    const before = await names(204)
    repository.commit(web('two', "replicas: 2, command: ['node', '-e', 'process.exit(4)']"))
    const broken = await host.run(repository, { environmentId: 204, host: 'r204.example.com' })
    const { code, message } = await broken.verdict()
    expect(code).toBe(FailureCode.HEALTH_CHECK_FAILED)
    expect(message).toContain('web (replica 1) stopped')
    expect(await names(204)).toEqual(before)
    expect((await host.get(at)).text).toMatch(/^one /)
  })

  it('without an address: another number starts or stops only the difference', async () => {
    const repository = host.repository()
    await deploy(worker(2), { environmentId: 205 }, repository)
    const two = await names(205)
    const more = await deploy(worker(3), { environmentId: 205 }, repository)
    expect(more.log()).toContain('jobs (replica 2) did not change')
    const three = await names(205)
    expect(three).toEqual(expect.arrayContaining(two))
    expect(three).toHaveLength(3)
    await deploy(worker(1), { environmentId: 205 }, repository)
    expect(await names(205)).toEqual(two.slice(0, 1))
  })

  it('a request that outlasts the deployment is answered, and then the old ones end', async () => {
    const repository = host.repository()
    const at = { port: host.settings.proxy.http.port, host: 'r206.example.com' }
    const request = { environmentId: 206, host: at.host }
    await deploy(web('one', 'replicas: 2, drain: 10m'), request, repository)
    const old = await host.containers(206)
    const begun = slowly(at, '/hold')
    await eventually(() => isHeld(old), 'the request arrives')
    // no daemon looks after the old ones yet, so what follows is the work of the deployment alone
    const second = await deploy(web('two', 'replicas: 2'), request, repository)
    expect(second.log()).toContain('web of the version before still answers 1 requests, for up to')
    expect(await held(old)).toHaveLength(1)
    const third = await deploy(web('three', 'replicas: 2'), request, repository)
    expect(await held(old), third.log()).toHaveLength(1)
    const upkeep = new Upkeep(host.settings)
    try {
      for (const address of await held(old)) await fetch(`http://${address}:8080/release`)
      expect(await begun).toMatch(/^one /)
      await eventually(async () => (await host.containers(206)).length === 2, 'the old one ends')
      expect((await host.get(at.host)).text).toMatch(/^three /)
    } finally {
      upkeep.close()
    }
  })

  it('a request that outlasts its drain is cut', async () => {
    const repository = host.repository()
    const at = { port: host.settings.proxy.http.port, host: 'r207.example.com' }
    const request = { environmentId: 207, host: at.host }
    await deploy(web('one', 'drain: 1s, stop_timeout: 1s'), request, repository)
    const old = await host.containers(207)
    const begun = slowly(at, '/hold').catch((error: Error) => error.message)
    await eventually(() => isHeld(old), 'the request arrives')
    await deploy(web('two', 'drain: 1s'), request, repository)
    const upkeep = new Upkeep(host.settings)
    try {
      await eventually(async () => (await host.containers(207)).length === 1, 'the old one ends')
      expect(await begun).not.toMatch(/^one /)
    } finally {
      upkeep.close()
    }
  })

  /** Addresses of those containers that hold a request. */
  async function held(containers: { id: string }[]): Promise<string[]> {
    const found: string[] = []
    for (const { id } of containers) {
      const address = (await inspectContainer(host.engine, id))?.address
      if (!address) continue
      const answer = await fetch(`http://${address}:8080/holding`)
      if ((await answer.text()) === '1') found.push(address)
    }
    return found
  }

  const isHeld = async (containers: { id: string }[]): Promise<true | undefined> =>
    (await held(containers)).length === 1 || undefined
})
