// A rollback with the manual recipe: it uses the release that the server kept, without running the deploy steps again.
import { readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { AttemptState, FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { openEdge } from '../../agent/src/proxy/client.ts'
import { recoverManual } from '../../agent/src/runner/manual/recover.ts'
import type { Deployment } from '../fixtures/server/deployment.ts'
import type { DeployRequest } from '../fixtures/server/server.ts'
import { answer, ServiceFixture } from '../fixtures/server/service.ts'

let fixture: ServiceFixture
beforeAll(async () => {
  fixture = await ServiceFixture.open()
})
afterAll(() => fixture.close())

const ENVIRONMENT = 30
const run = (request: DeployRequest = {}) =>
  fixture.host.deploy(fixture.repository, { environmentId: ENVIRONMENT, ...request })

/** A commit whose deploy step leaves a file that is not in the repository. */
function commit(version: string): string {
  const yaml = `manual:
  deploy: ['echo building ${version}; echo ${version} > built']
  services:
    web:
      port: auto
      run: test -e built; exec ${fixture.host.node} server.mjs
      health: { path: /up, start_period: 5s, interval: 1s, retries: 2 }
      env: { VERSION: ${version} }
      stop_timeout: 2s
actions:
  where: { run: 'echo "built $(cat built) in $(basename "$PWD")"' }
`
  return fixture.repository.commit({ '.service.yml': yaml }, version)
}

async function succeeds(deployment: Deployment): Promise<Deployment> {
  const verdict = await deployment.verdict()
  expect(verdict.state, deployment.log() + deployment.runnerLog()).toBe(AttemptState.SUCCEEDED)
  return deployment
}
const current = () => readlinkSync(environmentPaths(fixture.host.settings, ENVIRONMENT).current)
const serves = () => answer(fixture.rows(ENVIRONMENT)[0]?.port)

it('uses the kept release as it is, also for actions, and after a recovery', async () => {
  const one = commit('one')
  const first = await succeeds(await run())
  commit('two')
  await succeeds(await run())
  const back = await succeeds(await run({ commit: one, reuseRelease: true }))
  expect(back.log()).toContain(`Release ${first.taskId} of this commit is kept`)
  expect(back.log()).not.toContain('building')
  expect(await serves()).toBe('one')
  const release = join('releases', String(first.taskId))
  expect(current()).toBe(release)
  const action = await succeeds(await run({ action: 'where' }))
  expect(action.log()).toContain(`built one in ${first.taskId}`)
  const ledger = fixture.host.ledger()
  const { settings } = fixture.host
  await recoverManual(
    { settings, ledger, edge: openEdge(settings) },
    { environmentId: ENVIRONMENT },
  )
  ledger.close()
  expect(current()).toBe(release)
})

it('without the wish, the steps of the same commit run again in a release of its own', async () => {
  const again = await succeeds(await run({ commit: fixture.repository.git('rev-parse', 'HEAD~1') }))
  expect(again.log()).toContain('building one')
  expect(current()).toBe(join('releases', String(again.taskId)))
})

it('a rollback that fails leaves the version before, and the release that it tried', async () => {
  const good = await succeeds(await run({ commit: fixture.repository.git('rev-parse', 'HEAD') }))
  const old = fixture.repository.git('rev-parse', 'HEAD~1')
  // the variable breaks the version that is rolled back to, not its files
  const broken = await run({ commit: old, reuseRelease: true, variables: { MODE: 'crash' } })
  const verdict = await broken.verdict()
  if (verdict.state === AttemptState.SUCCEEDED) throw new Error(broken.log())
  expect(verdict.code).toBe(FailureCode.HEALTH_CHECK_FAILED)
  expect(await serves()).toBe('two')
  expect(current()).toBe(join('releases', String(good.taskId)))
  const back = await succeeds(await run({ commit: old, reuseRelease: true }))
  expect(back.log()).toContain('of this commit is kept')
  expect(await serves()).toBe('one')
})

it('runs the steps where no release of the commit is kept', async () => {
  const three = commit('three')
  const done = await succeeds(await run({ commit: three, reuseRelease: true }))
  expect(done.log()).toContain('building three')
  expect(await serves()).toBe('three')
})
