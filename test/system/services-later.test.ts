// Supervised processes after their deployment: restarted, brought back, limited; and what a deployment keeps.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { AttemptState, FailureCode } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ProcessRow } from '../../agent/src/journal/ledger.ts'
import { environmentPaths, listFolder, readLink } from '../../agent/src/machine/files.ts'
import { detectCgroups } from '../../agent/src/machine/process/cgroups.ts'
import { readProcess } from '../../agent/src/machine/process/processes.ts'
import { readLastLines } from '../../agent/src/service-logs/writer.ts'
import {
  instructionsOf,
  listServiceProcesses,
  type Revival,
  reviveServices,
  stopService,
} from '../../agent/src/supervise/control.ts'
import { isSupervised } from '../../agent/src/supervise/instructions.ts'
import { eventually } from '../fixtures/server/deployment.ts'
import { AGENT_MAIN } from '../fixtures/server/programs.ts'
import { answer, eventuallyAnswers, ServiceFixture } from '../fixtures/server/service.ts'

const REVIVAL: Revival = {
  occupy: () => true,
  vacate: () => undefined,
  isFirst: () => true,
  onTrouble: (_, error) => {
    throw error
  },
}

let fixture: ServiceFixture
beforeAll(async () => {
  fixture = await ServiceFixture.open()
})
afterAll(() => fixture.close())

describe('after the deployment', () => {
  it('a process that ends is started again, and its output is kept', async () => {
    const deployment = await fixture.deployed(16, { version: 'crashy' })
    const port = fixture.rows(16)[0]?.port
    const before = fixture.state(16, deployment.taskId)
    expect(await answer(port, '/crash')).toBe('bye')
    const after = await eventually(() => {
      const state = fixture.state(16, deployment.taskId)
      return state && state.restarts === 1 && state.condition === 'running' ? state : undefined
    }, 'the restart')
    expect(after.pid).not.toBe(before?.pid)
    expect(after.lastEnd).toMatchObject({ code: 3, signal: null })
    await eventuallyAnswers(port, 'crashy')
    const lines = readLastLines(
      join(environmentPaths(fixture.host.settings, 16).logs, 'web'),
      deployment.taskId,
    )
    expect(lines).toEqual(['started crashy', 'started crashy'])
  })

  it('a supervisor that was killed is brought back, and its services have gone on', async () => {
    const [row] = fixture.rows(16)
    if (!row) throw new Error('no process')
    const state = fixture.state(16, row.taskId)
    await killSupervisor(row.taskId)
    expect(await answer(row.port)).toBe('crashy')
    const ledger = fixture.host.ledger()
    const revive = () => withProgram(() => reviveServices(fixture.host.settings, ledger, REVIVAL))
    expect(await revive()).toEqual([]) // nothing had to be started again
    const after = fixture.state(16, row.taskId)
    expect(isSupervised(after)).toBe(true)
    expect(after?.supervisor.pid).not.toBe(state?.supervisor.pid)
    expect(after?.pid).toBe(state?.pid)
    // it watches it like the first one
    expect(await answer(row.port, '/crash')).toBe('bye')
    await eventually(() => fixture.state(16, row.taskId)?.restarts === 2, 'the restart')
    await eventuallyAnswers(row.port, 'crashy')
    ledger.close()
  })

  it('later only what died comes back: what was stopped by hand waits for the daemon', async () => {
    const [row] = fixture.rows(16)
    if (!row) throw new Error('no process')
    const ledger = fixture.host.ledger()
    const later = { ...REVIVAL, isFirst: () => false }
    const look = (revival: Revival) =>
      withProgram(() => reviveServices(fixture.host.settings, ledger, revival))
    await killSupervisor(row.taskId)
    await killProcesses(row)
    expect(await look({ ...later, occupy: () => false })).toEqual([]) // a runner is working there
    expect(await look(later)).toEqual([]) // its supervisor restarts it
    await eventuallyAnswers(row.port, 'crashy')
    await stopService(fixture.host.settings, instructionsOf(row))
    expect(await look(later)).toEqual([])
    // paused by a runner that died
    ledger.setProcessState(row, 'paused', 'of-a-dead-runner')
    expect(await look(later)).toHaveLength(1)
    expect(fixture.rows(16).map(({ state }) => state)).toEqual(['serving'])
    ledger.close()
    await eventuallyAnswers(row.port, 'crashy')
  })

  it('one service that cannot be brought back does not keep the others down', async () => {
    const [row] = fixture.rows(16)
    if (!row) throw new Error('no process')
    await stopService(fixture.host.settings, instructionsOf(row))
    const ledger = fixture.host.ledger()
    const lost = {
      environmentId: 900,
      environmentName: `${fixture.host.settings.accountPrefix}900`,
    }
    const variablesFile = '/nonexistent/1.sh'
    const instructions = { ...instructionsOf(row), ...lost, taskId: 1, variablesFile }
    const broken = { ...row, environmentId: 900, taskId: 1 }
    ledger.putProcess({ ...broken, instructions: JSON.stringify(instructions) })
    const troubled: number[] = []
    const onTrouble: Revival['onTrouble'] = ({ environmentId }) => void troubled.push(environmentId)
    const revived = await withProgram(() =>
      reviveServices(fixture.host.settings, ledger, { ...REVIVAL, onTrouble }),
    )
    ledger.removeProcess(broken)
    ledger.close()
    expect(troubled).toEqual([900])
    expect(revived).toEqual([`${fixture.host.settings.accountPrefix}16/web`])
  }, 60_000)

  it('everything comes back after a reboot, from the ledger alone', async () => {
    const [row] = fixture.rows(16)
    if (!row) throw new Error('no process')
    await killSupervisor(row.taskId)
    await killProcesses(row)
    rmSync(join(fixture.host.settings.runDir, 'services'), { recursive: true })
    const ledger = fixture.host.ledger()
    await withProgram(() => reviveServices(fixture.host.settings, ledger, REVIVAL))
    ledger.close()
    await eventuallyAnswers(row.port, 'crashy')
  })

  it('what a dead runner was starting is ended by the next deployment', async () => {
    await fixture.deployed(17, { version: 'good' })
    fixture.commit({ version: 'half', mode: 'deaf' })
    const dead = fixture.host.start(fixture.repository, { environmentId: 17 })
    await eventually(() => dead.steps()['health:web'], 'the health check')
    dead.child.kill('SIGKILL')
    await dead.ended
    const half = fixture.state(17, dead.taskId)
    expect(readProcess(half?.pid as number)).toBeDefined()
    const next = await fixture.deployed(17, { version: 'next' })
    expect(next.log()).toContain(`Ending web of deployment ${dead.taskId}, which was left over.`)
    expect(readProcess(half?.pid as number)).toBeUndefined()
    expect(fixture.rows(17).map(({ taskId, state }) => [taskId, state])).toEqual([
      [next.taskId, 'serving'],
    ])
    expect(await answer(fixture.rows(17)[0]?.port)).toBe('next')
  })
})

