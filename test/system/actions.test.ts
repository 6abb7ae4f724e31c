// Actions on a real server: in the serving release (manual), in the running container (docker). They get the values of
// the deployed version, their failures name the command, and a cancel leaves the application alone.
import { AttemptState, FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DockerHost, httpd } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { type Deployment, eventually, type Repository } from '../fixtures/server/deployment.ts'
import { AgentHost, isRoot } from '../fixtures/server/server.ts'

const ACTIONS = `
actions:
  greet: { run: 'echo "hello $WHO from $(basename "$PWD")"' }
  fail: { run: 'echo almost; exit 3' }
  hang: { run: 'echo waiting; sleep 600' }
  late: { run: 'sleep 600', timeout: 1s }
`

interface Side {
  host: AgentHost
  act: (action: string, environmentId?: number) => Deployment
}

function behaves(side: () => Side): void {
  it('runs with the values of what is deployed, which are masked', async () => {
    const done = side().act('greet')
    expect(await done.verdict(), done.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    expect(done.log()).toContain('hello *** from ')
    expect(Object.keys(done.steps())).toEqual(['command'])
  })

  it('fails with the command, its exit code and output', async () => {
    const done = side().act('fail')
    expect(await done.verdict()).toMatchObject({
      state: AttemptState.FAILED,
      code: FailureCode.STEP_FAILED,
      message: '`echo almost; exit 3` exited with 3.',
      exitCode: 3,
      platformCheck: false,
    })
    expect(done.log()).toContain('almost')
  })

  it('ends with its time, and with a stop: nothing of it is left', async () => {
    const late = side().act('late')
    expect(await late.verdict()).toMatchObject({ code: FailureCode.TIMEOUT })
    const hung = side().act('hang')
    await eventually(() => hung.hasSaid('waiting'), 'the action to run')
    hung.stop('user')
    expect(await hung.verdict()).toMatchObject({ state: AttemptState.CANCELED })
    expect(hung.processes()).toBe(0)
    expect(late.processes()).toBe(0)
  })

  it('says what is not there', async () => {
    expect(await side().act('nothing').verdict()).toMatchObject({
      code: FailureCode.ACTION_UNKNOWN,
      message: expect.stringMatching(/^The last deployment \(\d+\) has no action nothing\.$/),
    })
    expect(await side().act('greet', 99).verdict()).toMatchObject({
      code: FailureCode.NOT_DEPLOYED,
    })
  })
}

describe('actions of the manual recipe', () => {
  let host: AgentHost
  let repository: Repository
  beforeAll(async () => {
    host = new AgentHost()
    repository = host.repository()
    repository.commit({ '.service.yml': `manual: { deploy: ['true'] }\n${ACTIONS}` })
    const done = await host.deploy(repository, { variables: { WHO: 'the-whole-world' } })
    expect(await done.verdict(), done.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
  })
  afterAll(() => host.close())

  behaves(() => ({
    host,
    act: (action, environmentId = 1) => host.start(repository, { action, environmentId }),
  }))
})

describe.skipIf(!dockerEngine() || missing('caddy') || !isRoot)('actions in a container', () => {
  let host: DockerHost
  let repository: Repository
  beforeAll(async () => {
    host = await DockerHost.open()
    repository = host.repository()
    const file = httpd('one')['.service.yml'] as string
    repository.commit({ ...httpd('one'), '.service.yml': `${file}${ACTIONS}` })
    const done = await host.run(repository, { variables: { WHO: 'the-whole-world' } })
    expect(await done.verdict(), done.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
  })
  afterAll(() => host.close())

  behaves(() => ({
    host,
    act: (action, environmentId = 1) => host.begin(repository, { action, environmentId }),
  }))

  it('leaves the application serving', async () => {
    expect((await host.get('pr-42.shop.example.com')).text).toBe('version one\n')
    expect((await host.containers()).map(({ state }) => state)).toEqual(['running'])
  })
})
