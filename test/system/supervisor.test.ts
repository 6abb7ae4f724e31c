// The supervisor alone, as a real process: how it handles an exit before and after the proof, and how it stops a tree
// of processes that resists.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { Cgroup, detectCgroups, listCgroups } from '../../agent/src/machine/process/cgroups.ts'
import { hasMarker, listProcesses } from '../../agent/src/machine/process/processes.ts'
import { renderShellFile } from '../../agent/src/runner/plan/variable-files.ts'
import { readLastLines } from '../../agent/src/service-logs/writer.ts'
import {
  type Instructions,
  markVerified,
  readState,
  serviceDir,
  writeInstructions,
} from '../../agent/src/supervise/instructions.ts'
import { eventually } from '../fixtures/server/deployment.ts'
import { AGENT_MAIN } from '../fixtures/server/programs.ts'

let folder: string
let name: string
let supervisor: ChildProcess

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'berth-supervisor-'))
  name = `bt${process.pid.toString(36)}`
  chmodSync(folder, 0o711)
})
afterEach(async () => {
  supervisor.kill('SIGKILL')
  for (const group of listCgroups(detectCgroups(), `${name}-`)) {
    const made = Cgroup.create(detectCgroups(), group)
    await made?.kill()
    made?.remove()
  }
  for (const { pid } of members()) process.kill(pid, 'SIGKILL')
  rmSync(folder, { recursive: true })
})

const members = () =>
  listProcesses().filter(({ pid }) => hasMarker(pid, `BERTH_PROCESS=${name}-web-1`))
const logDir = (): string => join(folder, 'logs')

function start(command: string, isVerified: boolean, change: Partial<Instructions> = {}): string {
  const variablesFile = join(folder, '1.sh')
  const values = { TOKEN: 'hunter2-very-secret', GREETING: 'from the file', PORT: '1' }
  writeFileSync(variablesFile, renderShellFile(new Map(Object.entries(values))))
  const instructions: Instructions = {
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
  const dir = serviceDir({ runDir: folder }, instructions)
  mkdirSync(dir, { recursive: true })
  writeInstructions(dir, instructions)
  if (isVerified) markVerified(dir)
  supervisor = spawn(process.execPath, [AGENT_MAIN, 'supervise', dir], {
    env: {},
    stdio: 'inherit',
  })
  return dir
}

it('starts nothing again before the deployment is proven', async () => {
  const dir = start('echo "$GREETING $PORT $TOKEN"; exit 4', false)
  expect((await once(supervisor, 'exit'))[0]).toBe(0)
  expect(readState(dir)).toMatchObject({
    condition: 'ended',
    restarts: 0,
    lastEnd: { code: 4, signal: null, isOutOfMemory: false },
  })
  expect(readLastLines(logDir(), 1)).toEqual(['from the file 20000 ***'])
})

it('starts it again afterwards, whatever the exit code', async () => {
  const dir = start('echo began; exit 0', true)
  await eventually(() => (readState(dir)?.restarts ?? 0) >= 2, 'two restarts')
  supervisor.kill('SIGTERM')
  await once(supervisor, 'exit')
  expect(readLastLines(logDir(), 1).length).toBeGreaterThanOrEqual(2)
  expect(readState(dir)).toMatchObject({ condition: 'ended' })
})

it('ends a tree that ignores SIGTERM after its time, and goes on through hang-ups', async () => {
  const command = `trap '' TERM HUP; ( setsid sh -c 'trap "" TERM; while :; do sleep 0.2; done' & ); echo up; while :; do sleep 0.2; done`
  const dir = start(command, true)
  await eventually(() => readLastLines(logDir(), 1).includes('up') && members().length >= 3, 'it')
  supervisor.kill('SIGHUP')
  supervisor.kill('SIGINT')
  supervisor.kill('SIGTERM')
  expect((await once(supervisor, 'exit'))[0]).toBe(0)
  expect(members()).toEqual([])
  expect(readState(dir)).toMatchObject({ condition: 'ended', lastEnd: { signal: 'SIGKILL' } })
})

it('keeps what was written in the last moment', async () => {
  start('seq 1 20000; exit 1', false)
  await once(supervisor, 'exit')
  expect(readLastLines(logDir(), 1).at(-1)).toBe('20000')
})

it('a full disk costs lines of the log, never the service', async () => {
  mkdirSync(logDir())
  for (const ahead of [0, 1]) {
    const day = new Date(Date.now() + ahead * 86_400_000).toISOString().slice(0, 10)
    symlinkSync('/dev/full', join(logDir(), `${day}.ndjson`))
  }
  // the last line has no newline, so it is written when the command ends
  const dir = start('printf unfinished', true)
  await eventually(() => (readState(dir)?.restarts ?? 0) >= 1, 'a restart')
  supervisor.kill('SIGTERM')
  expect((await once(supervisor, 'exit'))[0]).toBe(0)
  expect(readState(dir)).toMatchObject({ condition: 'ended' })
})