async function killSupervisor(taskId: number): Promise<void> {
  const pid = fixture.state(16, taskId)?.supervisor.pid as number
  process.kill(pid, 'SIGKILL')
  await eventually(() => !readProcess(pid), 'the end of the supervisor')
}

async function killProcesses(row: ProcessRow): Promise<void> {
  const list = () => listServiceProcesses(fixture.host.settings, instructionsOf(row))
  for (const { pid } of list()) process.kill(pid, 'SIGKILL')
  await eventually(() => list().length === 0, 'their end')
}

/** The supervisor is started as the current program, which in a test is not the agent. */
async function withProgram<T>(use: () => Promise<T>): Promise<T> {
  const before = process.argv[1] as string
  const flags = process.execArgv
  process.argv[1] = AGENT_MAIN
  process.execArgv = []
  try {
    return await use()
  } finally {
    process.argv[1] = before
    process.execArgv = flags
  }
}

describe('memory', () => {
  it('a service that needs more than it may have is told so', async (t) => {
    const bounded = detectCgroups()
    if (!bounded.memory && !bounded.unified) return t.skip('this machine has no cgroups')
    const yaml = `manual:
  deploy: [echo x]
  services:
    web: { port: auto, memory: 64m, run: head -c 300000000 /dev/zero | tail -c 290000000 }
`
    fixture.repository.commit({ '.service.yml': yaml })
    const deployment = await fixture.host.deploy(fixture.repository, {
      environmentId: 20,
      timeoutMs: 30_000,
    })
    const verdict = await deployment.verdict()
    expect(verdict).toMatchObject({ code: FailureCode.OUT_OF_MEMORY, failedStepId: 'health:web' })
    expect(verdict.message).toMatch(/^web was stopped by the kernel/)
  })
})

describe('without node-pty', () => {
  it('commands run with pipes, and the log says so once', async () => {
    fixture.repository.commit({
      '.service.yml': 'manual:\n  deploy: ["echo out; echo err >&2; test ! -t 1"]\n',
    })
    const deployment = await fixture.host.deploy(fixture.repository, {
      environmentId: 18,
      nodeArguments: ['--import', join(import.meta.dirname, '../fixtures/server/without-pty.mjs')],
    })
    expect((await deployment.verdict()).state).toBe(AttemptState.SUCCEEDED)
    expect(deployment.log().match(/node-pty is not installed/g)).toHaveLength(1)
    expect(deployment.log()).toMatch(/^out$/m)
    expect(deployment.log()).toMatch(/^err$/m)
  })
})

describe('releases', () => {
  it('a deployment that is the running version stays it, also when its actions cannot be told', async () => {
    const paths = Array.from({ length: 50 }, (_, i) => `${'x'.repeat(120)}${i}`)
    const action = { run: 'true', artifacts: { paths } }
    const actions = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`a${i}`, action]))
    const file = JSON.stringify({ manual: { deploy: ['echo x'] }, actions })
    fixture.repository.commit({ '.service.yml': file })
    const deployment = await fixture.host.deploy(fixture.repository, { environmentId: 21 })
    const verdict = await deployment.verdict()
    expect([verdict.message, verdict.state]).toEqual(['', AttemptState.SUCCEEDED])
    expect(deployment.log()).toContain('Warning: ')
    const own = environmentPaths(fixture.host.settings, 21)
    expect(readLink(own.current)).toBe(`releases/${deployment.taskId}`)
    expect(listFolder(own.releases)).toEqual([String(deployment.taskId)])
  })

  it('keeps three, and the variable files of the last alone', async () => {
    fixture.repository.commit({ '.service.yml': 'manual:\n  deploy: [echo x]\n' })
    const tasks: number[] = []
    for (let i = 0; i < 5; i += 1) {
      const deployment = await fixture.host.deploy(fixture.repository, { environmentId: 19 })
      expect((await deployment.verdict()).state).toBe(AttemptState.SUCCEEDED)
      tasks.push(deployment.taskId)
    }
    const paths = environmentPaths(fixture.host.settings, 19)
    const kept = listFolder(paths.releases).map(Number)
    expect(kept.sort((a, b) => a - b)).toEqual(tasks.slice(2))
    const files = listFolder(paths.variables)
    expect(files.sort()).toEqual([`${tasks.at(-1)}.env`, `${tasks.at(-1)}.sh`])
  })
})
