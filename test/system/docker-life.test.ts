// The life of environments with the docker recipe: several services, data, commands before the start, rollback, reset,
// a change of the recipe, a stop in the middle. Each has its own environment; they run concurrently.
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { AttemptState, Recipe, StepState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inspectContainer } from '../../agent/src/machine/docker/containers.ts'
import { inspectImage, removeImage, tagImage } from '../../agent/src/machine/docker/images.ts'
import { networkName } from '../../agent/src/machine/docker/names.ts'
import { listProcesses } from '../../agent/src/machine/process/processes.ts'
import { BUSYBOX_IMAGE } from '../fixtures/docker/images.ts'
import { DockerHost, httpd } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { type Deployment, eventually, type Files, readTree } from '../fixtures/server/deployment.ts'
import { type DeployRequest, isRoot } from '../fixtures/server/server.ts'

const YAML = `docker:
  volumes: [data]
  services:
    web:
      build: .
      port: 8080
      health: /
      depends_on: [db]
      release: 'echo "release sees $(cat /data/starts | wc -l) starts as $GREETING"; echo done > /data/release'
      env: { GREETING: hello, OVERRIDDEN: by the file }
      volumes: ['data:/data']
      command: 'ln -s /data /www/data; exec httpd -f -p $PORT -h /www'
    db: { build: db, volumes: ['data:/data'], stop_timeout: 1s }
actions:
  hello: { run: echo hello, service: web }
`
const DB = [
  'FROM berth-test/busybox',
  `CMD ["/bin/sh", "-c", "trap 'exit 0' TERM; echo start >> /data/starts; while :; do sleep 0.1; done"]`,
  '',
].join('\n')
const shop = (version: string): Files =>
  httpd(version, { '.service.yml': YAML, 'db/Dockerfile': DB })

