// Deployments that end early: stopped, timed out, disconnected, killed.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { AttemptState, FailureCode, StepState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readClaim } from '../../agent/src/journal/attempt-files.ts'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { hasMarker, listProcesses } from '../../agent/src/machine/process/processes.ts'
import { eventually, type Repository } from '../fixtures/server/deployment.ts'
import { AGENT_MAIN } from '../fixtures/server/programs.ts'
import { AgentHost } from '../fixtures/server/server.ts'

let host: AgentHost
let repository: Repository

beforeAll(() => {
  host = new AgentHost()
  repository = host.repository()
})
afterAll(() => host.close())

describe('ending early', () => {
  // ignores every catchable signal, forks twice, leaves the session
  const STUBBORN = `manual:
  deploy:
    - |
      trap '' INT TERM HUP
      ( setsid /bin/sh -c 'trap "" INT TERM HUP; while :; do sleep 0.2; done' & )
      echo ready
      while :; do sleep 0.2; done
`

  it('cancels a tree that ignores every polite signal', async () => {
    repository.commit({ '.service.yml': STUBBORN })
    const deployment = host.start(repository, { environmentId: 6, killGraceMs: 300 })
    await eventually(() => deployment.steps()['1'] && deployment.processes() >= 3, 'the tree')
    deployment.stop('asked by ada@example.com')
    const verdict = await deployment.verdict()
    expect(verdict).toMatchObject({
      state: AttemptState.CANCELED,
      message: 'asked by ada@example.com',
    })
    expect(deployment.attempts().map(({ state }) => state)).toEqual([
      AttemptState.RUNNING,
      AttemptState.CANCELING,
      AttemptState.CANCELED,
    ])
    expect(deployment.steps()['1']).toMatchObject({ state: StepState.CANCELED })
    expect(deployment.processes()).toBe(0)
    expect(readdirSync(environmentPaths(host.settings, 6).releases)).toEqual([])
  })

  it('does nothing when the stop was there before the start', async () => {
    const deployment = await host.deploy(repository, { environmentId: 6, stopBefore: 'superseded' })
    expect((await deployment.verdict()).state).toBe(AttemptState.CANCELED)
    expect(deployment.attempts().map(({ state }) => state)).toEqual([
      AttemptState.CANCELING,
      AttemptState.CANCELED,
    ])
    expect(deployment.bodies('step')).toEqual([])
  })

  it('runs out of the time of the attempt', async () => {
    repository.commit({ '.service.yml': STUBBORN })
    const deployment = await host.deploy(repository, {
      environmentId: 6,
      timeoutMs: 3_000,
      killGraceMs: 200,
    })
    expect(await deployment.verdict()).toMatchObject({
      state: AttemptState.TIMED_OUT,
      code: FailureCode.TIMEOUT,
      failedStepId: '1',
    })
    expect(deployment.processes()).toBe(0)
  })

  it('runs out of the time of a step', async () => {
    repository.commit({
      '.service.yml': 'manual:\n  deploy: [{ name: Slow, run: sleep 300, timeout: 1s }]\n',
    })
    const deployment = await host.deploy(repository, { environmentId: 6 })
    expect(await deployment.verdict()).toMatchObject({
      state: AttemptState.FAILED,
      code: FailureCode.TIMEOUT,
      message: "Step 'Slow' took longer than 1 s.",
    })
    expect(deployment.processes()).toBe(0)
  })

  it('is stopped at once while it waits for a repository host', async () => {
    const sockets: Socket[] = []
    const silent = createServer((socket) => sockets.push(socket)).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const { port } = silent.address() as { port: number }
    const url = `http://127.0.0.1:${port}/shop.git`
    const deployment = host.start(repository, { environmentId: 6, url })
    await eventually(() => sockets.length >= 2, 'git to ask') // the first connection only checks the port
    deployment.stop('no use')
    expect((await deployment.verdict()).state).toBe(AttemptState.CANCELED)
    expect(deployment.steps().fetch).toMatchObject({ state: StepState.CANCELED })
    for (const socket of sockets) socket.destroy()
    silent.close()
  })

  it('goes on when whoever started it hangs up, and ends its commands when it is told to end', async () => {
    repository.commit({ '.service.yml': 'manual:\n  deploy: [echo ready; exec sleep 300]\n' })
    const deployment = host.start(repository, { environmentId: 6 })
    await eventually(() => deployment.steps()['1'] && deployment.processes() >= 1, 'the command')
    for (const signal of ['SIGHUP', 'SIGINT', 'SIGPIPE'] as const) deployment.child.kill(signal)
    deployment.child.kill('SIGUSR2') // a wake-up signal without a stop file
    deployment.child.kill('SIGTERM')
    expect(await deployment.verdict()).toMatchObject({
      state: AttemptState.FAILED,
      code: FailureCode.RUNNER_DIED,
      failedStepId: '1',
    })
    expect(deployment.processes()).toBe(0)
  })

  it('killed outright, leaves its claim and no verdict', async () => {
    repository.commit({ '.service.yml': 'manual:\n  deploy: [echo ready; exec sleep 300]\n' })
    const deployment = host.start(repository, { environmentId: 6 })
    await eventually(() => deployment.steps()['1'] && deployment.processes() >= 1, 'the command')
    deployment.child.kill('SIGKILL')
    await deployment.ended
    expect(readClaim(deployment.dir)).toMatchObject({ by: 'runner', pid: deployment.child.pid })
    expect(deployment.attempts().map(({ state }) => state)).toEqual([AttemptState.RUNNING])
    // it cannot be run a second time
    const again = execFileSync(
      process.execPath,
      [AGENT_MAIN, 'runner', deployment.dir],
      // an empty message, which has a length as well
      {
        env: { PATH: process.env.PATH, BERTH_STATE_DIR: host.settings.stateDir },
        input: Buffer.alloc(4),
      },
    )
    expect(again.toString()).toBe('')
    expect(deployment.attempts()).toHaveLength(1)
    for (const { pid } of listProcesses()) {
      if (hasMarker(pid, `BERTH_ATTEMPT_ID=${deployment.attemptId}`)) process.kill(pid, 'SIGKILL')
    }
  })
})
