// A docker deployment from end to end, with a real engine, edge and Caddy: it answers at its host, a redeployment moves
// the traffic, and a removal leaves nothing.
import { AttemptState, StepState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { dockerEngine, missing } from '../components.ts'
import { isRoot } from './agent-host.ts'
import type { Repository } from './deployment.ts'
import { DockerHost, httpd } from './docker-lab.ts'

const HOST = 'pr-42.shop.example.com'

describe.skipIf(!dockerEngine() || missing('caddy') || !isRoot)('the docker recipe', () => {
  let host: DockerHost
  let repository: Repository

  beforeAll(async () => {
    host = await DockerHost.open()
    repository = host.repository()
  })
  afterAll(() => host.close())

  it('deploys, redeploys and removes', async () => {
    repository.commit(httpd('one'))
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
