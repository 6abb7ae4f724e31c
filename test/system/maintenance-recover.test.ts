// A daemon's maintenance after a runner was killed in the middle of a docker deployment: the previous version serves as
// before, nothing of the attempt is left, and later manual changes are reported.
import { join } from 'node:path'
import { AttemptState, StepState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { removeContainer } from '../../agent/src/machine/docker/containers.ts'
import { tailLogs } from '../../agent/src/machine/docker/logs.ts'
import { Observations } from '../../agent/src/maintenance/observations.ts'
import { DockerHost, httpd } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import {
  type Deployment,
  eventually,
  type Repository,
  readTree,
} from '../fixtures/server/deployment.ts'
import { Visitor } from '../fixtures/server/proxy-server.ts'
import { isRoot } from '../fixtures/server/server.ts'
import { Upkeep } from '../fixtures/server/upkeep.ts'

const HOST = 'pr-42.shop.example.com'

/** A service behind the proxy, and one that exists once: it is stopped before its successor starts. */
/** Reports when a second instance runs at the same time. */
const worker =
  "test -e /data/lock && echo two at once; touch /data/lock; trap 'rm /data/lock; exit' TERM; echo worker $VERSION; sleep 3600 & wait"

const files = (version: string) =>
  httpd(version, {
    '.service.yml': `docker:
  volumes: [data]
  services:
    web: { build: ., port: 8080, health: / }
    worker: { build: ., command: "${worker}", env: { VERSION: ${version} }, volumes: ['data:/data'], stop_timeout: 2s }
`,
  })

describe.skipIf(!dockerEngine() || missing('caddy') || !isRoot)('after a dead runner', () => {
  let host: DockerHost
  let repository: Repository
  let first: Deployment
  const observations = new Observations()

  beforeAll(async () => {
    host = await DockerHost.open()
    repository = host.repository()
    repository.commit(files('one'))
    first = await host.run(repository)
    expect(await first.verdict(), first.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
  })
  afterAll(() => host.close())

  const own = async (): Promise<string[]> => {
    const prefix = `${host.settings.accountPrefix}1`
    return (await host.objects(1)).map((name) => name.replace(prefix, 'e1'))
  }
  const killIn = async (step: string, version: string): Promise<void> => {
    repository.commit(files(version))
    const deployment = host.begin(repository)
    await eventually(
      () => deployment.steps()[step]?.state === StepState.RUNNING || undefined,
      `step ${step}`,
    )
    deployment.child.kill('SIGKILL')
    await deployment.ended
  }

  it('puts everything back: routes, the paused container, no left-overs; nobody notices', async () => {
    const before = await own()
    const visitor = new Visitor(host, HOST)
    await killIn('verify:web', 'two')
    expect(await own()).not.toEqual(before)
    const upkeep = new Upkeep(host.settings, { observations })
    try {
      await eventually(
        async () => JSON.stringify(await own()) === JSON.stringify(before) || undefined,
        'the state before',
      )
      const routes = await host.edge.getRoutes(1)
      const target = routes?.routes[0]?.target
      const web = (await host.containers(1)).find(({ name }) => name.includes('-web-'))
      expect(target).toMatchObject({ kind: 'container', id: web?.id })
      const answers = await visitor.stop()
      expect(answers[0]).toBe('version one')
      expect((await host.get(HOST)).text).toBe('version one\n')
      expect(answers.filter((text) => !text.startsWith('version'))).toEqual([])
      const rows = host.ledger()
      const states = rows.objects.list({ environmentId: 1, kind: 'container' })
      rows.close()
      expect(states.map(({ state }) => state)).toEqual(['serving', 'serving'])
      const logs = readTree(join(host.settings.stateDir, 'logs', 'e1', 'worker')).toString()
      expect(logs).toContain('"text":"worker two"')
      const old = (await host.containers(1)).find(({ name }) => name.includes('-worker-'))
      expect(await tailLogs(host.engine, old?.id ?? '', 10)).toBe('worker one\nworker one\n')
    } finally {
      upkeep.close()
    }
  })

  it('tells what somebody did by hand, by the events of the engine', async () => {
    const upkeep = new Upkeep(host.settings, { observations })
    try {
      await observations.ready
      await eventually(() => observations.find(1)?.services.length === 2 || undefined, 'a look')
      expect(observations.find(1)).toMatchObject({ degradedReason: '' })
      const worker = (await host.containers(1)).find(({ name }) => name.includes('-worker-'))
      await removeContainer(host.engine, worker?.id ?? '')
      const reported = await eventually(
        () => (observations.find(1)?.degradedReason ? observations.find(1) : undefined),
        'a degraded environment',
      )
      expect(reported).toMatchObject({
        degradedReason: 'Running differs from last deployed: the container of worker is gone.',
        services: [
          { name: 'web', state: 'running' },
          { name: 'worker', state: 'missing' },
        ],
      })
    } finally {
      upkeep.close()
    }
  })

  it('an environment whose first deployment died: its network and data alone are left, and its page says so', async () => {
    repository.commit(files('three'))
    const deployment = host.begin(repository, { environmentId: 2, host: 'pr-43.shop.example.com' })
    await eventually(() => deployment.steps()['health:web'] || undefined, 'step health')
    deployment.child.kill('SIGKILL')
    await deployment.ended
    expect(await host.containers(2)).not.toEqual([])
    const upkeep = new Upkeep(host.settings, { observations })
    try {
      await eventually(
        async () =>
          (await host.objects(2)).filter((n) => !/-e2(-data)?$/.test(n)).length === 0 || undefined,
        'the end of it',
      )
      const page = await host.get('pr-43.shop.example.com')
      expect(page.status).toBe(503)
    } finally {
      upkeep.close()
    }
  })
})
