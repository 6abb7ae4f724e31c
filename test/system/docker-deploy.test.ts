// A docker deployment end to end, with a real engine, edge and Caddy: it answers at its hostname, a redeployment moves
// the traffic, and a removal leaves nothing.
import { join } from 'node:path'
import { AttemptState, FailureCode, StepState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { edgePaths } from '../../agent/src/proxy/paths.ts'
import { readProxyProcess } from '../../agent/src/proxy/process-files.ts'
import { DockerHost, httpd } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { type Repository, readTree } from '../fixtures/server/deployment.ts'
import { isRoot } from '../fixtures/server/server.ts'

const HOST = 'pr-42.shop.example.com'
const SPEAKING = `docker:
  services:
    web: { build: ., port: 8080, health: /, command: 'echo serving one; exec httpd -f -p $PORT -h /www' }
`

describe.skipIf(!dockerEngine() || missing('caddy') || !isRoot)('the docker recipe', () => {
  let host: DockerHost
  let repository: Repository

  beforeAll(async () => {
    host = await DockerHost.open()
    repository = host.repository()
  })
  afterAll(() => host.close())

  it('deploys, redeploys and removes', { timeout: 180_000 }, async () => {
    repository.commit(httpd('one', { '.service.yml': SPEAKING }))
    const first = await host.run(repository)
    expect(await first.verdict(), first.log() + first.runnerLog()).toMatchObject({
      state: AttemptState.SUCCEEDED,
    })
    expect(await host.get(HOST)).toMatchObject({ status: 200, text: 'version one\n' })
    repository.commit(httpd('two'))
    const second = await host.run(repository)
    expect(await second.verdict(), second.log()).toMatchObject({ state: AttemptState.SUCCEEDED })
    expect(await host.get(HOST)).toMatchObject({ status: 200, text: 'version two\n' })
    expect((await host.containers()).map(({ name }) => name)).toEqual([
      `${host.settings.accountPrefix}1-web-${second.taskId}`,
    ])
    const log = readTree(join(host.settings.stateDir, 'logs', 'e1', 'web')).toString()
    expect(log).toContain(`"task":${first.taskId},"text":"serving one"`)

    const caddy = readProxyProcess(edgePaths(host.settings).caddyProcess)
    process.kill(caddy?.pid ?? 0, 'SIGKILL')
    const unroutable = await host.run(repository)
    const verdict = await unroutable.verdict()
    expect(verdict).toMatchObject({
      code: FailureCode.PROXY_UNAVAILABLE,
      failedStepId: 'admit',
      platformCheck: true,
    })
    expect(verdict.message).toMatch(/^Server \S+ cannot route web: /)
    await host.startProxy()
    expect(await host.get(HOST)).toMatchObject({ status: 200, text: 'version two\n' })

    const env = { DOCKER_HOST: 'unix:///nonexistent/docker.sock' }
    const engineless = await host.run(repository, { destroy: true, env })
    expect(await engineless.verdict()).toMatchObject({
      code: FailureCode.DOCKER_UNAVAILABLE,
      failedStepId: 'stop',
    })
    const removal = await host.run(repository, { destroy: true })
    expect(await removal.verdict(), removal.log()).toMatchObject({
      state: AttemptState.SUCCEEDED,
    })
    expect(Object.keys(removal.steps())).toEqual(['unroute', 'stop', 'remove'])
    expect(removal.steps().remove).toMatchObject({ state: StepState.SUCCEEDED })
    expect(await host.objects()).toEqual([])
    expect((await host.get(HOST)).status).toBe(404)
  })
})
