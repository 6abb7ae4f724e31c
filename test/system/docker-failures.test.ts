// Every failure of a docker deployment, provoked for real: its code, step and message. The previous version answers
// before, during and after, and the engine's objects are unchanged.
import { AttemptState, FailureCode, StepState } from '@berth/shared/wire'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { answerHosts, openHostQuestion } from '../../agent/src/journal/hostname-files.ts'
import { getContainer } from '../../agent/src/machine/docker/engine.ts'
import { DockerHost, httpd } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import {
  type Deployment,
  eventually,
  type Files,
  type Repository,
} from '../fixtures/server/deployment.ts'
import { Visitor } from '../fixtures/server/proxy-server.ts'
import { type DeployRequest, isRoot } from '../fixtures/server/server.ts'

const HOST = 'pr-42.shop.example.com'

describe.skipIf(!dockerEngine() || missing('caddy') || !isRoot)('a failed deployment', () => {
  let host: DockerHost
  let repository: Repository
  let before: string[]
  let visitor: Visitor
  /** Its log explains leftovers. */
  let newest: Deployment | undefined

  beforeAll(async () => {
    host = await DockerHost.open()
    repository = host.repository()
    repository.commit(
      httpd('one', {
        '.service.yml': `docker:
  services:
    web: { build: ., port: 8080, health: / }
    queue: { build: ., command: exec sleep 1000, health: false }
`,
      }),
    )
    const first = await host.run(repository)
    expect(await first.verdict(), first.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    before = await host.objects(1)
  })
  afterAll(() => host.close())
  beforeEach(() => {
    visitor = new Visitor(host, HOST)
  })
  afterEach(async () => {
    const seen = await visitor.stop()
    expect(seen, [...visitor.refusals, newest?.log()].join('\n')).toEqual(['version one'])
    expect(await host.objects(1), newest?.log()).toEqual(before)
  })

  const yaml = (web: string, more = ''): Files => ({
    '.service.yml': `docker:\n  services:\n    web: { build: ., port: 8080, ${web} }\n${more}`,
  })

  async function fails(files: Files, request: DeployRequest = {}): Promise<Deployment> {
    repository.commit(httpd('two', files))
    const deployment = await host.run(repository, request)
    newest = deployment
    const verdict = await deployment.verdict()
    expect(verdict.state, deployment.log()).toBe(AttemptState.FAILED)
    expect(deployment.steps()[verdict.failedStepId]?.state).toBe(StepState.FAILED)
    return deployment
  }

  it('of a build names the instruction and its last lines', async () => {
    const dockerfile = 'FROM berth-test/busybox\nRUN echo all is lost; exit 3\n'
    const failed = await fails({ Dockerfile: dockerfile })
    expect(await failed.verdict()).toMatchObject({
      code: FailureCode.BUILD_FAILED,
      failedStepId: 'build:web',
      exitCode: 3,
      platformCheck: false,
      message: '`RUN echo all is lost; exit 3` exited with 3. Its last lines:\nall is lost',
    })
  })

  it.each([
    ['no Dockerfile', { Dockerfile: null }, /Dockerfile/],
    ['a Dockerfile outside', { Dockerfile: { link: '/etc/passwd' } }, /leads out of the checkout/],
  ] as [string, Files, RegExp][])('of %s is one of the build', async (_name, files, message) => {
    const verdict = await (await fails(files)).verdict()
    expect(verdict).toMatchObject({ code: FailureCode.BUILD_FAILED, failedStepId: 'build:web' })
    expect(verdict.message).toMatch(message)
  })

  it('tells a full disk apart from a build that failed', async () => {
    const run = 'RUN echo "write error: No space left on device"; exit 1'
    const failed = await fails({ Dockerfile: `FROM berth-test/busybox\n${run}\n` })
    expect(await failed.verdict()).toMatchObject({
      code: FailureCode.DISK_FULL,
      failedStepId: 'build:web',
    })
  })

  it('of health shows the last answer and the last lines', async () => {
    const command = 'echo started; exec httpd -f -p 8080 -h /www'
    const health = '{ path: /nowhere, start_period: 1s, interval: 1s, retries: 2 }'
    const failed = await fails(yaml(`command: '${command}', health: ${health}`))
    const verdict = await failed.verdict()
    expect(verdict).toMatchObject({
      code: FailureCode.HEALTH_CHECK_FAILED,
      failedStepId: 'health:web',
    })
    expect(verdict.message).toMatch(
      /^GET \/nowhere answered 404 twice in a row \(first line: [^)]+\)\. Nothing answers GET \/nowhere/,
    )
    expect(verdict.message).toMatch(/Its last lines:\nstarted$/)
    expect(failed.log()).toContain('-web-')
  })

  it.each([
    ['another port', '0.0.0.0:4000'],
    ['loopback', '127.0.0.1:8080'],
  ])('of a program on %s names it before the deployment ends', async (_name, place) => {
    repository.commit(
      httpd(
        'two',
        yaml(
          `command: 'exec httpd -f -p ${place} -h /www', health: { path: /, start_period: 10m }`,
        ),
      ),
    )
    const deployment = host.begin(repository)
    newest = deployment
    const shown = place.replaceAll('.', '\\.')
    const warning = new RegExp(
      `Warning: web listens on ${shown}, but its port is 8080: listen on 0\\.0\\.0\\.0:\\$PORT\\.`,
    )
    await eventually(() => warning.test(deployment.log()) || undefined, 'the warning')
    deployment.stop('seen')
    expect((await deployment.verdict()).state).toBe(AttemptState.CANCELED)
  })

  it('of a container that ends comes at once, with its exit code', async () => {
    const failed = await fails(yaml("command: 'echo no database; exit 7', health: /"))
    const verdict = await failed.verdict()
    expect(verdict).toMatchObject({
      code: FailureCode.HEALTH_CHECK_FAILED,
      failedStepId: 'health:web',
    })
    expect(verdict.message).toMatch(
      /^web stopped after \d+\.\d s with exit code 7\. Its last lines:\nno database$/,
    )
  })

  it('of a program that is not there names it', async () => {
    const failed = await fails(yaml('command: [/no/such/program], health: /'))
    const verdict = await failed.verdict()
    expect(verdict.code).toBe(FailureCode.HEALTH_CHECK_FAILED)
    expect(verdict.message).toContain('/no/such/program')
  })

  it('for memory says so', async () => {
    const eat = 'x=a; while true; do x=$x$x; done'
    const failed = await fails(yaml(`command: '${eat}', memory: 16m, health: /`))
    const verdict = await failed.verdict()
    expect(verdict).toMatchObject({ code: FailureCode.OUT_OF_MEMORY, failedStepId: 'health:web' })
    expect(verdict.message).toMatch(
      /^web was stopped by the kernel after .* it needed more than its 16 MiB\. Raise 'memory' of web in \.service\.yml\./,
    )
  })

  it('of a release command keeps the version before', async () => {
    const failed = await fails(yaml("release: 'echo cannot migrate; exit 4'"))
    expect(await failed.verdict()).toMatchObject({
      code: FailureCode.RELEASE_FAILED,
      failedStepId: 'release:web',
      exitCode: 4,
      platformCheck: false,
      message: '`echo cannot migrate; exit 4` exited with 4. What it did to data stays.',
    })
    expect(failed.log()).toContain('cannot migrate\n')
  })

  it('of a service without a route starts the old one again', async () => {
    const more = "    queue: { build: ., command: 'sleep 0.2; exit 5' }\n"
    const failed = await fails(yaml('depends_on: [queue], health: /', more))
    const verdict = await failed.verdict()
    expect(verdict).toMatchObject({
      code: FailureCode.HEALTH_CHECK_FAILED,
      failedStepId: 'health:queue',
    })
    expect(verdict.message).toContain('with exit code 5')
    expect(failed.log()).toMatch(/queue of deployment \d+ was started again/)
  })

  it('of an image that nobody has is one of the pull', async () => {
    const more = "    db: { image: 'localhost:1/no/such:1' }\n"
    const verdict = await (await fails(yaml('health: /', more))).verdict()
    expect(verdict).toMatchObject({
      code: FailureCode.IMAGE_PULL_FAILED,
      failedStepId: 'pull:db',
    })
    expect(verdict.message).toMatch(/^`localhost:1\/no\/such:1`: /)
  })

  it('without an engine is told in the first step, and the fetch that had begun tells nothing', async () => {
    const failed = await fails({}, { env: { DOCKER_HOST: 'unix:///nonexistent/docker.sock' } })
    const verdict = await failed.verdict()
    expect(verdict).toMatchObject({
      code: FailureCode.DOCKER_UNAVAILABLE,
      failedStepId: 'admit',
      platformCheck: true,
    })
    expect(verdict.message).toMatch(/has no working Docker engine: .*ENOENT/)
    expect(verdict.message).toContain('Install Docker 20.10 or newer, or use the manual recipe.')
    expect(failed.bodies('commit')).toEqual([])
    expect(failed.log()).not.toContain('Fetching')
    expect(failed.steps().fetch?.state).toBe(StepState.SKIPPED)
  })

  it('for a host that another environment has is told before anything is built', async () => {
    const domain = 'docs.example.org'
    repository.commit(httpd('two', yaml(`domain: ${domain}, health: /`)))
    const deployment = host.begin(repository)
    // the daemon's part: it asks the control plane and writes the answer
    const question = await eventually(() => openHostQuestion(deployment.dir), 'the question')
    expect(question.hosts).toEqual([domain])
    const message = `${domain} is used by shop / staging.`
    const claims = [{ host: domain, verdict: 'taken' as const, message }]
    answerHosts(deployment.dir, { id: question.id, claims, refused: '' })
    const verdict = await deployment.verdict()
    expect(verdict).toMatchObject({
      code: FailureCode.DOMAIN_IN_USE,
      failedStepId: 'claim-hosts',
    })
    expect(verdict.message).toContain(message)
  })

  it('of the file is told with its place', async () => {
    const failed = await fails({ '.service.yml': 'manual: { deploy: [echo x] }\n' })
    expect(await failed.verdict()).toMatchObject({
      code: FailureCode.CONFIG_INVALID,
      failedStepId: 'read-config',
    })
  })

  describe('after the switch', () => {
    /** Interferes in the middle of the proof. */
    async function disturbed(
      act: (deployment: Deployment) => Promise<unknown>,
    ): Promise<Deployment> {
      repository.commit(httpd('two'))
      const deployment = host.begin(repository)
      newest = deployment
      await eventually(
        () => deployment.steps()['verify:web']?.state === StepState.RUNNING,
        'the proof',
      )
      await act(deployment)
      await deployment.ended
      return deployment
    }
    const newContainer = ({ taskId }: Deployment): string =>
      `${host.settings.accountPrefix}1-web-${taskId}`
    const restart = async (name: string): Promise<void> => {
      await (await getContainer(host.engine, name)).restart({ t: 0 })
    }

    // the new version may be visible for a moment: it was switched in, then the old one came back
    const isSwitched = async (...more: string[]): Promise<void> => {
      const seen = await visitor.stop()
      const others = seen.filter((said) => said !== 'version two' && !more.includes(said))
      expect(others).toEqual(['version one'])
      visitor = new Visitor(host, HOST)
      await eventually(() => visitor.seen.size > 0, 'an answer')
    }

    it('a restart is noticed', async () => {
      const deployment = await disturbed((d) => restart(newContainer(d)))
      const verdict = await deployment.verdict()
      expect(verdict).toMatchObject({
        code: FailureCode.VERIFY_FAILED,
        failedStepId: 'verify:web',
      })
      // depends on the moment of the check: after the restart, or between its stop and its start
      expect(verdict.message).toMatch(
        /^web (?:was started again while it was watched|stopped with exit code 143)\./,
      )
      await isSwitched('status 503') // nothing answers there during the restart
    })

    it('a stop waits for the end of the proof, and takes everything back', async () => {
      const deployment = await disturbed(async (d) => d.stop('Not today.'))
      expect(await deployment.verdict()).toMatchObject({
        state: AttemptState.CANCELED,
        message: 'Not today.',
      })
      expect(deployment.steps()['verify:web']?.state).toBe(StepState.SUCCEEDED)
      await isSwitched()
    })

    it('a table that leads elsewhere is noticed', async () => {
      const { routes = [] } = (await host.edge.getRoutes(1)) ?? {}
      const deployment = await disturbed(() =>
        host.edge.setRoutes({ environmentId: 1, fence: 1_000n, routes }),
      )
      const verdict = await deployment.verdict()
      expect(verdict).toMatchObject({
        code: FailureCode.VERIFY_FAILED,
        failedStepId: 'verify:web',
      })
      expect(verdict.message).toMatch(
        new RegExp(`^${HOST} still answers from the version before \\(10\\.`),
      )
      await isSwitched()
    })
  })
})
