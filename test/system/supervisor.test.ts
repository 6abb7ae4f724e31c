// The supervisor alone, as a real process: how it handles an exit before and after the proof, how it stops a tree of
// processes that resists, and how another one continues after it was killed.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { Cgroup, detectCgroups, listCgroups } from '../../agent/src/machine/process/cgroups.ts'
import {
  hasMarker,
  listProcesses,
  readBootId,
  readProcess,
} from '../../agent/src/machine/process/processes.ts'
import { renderShellFile } from '../../agent/src/runner/plan/variable-files.ts'
import { readLastLines } from '../../agent/src/service-logs/writer.ts'
import { type AgentSettings, readSettings, settingsEnvironment } from '../../agent/src/settings.ts'
import { requestSupervisor } from '../../agent/src/supervise/client.ts'
import { startService, stopService } from '../../agent/src/supervise/control.ts'
import {
  type Instructions,
  isSupervised,
  markVerified,
  readState,
  serviceDir,
  writeInstructions,
} from '../../agent/src/supervise/instructions.ts'
import { eventually } from '../fixtures/server/deployment.ts'
import { AGENT_MAIN } from '../fixtures/server/programs.ts'

let folder: string
let name: string
let settings: AgentSettings
const supervisors: ChildProcess[] = []

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'berth-supervisor-'))
  name = `bt${process.pid.toString(36)}`
  chmodSync(folder, 0o711)
  settings = readSettings({ BERTH_STATE_DIR: folder, BERTH_RUN_DIR: folder, BERTH_DEV: '1' })
  await supervise()
})
afterEach(async () => {
  for (const supervisor of supervisors.splice(0)) supervisor.kill('SIGKILL')
  for (const group of listCgroups(detectCgroups(), `${name}-`)) {
    const made = Cgroup.create(detectCgroups(), group)
    await made?.kill()
    made?.remove()
  }
  for (const { pid } of members()) process.kill(pid, 'SIGKILL')
  rmSync(folder, { recursive: true })
})

async function supervise(): Promise<ChildProcess> {
  const env = { ...settingsEnvironment(settings), PATH: process.env.PATH }
  const supervisor = spawn(process.execPath, [AGENT_MAIN, 'supervise'], { env, stdio: 'inherit' })
  supervisors.push(supervisor)
  await requestSupervisor(settings, { do: 'ping' })
  return supervisor
}

async function killSupervisor(): Promise<void> {
  const supervisor = supervisors.pop() as ChildProcess
  const exited = once(supervisor, 'exit')
  supervisor.kill('SIGKILL')
  await exited
}

const members = (marker = `BERTH_PROCESS=${name}-web-1`) =>
  listProcesses().filter(({ pid }) => hasMarker(pid, marker))
const logDir = (): string => join(folder, 'logs')
const lines = (): string[] => readLastLines(logDir(), 1)

function instructionsFor(command: string, change: Partial<Instructions> = {}): Instructions {
  const variablesFile = join(folder, '1.sh')
  const values = { TOKEN: 'hunter2-very-secret', GREETING: 'from the file', PORT: '1' }
  writeFileSync(variablesFile, renderShellFile(new Map(Object.entries(values))))
  return {
    format: 1,
    environmentId: 1,
    environmentName: name,
    service: 'web',
    taskId: 1,
    commit: '',
    command,
    directory: folder,
    account: null,
    variablesFile,
    env: { PATH: '/usr/bin:/bin' },
    additions: { PORT: '20000' },
    secretKeys: ['TOKEN'],
    port: 20_000,
    socket: null,
    logDir: logDir(),
    stopTimeoutMs: 300,
    memoryBytes: 256 * 1_024 ** 2,
    cpus: 1,
    ...change,
  }
}

const dirOf = (of: Instructions): string => serviceDir(settings, of)

async function start(
  command: string,
  isVerified: boolean,
  change: Partial<Instructions> = {},
): Promise<string> {
  const instructions = instructionsFor(command, change)
  await startService(settings, instructions, { isVerified })
  return dirOf(instructions)
}

const stop = (dir: string) => requestSupervisor(settings, { do: 'stop', dir })
const isOver = (dir: string) => readState(dir)?.condition === 'ended'

it('ends a start that a dead runner asked for, and starts it again', async () => {
  const instructions = instructionsFor('echo "$$"; sleep 60')
  const dir = dirOf(instructions)
  for (let round = 0; round < 5; round++) {
    writeInstructions(dir, instructions)
    const asked = requestSupervisor(settings, { do: 'start', dir }).catch(() => undefined)
    while (!existsSync(join(dir, 'alive'))) await new Promise((resolve) => setImmediate(resolve))
    await stopService(settings, instructions)
    await startService(settings, instructions, { isVerified: true })
    await asked
    const state = readState(dir)
    expect([state?.condition, members().some(({ pid }) => pid === state?.pid)]).toEqual([
      'running',
      true,
    ])
    await stopService(settings, instructions)
    expect(members()).toEqual([])
  }
})

