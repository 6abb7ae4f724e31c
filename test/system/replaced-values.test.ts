// After a deployment replaced a value, the server's disk does not contain the old one, with either recipe; a version
// that still runs keeps its own file.
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AttemptState, Recipe } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { DockerHost, httpd } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import type { Deployment, Repository } from '../fixtures/server/deployment.ts'
import { isRoot } from '../fixtures/server/server.ts'
import { ServiceFixture } from '../fixtures/server/service.ts'

const FIRST = 'the-value-that-leaked-1'
const SECOND = 'the-value-of-today-2'

const holding = (folders: string[], value: string): string[] =>
  spawnSync('grep', ['-rlF', value, ...folders], { encoding: 'utf8' })
    .stdout.split('\n')
    .slice(0, -1)

async function succeeded(deployment: Deployment): Promise<Deployment> {
  const verdict = await deployment.verdict()
  const said = deployment.log() + deployment.runnerLog()
  expect([verdict.message, verdict.state], said).toEqual(['', AttemptState.SUCCEEDED])
  return deployment
}

describe('of the manual recipe', () => {
  let fixture: ServiceFixture
  beforeAll(async () => {
    fixture = await ServiceFixture.open()
    fixture.commit({ version: 'one' })
  })
  afterAll(() => fixture.close())

  const deploy = async (TOKEN: string) =>
    succeeded(await fixture.host.deploy(fixture.repository, { variables: { TOKEN } }))

  it('goes with the deployment that replaces it', async () => {
    const { stateDir, runDir } = fixture.host.settings
    const { variables } = environmentPaths(fixture.host.settings, 1)
    const first = await deploy(FIRST)
    expect(holding([stateDir, runDir], FIRST)).toHaveLength(2)
    writeFileSync(join(variables, `${first.taskId}.sh.tmp`), FIRST) // of a writer that died
    const second = await deploy(SECOND)
    expect(holding([stateDir, runDir], FIRST)).toEqual([])
    expect(readdirSync(variables).sort()).toEqual([`${second.taskId}.env`, `${second.taskId}.sh`])
  })

  it('stays while its version serves: a deployment that fails replaces nothing', async () => {
    const { stateDir } = fixture.host.settings
    const good = await deploy(SECOND)
    fixture.commit({ version: 'two', mode: 'crash' })
    const failed = await fixture.host.deploy(fixture.repository, { variables: { TOKEN: FIRST } })
    expect((await failed.verdict()).state).toBe(AttemptState.FAILED)
    expect(holding([stateDir], FIRST)).toEqual([])
    const { variables } = environmentPaths(fixture.host.settings, 1)
    expect(existsSync(join(variables, `${good.taskId}.sh`))).toBe(true)
  })
})

describe.skipIf(!dockerEngine() || missing('caddy') || !isRoot)('of the docker recipe', () => {
  let host: DockerHost
  let repository: Repository
  beforeAll(async () => {
    host = await DockerHost.open()
    repository = host.repository()
  })
  afterAll(() => host.close())

  it('goes with the deployment that replaces it, and with the recipe', {
    timeout: 180_000,
  }, async () => {
    const { stateDir, runDir } = host.settings
    const deploy = async (TOKEN: string, request: object = {}) =>
      succeeded(await host.run(repository, { variables: { TOKEN }, ...request }))
    repository.commit(httpd('one'))
    await deploy(FIRST)
    expect(holding([stateDir, runDir], FIRST)).toHaveLength(2)
    const second = await deploy(SECOND)
    expect(holding([stateDir, runDir], FIRST)).toEqual([])
    const { variables } = environmentPaths(host.settings, 1)
    const own = [`${second.taskId}-web.env`, `${second.taskId}-web.sh`]
    expect(readdirSync(variables).sort()).toEqual(own)
    repository.commit({ '.service.yml': 'manual: { deploy: [echo "manual now"] }\n' })
    const manual = await deploy(FIRST, { recipe: Recipe.MANUAL })
    expect(holding([stateDir, runDir], SECOND)).toEqual([])
    expect(readdirSync(variables).sort()).toEqual([`${manual.taskId}.env`, `${manual.taskId}.sh`])
  })
})
