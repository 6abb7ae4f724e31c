// Settings of docker services: health checks by command, by port and by the image, services without an address, a
// database whose first start takes long or happens beside a service that fails, and what a container runs with. Each has
// its own environment.
import { readFileSync } from 'node:fs'
import { AttemptState, FailureCode, LifecycleVerb } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listProcesses } from '../../agent/src/machine/process/processes.ts'
import { DockerHost, httpd } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import type { Deployment, Files } from '../fixtures/server/deployment.ts'
import { type DeployRequest, isRoot } from '../fixtures/server/server.ts'

/** Needs some seconds to create its files, and breaks if it is ended meanwhile. */
const database = (seconds: number): string =>
  [
    'FROM berth-test/busybox',
    `CMD ["/bin/sh", "-c", "[ -e /data/begun ] && ! [ -e /data/ready ] && echo broken && exit 1; touch /data/begun; sleep ${seconds}; touch /data/ready; exec httpd -f -p 5432"]`,
    '',
  ].join('\n')

const withDatabase = (web: string): string => `docker:
  volumes: [data]
  services:
    web: { build: ., port: 8080, depends_on: [db], volumes: ['data:/data'], ${web} }
    db:
      build: db
      port: 5432
      public: false
      volumes: ['data:/data']
      health: { command: 'test -e /data/ready', start_period: 2m }
`
const RELEASE = "release: 'ls /data; echo released >> /data/releases; cat /data/releases'"

/** Empty when the process has ended. */
function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}

