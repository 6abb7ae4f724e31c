// Supervised processes during their deployment: replaced with or without a gap, proven, rolled back. Requests reach the
// old version before, during and after.
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { AttemptState, FailureCode, StepState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { readLastLines } from '../../agent/src/service-logs/writer.ts'
import { eventually } from '../fixtures/server/deployment.ts'
import { answer, eventuallyAnswers, freePort, ServiceFixture } from '../fixtures/server/service.ts'

let fixture: ServiceFixture
beforeAll(async () => {
  fixture = await ServiceFixture.open()
})
afterAll(() => fixture.close())

describe('with an automatic port', () => {
  it.each([
    ['crash', /^web stopped with exit code 9 after .* Its last line: cannot find the database$/],
    [
      'sick',
      /^GET \/up answered 500 twice in a row \(first line: not well\)\. The application itself failed: its log says why\./,
    ],
    [
      'elsewhere',
      /web listens on 127\.0\.0\.1:\d+, but its port is \d+: listen on 127\.0\.0\.1:\$PORT\./,
    ],
    ['deaf', /^GET \/up got no answer on port \d+ twice in a row \(ECONNREFUSED\)\./],
  ])('a version that is %s never replaces the one before', async (mode, message) => {
    if (fixture.rows(10).length === 0) await fixture.deployed(10, { version: 'good' })
    const [first] = fixture.rows(10)
    if (!first) throw new Error('no process')
    const { port } = first
    const health = '{ path: /up, start_period: 3s, interval: 1s, retries: 2 }'
    fixture.commit({ version: 'bad', mode, health })
    const second = await fixture.host.deploy(fixture.repository, { environmentId: 10 })
    const verdict = await second.verdict()
    expect(verdict).toMatchObject({
      state: AttemptState.FAILED,
      code: FailureCode.HEALTH_CHECK_FAILED,
      failedStepId: 'health:web',
      platformCheck: true,
    })
    expect(verdict.message).toMatch(message)
    expect(second.log()).toMatch(/Last \d+ lines of web:\r?\nstarted bad/)
    expect(await answer(port)).toBe('good')
    expect(fixture.rows(10).map(({ taskId, state }) => [taskId, state])).toEqual([
      [first.taskId, 'serving'],
    ])
    expect(fixture.state(10, second.taskId)).toBeUndefined()
  })

  it('is asked by a command as its own user, with its port and variables', async () => {
    const check = (command: string): string =>
      `{ command: '${command}', start_period: 1s, retries: 1, timeout: 5s }`
    const health = check(
      'test "$(id -un)" = "$(stat -c %U .)" && test -n "$PORT" && test "$WORD" = yes',
    )
    fixture.commit({ version: 'good', health })
    const request = { environmentId: 13, variables: { WORD: 'yes' } }
    const good = await fixture.host.deploy(fixture.repository, request)
    expect((await good.verdict()).state, good.log()).toBe(AttemptState.SUCCEEDED)
    const port = fixture.rows(13)[0]?.port
    fixture.commit({ version: 'bad', health: check('echo the queue is full; exit 4') })
    const verdict = await (await fixture.host.deploy(fixture.repository, request)).verdict()
    expect(verdict).toMatchObject({
      code: FailureCode.HEALTH_CHECK_FAILED,
      failedStepId: 'health:web',
    })
    expect(verdict.message).toMatch(
      /^`echo the queue is full; exit 4` exited with 4 \(the queue is full\)\./,
    )
    expect(await answer(port)).toBe('good')
  })

  it('canceled while it waits for health, stops the new one and keeps the old one', async () => {
    await fixture.deployed(12, { version: 'good' })
    const port = fixture.rows(12)[0]?.port
    fixture.commit({ version: 'slow', mode: 'deaf' })
    const deployment = fixture.host.start(fixture.repository, { environmentId: 12 })
    await eventually(() => deployment.steps()['health:web'], 'the health check')
    deployment.stop('not wanted')
    expect((await deployment.verdict()).state).toBe(AttemptState.CANCELED)
    expect(deployment.steps()['health:web']).toMatchObject({ state: StepState.CANCELED })
    expect(await answer(port)).toBe('good')
    expect(fixture.rows(12)).toHaveLength(1)
  })

  it('a stop that comes during the proof takes effect after it: the version before is back', async () => {
    await fixture.deployed(12, { version: 'good' })
    const port = fixture.rows(12)[0]?.port
    const before = fixture.rows(12)[0]?.taskId
    fixture.commit({ version: 'better' })
    const deployment = fixture.host.start(fixture.repository, { environmentId: 12 })
    await eventually(() => deployment.steps()['verify:web'], 'the proof')
    deployment.stop('too late?')
    expect((await deployment.verdict()).state).toBe(AttemptState.CANCELED)
    expect(deployment.steps()['verify:web']).toMatchObject({ state: StepState.SUCCEEDED })
    expect(deployment.bodies('services')).toEqual([])
    expect(await answer(port)).toBe('good')
    expect(fixture.rows(12).map(({ taskId }) => taskId)).toEqual([before])
  })

  it('stops a service that is gone from the file', async () => {
    await fixture.deployed(12, { version: 'good' })
    const row = fixture.rows(12)[0]
    fixture.repository.commit({ '.service.yml': 'manual: { deploy: [echo nothing] }\n' })
    expect(
      (await (await fixture.host.deploy(fixture.repository, { environmentId: 12 })).verdict())
        .state,
    ).toBe(AttemptState.SUCCEEDED)
    expect(fixture.rows(12)).toEqual([])
    await expect(answer(row?.port)).rejects.toThrow()
  })
})

describe('with a fixed port', () => {
  it('stops the old one first, and starts it again when the new one fails', async () => {
    const port = await freePort()
    const target = `port: ${port}`
    const first = await fixture.deployed(13, { version: 'one', target })
    const second = await fixture.deployed(13, { version: 'two', target })
    expect(second.log()).toMatch(
      new RegExp(`web of deployment ${first.taskId} stopped after \\d+ ms`),
    )
    expect(await answer(port)).toBe('two')
    fixture.commit({ version: 'three', target, mode: 'crash' })
    const third = await fixture.host.deploy(fixture.repository, { environmentId: 13 })
    expect(await third.verdict()).toMatchObject({ code: FailureCode.HEALTH_CHECK_FAILED })
    expect(third.log()).toContain(`web of deployment ${second.taskId} was started again`)
    await eventually(
      () => fixture.state(13, second.taskId)?.condition === 'running',
      'the old version',
    )
    await eventuallyAnswers(port, 'two')
    expect(fixture.rows(13).map(({ taskId, state }) => [taskId, state])).toEqual([
      [second.taskId, 'serving'],
    ])
  })

  it('refuses a port that somebody else holds', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    fixture.commit({ version: 'x', target: `port: ${port}` })
    const deployment = await fixture.host.deploy(fixture.repository, { environmentId: 14 })
    const verdict = await deployment.verdict()
    server.close()
    if (process.getuid?.() !== 0) return // without root the environment's processes are the developer's own
    expect(verdict).toMatchObject({ code: FailureCode.PORT_IN_USE, failedStepId: 'ports' })
    expect(verdict.message).toContain(`(pid ${process.pid}), which does not belong to pr-42.`)
  })

  it('does not take somebody else for the new version', async () => {
    // a process that an earlier step left behind answers on the port; the service itself never listens
    const port = await freePort()
    const yaml = `manual:
  deploy:
    - PORT=${port} VERSION=impostor setsid ${fixture.host.node} server.mjs >/dev/null 2>&1 &
  services:
    web: { port: ${port}, run: exec sleep 300, health: /up }
`
    fixture.repository.commit({ '.service.yml': yaml })
    const deployment = await fixture.host.deploy(fixture.repository, { environmentId: 11 })
    const verdict = await deployment.verdict()
    expect(deployment.steps()['health:web']).toMatchObject({ state: StepState.SUCCEEDED })
    expect(verdict).toMatchObject({
      state: AttemptState.FAILED,
      code: FailureCode.VERIFY_FAILED,
      failedStepId: 'verify:web',
      message: `web runs, but port ${port} is not held by the version that was deployed.`,
    })
    expect(await answer(port)).toBe('impostor')
    expect(fixture.rows(11)).toEqual([])
    expect(existsSync(environmentPaths(fixture.host.settings, 11).current)).toBe(false)
  })

  it('serves a socket in its folder, also when the version before left its file there', async () => {
    const program =
      "require('http').createServer((q, r) => r.end('ok')).listen(process.env.BERTH_SOCKET_DIR + '/app.sock')"
    const run = `exec ${fixture.host.node} -e ${JSON.stringify(program)}`
    const yaml = `manual:\n  deploy: [echo x]\n  services:\n    web: { socket: app.sock, run: ${JSON.stringify(run)} }\n`
    fixture.repository.commit({ '.service.yml': yaml })
    for (const round of [1, 2]) {
      const deployment = await fixture.host.deploy(fixture.repository, { environmentId: 14 })
      expect((await deployment.verdict()).message, `round ${round}`).toBe('')
    }
  })
})

describe('a worker', () => {
  it('never runs twice at once, and counts as well after it stayed up', async () => {
    const run =
      'echo begin $VERSION; trap "echo end $VERSION; exit 0" TERM; while :; do sleep 0.1; done'
    const yaml = (version: string) =>
      `manual:\n  deploy: [echo x]\n  services:\n    queue: { run: ${JSON.stringify(run)}, env: { VERSION: ${version} } }\n`
    fixture.repository.commit({ '.service.yml': yaml('one') })
    const one = await fixture.host.deploy(fixture.repository, { environmentId: 15 })
    expect((await one.verdict()).state).toBe(AttemptState.SUCCEEDED)
    fixture.repository.commit({ '.service.yml': yaml('two') })
    const two = await fixture.host.deploy(fixture.repository, { environmentId: 15 })
    expect((await two.verdict()).state).toBe(AttemptState.SUCCEEDED)
    const logs = join(environmentPaths(fixture.host.settings, 15).logs, 'queue')
    const said = readLastLines(logs, one.taskId).filter((line) => line !== 'Terminated')
    expect(said).toEqual(['begin one', 'end one'])
    expect(readLastLines(logs, two.taskId)).toEqual(['begin two'])
  })
})
