// A Procfile, deployed by a real runner: its lines are services, `release` runs once before they start, and a failure
// of it keeps the version before.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { AttemptState, FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { readPageBefore } from '../../agent/src/service-logs/pages.ts'
import { readLastLines } from '../../agent/src/service-logs/writer.ts'
import { answer, ServiceFixture } from '../fixtures/server/service.ts'

let fixture: ServiceFixture
beforeAll(async () => {
  fixture = await ServiceFixture.open()
})
afterAll(() => fixture.close())

it('makes services of its lines, and runs release once, after the steps and before them', async () => {
  const { host, repository } = fixture
  const note = (what: string): string => `echo ${what} >>"$BERTH_SHARED_DIR/order"`
  const procfile = (release: string): string =>
    `web: ${note('web')}; VERSION=one exec ${host.node} server.mjs\nclock: ${note('clock')}; exec sleep 600\nrelease: ${release}\n`
  repository.commit({
    Procfile: procfile(note('release')),
    '.service.yml': `manual:
  deploy: [${JSON.stringify(note('step'))}]
  procfile: Procfile
  services: { web: { health: /up, env: { MODE: "" } } }
`,
  })
  const first = await host.deploy(repository, {})
  const verdict = await first.verdict()
  expect(verdict.state, `${verdict.message} ${first.log()}`).toBe(AttemptState.SUCCEEDED)
  const { shared, logs } = environmentPaths(host.settings, 1)
  const order = readFileSync(join(shared, 'order'), 'utf8').trim().split('\n')
  expect(order.slice(0, 2)).toEqual(['step', 'release'])
  expect(order.slice(2).sort()).toEqual(['clock', 'web'])
  const rows = fixture.rows(1)
  expect(rows.map(({ service }) => service).sort()).toEqual(['clock', 'web'])
  const port = rows.find(({ service }) => service === 'web')?.port
  expect(await answer(port)).toBe('one')
  expect(readLastLines(join(logs, 'web'), first.taskId)).toEqual(['started one'])
  const page = await readPageBefore(host.settings, {
    environmentId: 1,
    services: ['web'],
    limit: 10,
    signal: new AbortController().signal,
  })
  expect(page.records.map(({ service, text }) => [service, text])).toEqual([['web', 'started one']])
  expect(page.isLast).toBe(true)

  repository.commit({ Procfile: procfile('exit 3') })
  const second = await host.deploy(repository, {})
  expect(await second.verdict()).toMatchObject({
    state: AttemptState.FAILED,
    code: FailureCode.STEP_FAILED,
    failedStepId: 'release',
  })
  expect(await answer(port)).toBe('one')

  repository.commit({ Procfile: null })
  const third = await host.deploy(repository, {})
  const missing = await third.verdict()
  expect(missing.code).toBe(FailureCode.CONFIG_INVALID)
  expect(missing.message).toContain('manual.procfile names Procfile, which is not a file')
  expect(await answer(port)).toBe('one')
})