describe.skipIf(!dockerEngine() || missing('caddy') || !isRoot)('a docker service', () => {
  let host: DockerHost

  beforeAll(async () => {
    host = await DockerHost.open()
  })
  afterAll(() => host.close())

  async function run(files: Files, request: DeployRequest, repository = host.repository()) {
    repository.commit(httpd('one', files))
    return host.run(repository, request)
  }

  async function succeeds(deployment: Deployment): Promise<string> {
    expect((await deployment.verdict()).state, deployment.log()).toBe(AttemptState.SUCCEEDED)
    return deployment.log()
  }

  async function refusal(deployment: Deployment): Promise<string> {
    const { code, message } = await deployment.verdict()
    expect(code, deployment.log()).toBe(FailureCode.HEALTH_CHECK_FAILED)
    return message
  }

  const containersOf = async (environmentId: number, service: string) =>
    (await host.containers(environmentId)).filter(
      ({ labels }) => labels['dev.berth.service'] === service,
    )

  it('that starts for 30 s is waited for; the release command runs once, when it is ready', async () => {
    const files = { 'db/Dockerfile': database(30), '.service.yml': withDatabase(RELEASE) }
    const log = await succeeds(await run(files, { environmentId: 61 }))
    expect(log).toMatch(/db is healthy\.[\s\S]*begun\nready[\s\S]*web is healthy/)
    expect(log.match(/^.*released$/gm)).toHaveLength(1)
  })

  it('that starts for the first time stays when another one fails, and serves the next try', async () => {
    const repository = host.repository()
    const files = (web: string) => ({
      'db/Dockerfile': database(3),
      '.service.yml': withDatabase(web),
    })
    const broken = await run(files("command: 'exit 3'"), { environmentId: 62 }, repository)
    expect(await refusal(broken)).toContain(
      'First start, so left running for the next deployment: db.',
    )
    const [left, ...others] = await containersOf(62, 'db')
    expect([left?.state, others]).toEqual(['running', []])
    expect(await containersOf(62, 'web')).toEqual([])
    const log = await succeeds(await run(files(RELEASE), { environmentId: 62 }, repository))
    expect(log).toContain('db did not change')
    expect((await containersOf(62, 'db')).map(({ id }) => id)).toEqual([left?.id])
    await succeeds(await host.run(repository, { environmentId: 62, destroy: true }))
    expect(await host.objects(62)).toEqual([])
  })

  it('that fails by itself in its first start does not stay', async () => {
    const yaml = withDatabase('health: false').replace('test -e /data/ready', 'false')
    const files = {
      'db/Dockerfile': database(0),
      '.service.yml': yaml.replace('2m', '1s, retries: 1'),
    }
    const message = await refusal(await run(files, { environmentId: 63 }))
    expect(message).toMatch(/^`false` exited with 1\./)
    expect(await containersOf(63, 'db')).toEqual([])
  })

  it('is asked by the HEALTHCHECK of its image when the file names no check', async () => {
    const image = (check: string): Files => ({
      Dockerfile: `FROM berth-test/busybox\nHEALTHCHECK --retries=1 CMD ${check}\nCMD ["httpd", "-f", "-p", "8080"]\n`,
      '.service.yml':
        'docker: { services: { web: { build: ., port: 8080, health: { start_period: 1s } } } }\n',
    })
    const repository = host.repository()
    await succeeds(await run(image('pidof httpd'), { environmentId: 64 }, repository))
    const failed = await run(image('echo no queue; exit 5'), { environmentId: 64 }, repository)
    expect(await refusal(failed)).toMatch(/^`echo no queue; exit 5` exited with 5 \(no queue\)\./)
  })

  it('is asked the same way after a restart without a deployment', async () => {
    const repository = host.repository()
    const files = {
      'queue/Dockerfile':
        'FROM berth-test/busybox\nHEALTHCHECK CMD test -e /tmp/up\nCMD ["/bin/sh", "-c", "sleep 1; touch /tmp/up; exec sleep 1000"]\n',
      '.service.yml':
        'docker: { services: { web: { build: ., port: 8080, health: / }, queue: { build: queue, stop_timeout: 1s } } }\n',
    }
    await succeeds(await run(files, { environmentId: 69 }, repository))
    const lifecycle = { verb: LifecycleVerb.RESTART, service: 'queue' }
    const log = await succeeds(await host.run(repository, { environmentId: 69, lifecycle }))
    expect(log).toContain('queue is healthy.')
  })

  it('gets its variables in a check, and a check that hangs is ended', async () => {
    const yaml = (health: string): Files => ({
      '.service.yml': `docker: { services: { web: { build: ., port: 8080, health: { ${health}, start_period: 1s, retries: 1 } } } }\n`,
    })
    const repository = host.repository()
    const request = { environmentId: 65, variables: { MODE: 'fast' } }
    await succeeds(await run(yaml(`command: 'test "$MODE" = fast'`), request, repository))
    const hangs = await run(yaml("command: [sleep, '86399'], timeout: 1s"), request, repository)
    expect(await refusal(hangs)).toMatch(/^`sleep 86399` did not end in 1000 ms/)
    const lines = listProcesses().map(({ pid }) => commandLine(pid))
    expect(lines.filter((line) => line.includes('86399'))).toEqual([])
  })

  it('with a port and without an address is checked, and nobody reaches it from outside', async () => {
    const yaml = `docker:
  services:
    web: { build: ., port: 8080, health: / }
    api: { build: ., port: 8080, public: false, health: { path: /, port: 8080 } }
`
    const deployment = await run({ '.service.yml': yaml }, { environmentId: 66, host: 'e66.test' })
    expect(await succeeds(deployment)).toContain('api is healthy.')
    const shown = deployment.bodies('services')[0]?.services
    expect(shown?.map(({ name, port, url }) => [name, port, url !== ''])).toEqual([
      ['web', 8080, true],
      ['api', 0, false],
    ])
    expect((await host.get('e66.test')).status).toBe(200)
    expect((await host.get('api-e66.test')).status).toBe(404)
    const refused = await run(
      {
        '.service.yml': yaml.replace('port: 8080 } }', 'port: 1, start_period: 1s, retries: 1 } }'),
      },
      { environmentId: 67, host: 'e67.test' },
    )
    expect(await refusal(refused)).toMatch(/^GET \/ got no answer on port 1/)
  })

  it('runs with the entrypoint, user, folders, signal and variables that the file names', async () => {
    const yaml = `docker:
  services:
    web:
      build: .
      port: 8080
      entrypoint: [/bin/sh, -ec]
      command: ['{ id -u; id -g; df -k /srv /dev/shm; env; } > /srv/index.html; exec httpd -f -p 8080 -h /srv']
      user: '1000:1001'
      tmpfs: ['/srv:8m']
      shm_size: 32m
      stop_signal: SIGINT
      env: { HIDDEN: default }
      variables: [GIVEN, ABSENT]
    other: { build: ., port: 8080, public: false }
`
    const request = { environmentId: 68, host: 'e68.test', variables: { GIVEN: 'a', HIDDEN: 'b' } }
    const log = await succeeds(await run({ '.service.yml': yaml }, request))
    expect(log).toContain('Warning: web lists variables that are not set: ABSENT.')
    const { text } = await host.get('e68.test')
    expect(text).toMatch(/^1000\n1001\n/)
    expect(text).toMatch(/ 8192 .*\/srv\n.* 32768 .*\/dev\/shm\n/)
    expect(text).toMatch(/^GIVEN=a$/m)
    expect(text).toMatch(/^HIDDEN=default$/m)
    expect(text).toMatch(/^SERVICE_DOMAIN=e68\.test$/m)
    const [web] = await containersOf(68, 'web')
    const container = (await host.engine.docker()).getContainer(web?.id ?? '')
    expect((await container.inspect()).Config).toMatchObject({ StopSignal: 'SIGINT' })
  })
})
