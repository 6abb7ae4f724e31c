// Checks after the deployment: a frozen replica is noticed and gets no requests, an unhealthy service is restarted
// where the file says so, and a process of the manual recipe is checked like a container. One daemon serves all cases.
import { AttemptState, Recipe } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inspectContainer } from '../../agent/src/machine/docker/containers.ts'
import { listProcesses } from '../../agent/src/machine/process/processes.ts'
import { Observations } from '../../agent/src/maintenance/observations.ts'
import { readState, serviceDir } from '../../agent/src/supervise/instructions.ts'
import { makeNodeImage, NODE_IMAGE } from '../fixtures/docker/images.ts'
import { DockerHost } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { type Deployment, eventually, type Files } from '../fixtures/server/deployment.ts'
import { type DeployRequest, isRoot } from '../fixtures/server/server.ts'
import { Upkeep } from '../fixtures/server/upkeep.ts'

/** Answers with its container; after /break, /up answers 500 until the next start. */
const SERVER = `const { createServer } = require('node:http')
const { hostname } = require('node:os')
let isBroken = false
createServer((request, response) => {
  if (request.url === '/break') isBroken = true
  if (request.url === '/up' && isBroken) response.statusCode = 500
  response.end(hostname())
}).listen(process.env.PORT)
`

const web = (more: string): Files => ({
  Dockerfile: `FROM ${NODE_IMAGE}\nCOPY server.js /app/\nCMD ["node", "/app/server.js"]\n`,
  'server.js': SERVER,
  '.service.yml': `docker: { services: { web: { build: ., port: 8080, memory: 128m, stop_timeout: 1s, ${more} } } }\n`,
})

const engineOfRun = dockerEngine()

describe.skipIf(!engineOfRun || missing('caddy') || !isRoot)('a running service', () => {
  let host: DockerHost
  let upkeep: Upkeep
  const observations = new Observations()

  beforeAll(async () => {
    await makeNodeImage(engineOfRun?.socket ?? '')
    host = await DockerHost.open()
    upkeep = new Upkeep(host.settings, { observations })
  })
  afterAll(async () => {
    upkeep.close()
    await host.close()
  })

  async function deploy(files: Files, request: DeployRequest): Promise<Deployment> {
    const repository = host.repository()
    repository.commit(files)
    return upkeep.during(request.environmentId ?? 1, async () => {
      const deployment = await host.deploy(repository, { recipe: Recipe.DOCKER, ...request })
      expect((await deployment.verdict()).state, deployment.log()).toBe(AttemptState.SUCCEEDED)
      return deployment
    })
  }

  const degraded = (environmentId: number, pattern: RegExp): Promise<string> =>
    eventually(() => {
      const reason = observations.find(environmentId)?.degradedReason ?? ''
      return pattern.test(reason) ? reason : undefined
    }, `${pattern}`)

  const isWell = (environmentId: number): Promise<true> =>
    eventually(() => {
      const view = observations.find(environmentId)
      const isUp = view?.services.every(({ health }) => health === 'healthy')
      return (isUp && view?.degradedReason === '') || undefined
    }, 'recovery')

  const replica = async (environmentId: number, number: number) => {
    const all = await host.containers(environmentId)
    const found = all.find(({ labels }) => labels['dev.berth.replica'] === String(number))
    return inspectContainer(host.engine, found?.id ?? '')
  }

  /** The program of a container, below its init. */
  const programOf = (pid: number | undefined): number =>
    listProcesses().find(({ parent }) => parent === pid)?.pid ?? 0

  it('that is frozen gets no requests and is reported, although its kernel accepts connections', async () => {
    const at = 'h301.example.com'
    await deploy(web('replicas: 2'), { environmentId: 301, host: at })
    await isWell(301)
    const second = await replica(301, 2)
    const pid = programOf(second?.pid)
    process.kill(pid, 'SIGSTOP')
    expect(await degraded(301, /frozen/)).toBe(
      `web (replica 2) is unhealthy: it is frozen, because its process ${pid} (node) was stopped by a signal. SIGCONT continues it.`,
    )
    expect(observations.find(301)?.services).toMatchObject([{ replicas: 2, replicasUp: 1 }])
    // the edge was told before the reason was shown, and Caddy has looked again since
    const frozen = second?.id.slice(0, 12)
    const answers = new Set<string>()
    for (let n = 0; n < 40; n += 1) answers.add((await host.get(at)).text)
    expect([...answers]).toEqual([(await replica(301, 1))?.id.slice(0, 12)])
    process.kill(pid, 'SIGCONT')
    await isWell(301)
    expect(observations.find(301)?.services).toMatchObject([{ replicas: 2, replicasUp: 2 }])
    await eventually(async () => (await host.get(at)).text === frozen, 'the second one answers')
  })

  it('that fails its check is degraded with the answer, and restarted where the file says so', async () => {
    const at = 'h302.example.com'
    await deploy(web('health: /up, restart: unhealthy'), { environmentId: 302, host: at })
    await isWell(302)
    const before = (await replica(302, 1))?.startedAt
    await host.get(at, '/break')
    await degraded(
      302,
      /web (?:is unhealthy|was restarted because it was unhealthy): GET \/up answered 500 three times in a row/,
    )
    await isWell(302)
    expect((await replica(302, 1))?.startedAt).not.toBe(before)
    expect((await host.get(at, '/up')).status).toBe(200)
  })

  it('is not restarted without that key, and its only replica keeps its requests', async () => {
    const at = 'h303.example.com'
    await deploy(web('health: { path: /up, retries: 2 }'), { environmentId: 303, host: at })
    await isWell(303)
    const before = (await replica(303, 1))?.startedAt
    await host.get(at, '/break')
    await degraded(303, /web is unhealthy: GET \/up answered 500 twice in a row/)
    expect((await host.get(at)).status).toBe(200)
    expect((await replica(303, 1))?.startedAt).toBe(before)
  })

  it('of the manual recipe is frozen, reported and restarted', async () => {
    const files: Files = {
      '.service.yml': `manual:
  deploy: ['true']
  services:
    jobs: { run: 'exec sleep 3600', restart: unhealthy, stop_timeout: 1s }
`,
    }
    const { taskId } = await deploy(files, { environmentId: 304, recipe: Recipe.MANUAL })
    await isWell(304)
    const of = { environmentId: 304, service: 'jobs', taskId }
    const pid = (): number => readState(serviceDir(host.settings, of))?.pid ?? 0
    const frozen = pid()
    process.kill(frozen, 'SIGSTOP')
    await degraded(
      304,
      /jobs (?:is unhealthy|was restarted because it was unhealthy): it is frozen/,
    )
    await eventually(() => pid() !== 0 && pid() !== frozen, 'another process')
    await isWell(304)
  })
})