describe.skipIf(!dockerEngine() || missing('caddy') || !isRoot)('an environment', () => {
  let host: DockerHost

  beforeAll(async () => {
    host = await DockerHost.open()
  })
  afterAll(() => host.close())

  async function succeeds(deployment: Deployment): Promise<Deployment> {
    const verdict = await deployment.verdict()
    expect(verdict.state, deployment.log() + deployment.runnerLog()).toBe(AttemptState.SUCCEEDED)
    return deployment
  }

  const idOf = async (environmentId: number, service: string): Promise<string> => {
    const found = (await host.containers(environmentId)).filter(
      ({ labels }) => labels['dev.berth.service'] === service,
    )
    expect(found.map(({ name }) => name)).toHaveLength(1)
    return found[0]?.id ?? ''
  }

  /** Searches this machine for a value where it must not be. */
  async function expectHidden(canary: string, deployment: Deployment, environmentId: number) {
    const { settings, engine } = host
    expect(deployment.log()).not.toContain(canary)
    expect(readTree(deployment.dir).includes(canary)).toBe(false)
    expect(readTree(settings.runDir).includes(canary)).toBe(false)
    for (const folder of ['attempts', 'edge', 'bin']) {
      expect(readTree(join(settings.stateDir, folder)).includes(canary), folder).toBe(false)
    }
    for (const file of ['ledger.db', 'ledger.db-wal']) {
      const path = join(settings.stateDir, file)
      if (statSync(path, { throwIfNoEntry: false })) {
        expect(readFileSync(path).includes(canary), file).toBe(false)
      }
    }
    for (const { id, imageId } of await host.containers(environmentId)) {
      const docker = await engine.docker()
      const [container, image] = [docker.getContainer(id), docker.getImage(imageId)]
      const answers = [await container.inspect(), await image.inspect(), await image.history()]
      for (const answer of answers) expect(JSON.stringify(answer)).not.toContain(canary)
    }
    const shown = listProcesses().filter(({ pid }) => readProc(pid, 'cmdline').includes(canary))
    expect(shown).toEqual([])
  }

  const readProc = (pid: number, file: string): string => {
    try {
      return readFileSync(`/proc/${pid}/${file}`, 'latin1')
    } catch {
      return ''
    }
  }

  // several deployments in sequence, each with its waits
  describe.concurrent('', { timeout: 300_000 }, () => {
    it('with two services, data and a release command', async () => {
      const at = 'shop.example.com'
      const repository = host.repository('shop')
      const canary = `canary ${Math.random()} "quoted" $HOME`
      const request: DeployRequest = {
        environmentId: 11,
        host: at,
        variables: { CANARY: canary, OVERRIDDEN: `${canary} too` },
      }
      const firstCommit = repository.commit(shop('one'))
      const begun = host.begin(repository, request)
      const page = await eventually(async () => {
        const answer = await host.get(at).catch(() => undefined)
        return answer?.status === 503 ? answer : undefined
      }, 'the page of a first deployment')
      expect(page.headers['retry-after']).toBeDefined()
      const first = await succeeds(begun)
      expect(first.log()).toContain('release sees 1 starts as hello\n')
      expect(await host.get(at)).toMatchObject({ status: 200, text: 'version one\n' })
      expect((await host.get(at, '/data/release')).text).toBe('done\n')
      const [reported] = first.bodies('services')
      expect(reported?.services).toMatchObject([
        {
          name: 'web',
          hosts: [at],
          port: 8080,
          image: `${host.settings.accountPrefix.replace(/-e$/, '')}/e11-web:${first.taskId}`,
          url: `http://${at}:${host.settings.proxy.http.port}/`,
        },
        { name: 'db', hosts: [], port: 0, url: '' },
      ])
      expect(reported?.services[0]?.imageDigest).toMatch(/^sha256:[0-9a-f]{64}$/)
      expect(first.bodies('actions')[0]?.actions.map(({ name }) => name)).toEqual(['hello'])

      const web = await inspectContainer(host.engine, await idOf(11, 'web'))
      const inside = listProcesses().filter(({ pid, parent }) =>
        [pid, parent].includes(web?.pid ?? 0),
      )
      const environ = inside.map(({ pid }) => readProc(pid, 'environ')).join('')
      expect(environ).toContain(`CANARY=${canary}\0`)
      expect(environ).toContain(`OVERRIDDEN=${canary} too\0`)
      expect(environ).toContain('GREETING=hello\0')
      expect(environ).toContain(`SERVICE_DOMAIN=${at}\0`)
      expect(environ).toContain('PORT=8080\0')
      await expectHidden(canary, first, 11)

      // the database did not change, so it is left alone even when web changes
      const database = await idOf(11, 'db')
      repository.commit(shop('two'))
      const second = await succeeds(await host.run(repository, request))
      expect(await host.get(at)).toMatchObject({ text: 'version two\n' })
      expect(await idOf(11, 'db')).toBe(database)
      expect(second.log()).toContain(
        `db did not change; the container of deployment ${first.taskId} is left running.`,
      )

      // a rollback to a commit whose images are kept builds nothing
      const back = await succeeds(await host.run(repository, { ...request, commit: firstCommit }))
      expect(await host.get(at)).toMatchObject({ text: 'version one\n' })
      expect(back.log()).toContain(`Image of deployment ${first.taskId}: same commit`)
      expect(back.log()).not.toContain('FROM')
      expect(await idOf(11, 'db')).toBe(database)
      expect((await host.get(at, '/data/starts')).text).toBe('start\n')

      // a reset removes the data
      const fresh = await succeeds(await host.run(repository, { ...request, fresh: true }))
      expect(Object.keys(fresh.steps())).toContain('reset')
      expect(await idOf(11, 'db')).not.toBe(database)
      expect((await host.get(at, '/data/starts')).text).toBe('start\n')

      await succeeds(await host.run(repository, { ...request, destroy: true }))
      expect(await host.objects(11)).toEqual([])
      const folder = join(host.settings.stateDir, 'environments', 'e11')
      expect(statSync(folder, { throwIfNoEntry: false })).toBeUndefined()
      expect((await host.get(at)).status).toBe(404)
    })

    it('that changes its recipe, there and back', async () => {
      const at = 'both.example.com'
      const repository = host.repository('both')
      const yaml = `docker: { services: { web: { build: ., port: 8080, health: / } } }
manual: { deploy: [echo manual], services: { worker: { run: exec sleep 1000, stop_timeout: 1s } } }
`
      repository.commit(httpd('one', { '.service.yml': yaml }))
      const request: DeployRequest = { environmentId: 12, host: at }
      const manual = { ...request, recipe: Recipe.MANUAL }
      const isWorkerUp = (): boolean => {
        const ledger = host.ledger()
        try {
          return ledger.listProcesses(12).length > 0
        } finally {
          ledger.close()
        }
      }
      await succeeds(await host.deploy(repository, manual))
      expect(isWorkerUp()).toBe(true)
      await succeeds(await host.run(repository, request))
      expect(isWorkerUp()).toBe(false)
      expect(await host.get(at)).toMatchObject({ text: 'version one\n' })
      await succeeds(await host.deploy(repository, manual))
      expect(isWorkerUp()).toBe(true)
      expect(await host.containers(12)).toEqual([])
      expect((await host.get(at)).status).toBe(404)
      await succeeds(await host.deploy(repository, { ...manual, destroy: true }))
      expect(await host.objects(12)).toEqual([])
    })

    it('whose first deployment fails, is stopped, or dies', async () => {
      const at = 'first.example.com'
      const repository = host.repository('first')
      const request: DeployRequest = { environmentId: 13, host: at }
      const health = '{ path: /nowhere, start_period: 60s }'
      const never = `docker: { services: { web: { build: ., port: 8080, health: ${health} } } }\n`
      const page = async (): Promise<string> => (await host.get(at)).text
      const left = (): Promise<string[]> => host.objects(13)

      repository.commit(httpd('one', { Dockerfile: 'FROM berth-test/busybox\nRUN exit 1\n' }))
      const failed = await host.run(repository, request)
      expect((await failed.verdict()).failedStepId).toBe('build:web')
      const failedPage = await page()
      expect(await left()).toEqual([])

      repository.commit(httpd('one', { Dockerfile: 'FROM berth-test/busybox\nRUN sleep 600\n' }))
      const building = host.begin(repository, request)
      await eventually(() => building.log().includes('RUN sleep 600'), 'the build')
      const deployingPage = await page()
      building.stop('Ada stopped it.')
      expect(await building.verdict()).toMatchObject({
        state: AttemptState.CANCELED,
        message: 'Ada stopped it.',
      })
      const stoppedPage = await page()
      expect(new Set([failedPage, deployingPage, stoppedPage]).size).toBe(3)
      expect(await left()).toEqual([])

      repository.commit(httpd('one', { '.service.yml': never }))
      const starting = host.begin(repository, request)
      const isWaiting = (d: Deployment) => (): boolean =>
        d.steps()['health:web']?.state === StepState.RUNNING
      await eventually(isWaiting(starting), 'the start')
      starting.stop('Enough.')
      expect((await starting.verdict()).state).toBe(AttemptState.CANCELED)
      expect((await left()).filter((name) => name.includes('web'))).toEqual([])

      const killed = host.begin(repository, request)
      await eventually(isWaiting(killed), 'the start')
      killed.child.kill('SIGKILL')
      await killed.ended
      expect((await left()).filter((name) => name.includes(`-web-${killed.taskId}`))).toHaveLength(
        1,
      )
      repository.commit(httpd('two'))
      await succeeds(await host.run(repository, request))
      expect(await page()).toBe('version two\n')
      expect((await left()).filter((name) => /web/.test(name))).toHaveLength(2) // container, image
    })

    it('of a fork, and one whose image has no shell', async () => {
      const at = 'plain.example.com'
      const repository = host.repository('plain')
      const scratch = [
        'FROM scratch',
        'COPY --from=berth-test/busybox /bin/busybox /httpd',
        'COPY www /www',
        'CMD ["/httpd", "-f", "-p", "8080", "-h", "/www"]',
        '',
      ].join('\n')
      // an image that a user loaded by hand, of an unreachable registry
      const foreign = 'localhost:1/foreign/busybox:1'
      await tagImage(host.engine, BUSYBOX_IMAGE, foreign)
      const yaml = `docker:
  services:
    web: { build: ., port: 8080, health: / }
    helper: { image: '${foreign}', command: exec sleep 1000, health: false, stop_timeout: 1s }
`
      repository.commit(httpd('one', { Dockerfile: scratch, '.service.yml': yaml }))
      const variables = { PLAIN: 'set for this code by a member' }
      const request = { environmentId: 14, host: at, variables, untrusted: true }
      const deployment = await succeeds(await host.run(repository, request))
      expect(deployment.log()).toContain(
        'web has no shell; its variables are visible to `docker inspect` on this server.',
      )
      expect(deployment.bodies('warning').map(({ code }) => code)).toEqual(['pull_skipped'])
      expect(await host.get(at)).toMatchObject({ text: 'version one\n' })
      const docker = await host.engine.docker()
      const raw = await docker.getContainer(await idOf(14, 'web')).inspect()
      expect(raw.Config.Env).toContain('PORT=8080')
      expect(raw.Config.Env).toContain(`SERVICE_DOMAIN=${at}`)
      expect(raw.Config.Env).toContain('PLAIN=set for this code by a member')
      expect(raw.Config.User).toBe('65534:65534')
      const network = docker.getNetwork(networkName(host.settings, 14))
      expect(await network.inspect()).toMatchObject({ Internal: true })
      expect(raw.HostConfig).toMatchObject({
        ReadonlyRootfs: true,
        RestartPolicy: { Name: 'unless-stopped' },
      })
      await succeeds(await host.run(repository, { ...request, destroy: true }))
      expect(await host.objects(14)).toEqual([])
      expect(await inspectImage(host.engine, foreign)).toBeDefined()
      await removeImage(host.engine, foreign)
    })
  })
})