it('starts nothing again before the deployment is proven', async () => {
  const dir = await start('echo "$GREETING $PORT $TOKEN"; exit 4', false)
  await eventually(() => isOver(dir), 'its end')
  expect(readState(dir)).toMatchObject({
    condition: 'ended',
    restarts: 0,
    lastEnd: { code: 4, signal: null, isOutOfMemory: false },
  })
  expect(lines()).toEqual(['from the file 20000 ***'])
})

it('starts it again afterwards, with any exit code', async () => {
  const dir = await start('echo began; exit 0', true)
  await eventually(() => (readState(dir)?.restarts ?? 0) >= 2, 'two restarts')
  await stop(dir)
  expect(lines().length).toBeGreaterThanOrEqual(2)
  expect(readState(dir)).toMatchObject({ condition: 'ended' })
})

it('ends a tree that ignores SIGTERM after its time, and goes on through hang-ups', async () => {
  const command = `trap '' TERM HUP; ( setsid sh -c 'trap "" TERM; while :; do sleep 0.2; done' & ); echo up; while :; do sleep 0.2; done`
  const dir = await start(command, true)
  await eventually(() => lines().includes('up') && members().length >= 3, 'it')
  supervisors[0]?.kill('SIGHUP')
  supervisors[0]?.kill('SIGINT')
  await stop(dir)
  expect(members()).toEqual([])
  expect(readState(dir)).toMatchObject({ condition: 'ended', lastEnd: { signal: 'SIGKILL' } })
})

it('keeps what was written in the last moment', async () => {
  const dir = await start('seq 1 20000; exit 1', false)
  await eventually(() => isOver(dir), 'its end')
  expect(lines().at(-1)).toBe('20000')
})

it('a full disk costs lines of the log, never the service', async () => {
  mkdirSync(logDir())
  for (const ahead of [0, 1]) {
    const day = new Date(Date.now() + ahead * 86_400_000).toISOString().slice(0, 10)
    symlinkSync('/dev/full', join(logDir(), `${day}.ndjson`))
  }
  // the last line has no newline, so it is written when the command ends
  const dir = await start('printf unfinished', true)
  await eventually(() => (readState(dir)?.restarts ?? 0) >= 1, 'a restart')
  await stop(dir)
  expect(readState(dir)).toMatchObject({ condition: 'ended' })
})

it('passes default signals and only its own variables and descriptors to the command', async () => {
  const dir = await start(
    'grep SigIgn /proc/self/status; basename "$(readlink /proc/$$/fd/1)"; ls /proc/$$/fd | tr "\\n" " "; echo; env | grep -c BERTH_RUN_DIR || true',
    false,
  )
  await eventually(() => isOver(dir), 'its end')
  expect(lines()).toEqual([
    'SigIgn:\t0000000000000000',
    'out',
    expect.stringMatching(/^0 1 2 /),
    '0',
  ])
})

// says each line once; TERM is answered with a last line
const TICKER =
  'trap "echo bye; exit 7" TERM; n=0; while :; do n=$((n+1)); echo "tick $n $TOKEN"; sleep 0.1; done'

it('another supervisor continues after a kill: log, exit code, restart and stop', async () => {
  const dir = await start(TICKER, true, { stopTimeoutMs: 20_000 })
  await eventually(() => lines().includes('tick 3 ***'), 'its first lines')
  const before = readState(dir)
  await killSupervisor()
  expect(readProcess(before?.pid ?? 0)).toBeDefined()
  expect(isSupervised(readState(dir))).toBe(false)
  await supervise()
  await eventually(() => isSupervised(readState(dir)), 'the next supervisor')
  const adopted = readState(dir)
  expect(adopted).toMatchObject({ pid: before?.pid, condition: 'running', restarts: 0 })
  const seen = lines().length
  await eventually(() => lines().length >= seen + 3, 'more lines')
  const numbers = lines().map((line) => Number(/^tick ([0-9]+) \*\*\*$/.exec(line)?.[1]))
  expect(numbers).toEqual(numbers.map((_, index) => (numbers[0] as number) + index)) // none lost, none twice
  process.kill(adopted?.pid ?? 0, 'SIGKILL')
  const restarted = await eventually(() => {
    const state = readState(dir)
    return state?.restarts === 1 && state.condition === 'running' ? state : undefined
  }, 'the restart')
  expect(restarted.lastEnd).toMatchObject({ code: null, signal: 'SIGKILL' })
  await killSupervisor()
  await supervise()
  await stop(dir)
  expect(lines()).toContain('bye')
  expect(readState(dir)).toMatchObject({ condition: 'ended', lastEnd: { code: 7 } })
  expect(members()).toEqual([])
})

it('what ended while no supervisor ran is restarted, and counts with its exit code', async () => {
  execFileSync('mkfifo', [join(folder, 'gate')])
  const dir = await start('echo up; read line <gate; exit 5', true)
  await eventually(() => lines().includes('up'), 'its start')
  const { pid = 0 } = readState(dir) ?? {}
  await killSupervisor()
  expect(readProcess(pid)).toBeDefined()
  writeFileSync(join(folder, 'gate'), 'go\n')
  await eventually(() => !readProcess(pid), 'its end')
  await supervise()
  const state = await eventually(() => {
    const found = readState(dir)
    return found?.lastEnd ? found : undefined
  }, 'its exit code')
  expect(state.lastEnd).toMatchObject({ code: 5, signal: null })
  await eventually(() => (readState(dir)?.restarts ?? 0) >= 1, 'the restart')
  await stop(dir)
})

it('without a supervisor a service can still be stopped', async () => {
  const of = instructionsFor(TICKER, { stopTimeoutMs: 20_000 })
  await startService(settings, of, { isVerified: true })
  await eventually(() => lines().includes('tick 1 ***'), 'its start')
  const { keeper } = readState(dirOf(of)) ?? {}
  await killSupervisor()
  await stopService(settings, of)
  expect(members()).toEqual([])
  expect(readProcess(keeper?.pid ?? 0)).toBeUndefined()
})

it('a killed keeper does not end its service, and the next exit restarts it', async () => {
  const dir = await start(TICKER, true)
  await eventually(() => lines().includes('tick 1 ***'), 'its start')
  const before = readState(dir)
  process.kill(before?.keeper?.pid ?? 0, 'SIGKILL')
  const seen = lines().length
  await eventually(() => lines().length >= seen + 3, 'more lines')
  expect(readState(dir)).toMatchObject({ pid: before?.pid, condition: 'running' })
  process.kill(before?.pid ?? 0, 'SIGKILL')
  await eventually(() => (readState(dir)?.restarts ?? 0) >= 1, 'the restart')
  await stop(dir)
})

it('asked to end, as for an upgrade, it leaves its services to the next one', async () => {
  const dir = await start(TICKER, true, { stopTimeoutMs: 20_000 })
  await eventually(() => lines().includes('tick 1 ***'), 'its start')
  const before = readState(dir)
  const [first] = supervisors as [ChildProcess]
  const exited = once(first, 'exit')
  await requestSupervisor(settings, { do: 'end' })
  expect((await exited)[0]).toBe(0)
  expect(readProcess(before?.pid ?? 0)).toBeDefined()
  await supervise()
  await eventually(() => isSupervised(readState(dir)), 'the next supervisor')
  expect(readState(dir)).toMatchObject({ pid: before?.pid, condition: 'running', restarts: 0 })
  await stop(dir)
  expect(lines()).toContain('bye')
})

it('a second supervisor ends soon, and one without services ends by itself', async () => {
  const dir = await start(TICKER, true)
  const env = { ...settingsEnvironment(settings), PATH: process.env.PATH }
  const second = spawn(process.execPath, [AGENT_MAIN, 'supervise'], { env, stdio: 'inherit' })
  expect((await once(second, 'exit'))[0]).toBe(0)
  expect(isSupervised(readState(dir))).toBe(true)
  const [first] = supervisors as [ChildProcess]
  const exited = once(first, 'exit')
  await stop(dir)
  expect((await exited)[0]).toBe(0)
})

it('the process of an earlier version keeps its own supervisor until it is stopped', async () => {
  const of = instructionsFor('')
  const dir = dirOf(of)
  mkdirSync(dir, { recursive: true })
  writeInstructions(dir, of)
  markVerified(dir)
  // as such a supervisor: it ends its service on SIGTERM
  const former = spawn('/bin/sh', ['-c', 'sleep 1000 & trap "kill $!; exit 0" TERM; wait'], {
    env: { BERTH_PROCESS: `${name}-web-1`, PATH: process.env.PATH },
  })
  const pid = former.pid as number
  const { startTicks = '' } = readProcess(pid) ?? {}
  const state = {
    bootId: readBootId(),
    supervisor: { pid, startTicks },
    condition: 'running',
    pid,
    startTicks,
  }
  writeFileSync(join(dir, 'state.json'), JSON.stringify({ ...state, taskId: 1, restarts: 0 }))
  await killSupervisor()
  await supervise()
  expect(readProcess(pid)).toBeDefined()
  expect(readState(dir)?.supervisor.pid).toBe(pid)
  const exited = once(former, 'exit')
  await stopService(settings, of)
  expect((await exited)[0]).toBe(0)
  expect(members()).toEqual([])
})
