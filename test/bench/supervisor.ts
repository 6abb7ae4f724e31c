// npm run bench -- supervisor [--services 20]
//
// The memory that supervision costs: services that write an occasional line, under the packaged agent's supervisor.
// Counts proportional memory (PSS) of everything that is not the service itself: the supervisor and its keepers.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { readSettings, settingsEnvironment } from '../../agent/src/settings.ts'
import { requestSupervisor } from '../../agent/src/supervise/client.ts'
import { startService, stopService } from '../../agent/src/supervise/control.ts'
import { type Instructions, readState, serviceDir } from '../../agent/src/supervise/instructions.ts'
import { AGENT_ENV, AGENT_FLAGS } from '../../scripts/agent-flags.ts'
import { packaged } from './agent.ts'
import { proportionalMB, round } from './figures.ts'
import { goalAtMost } from './goals.ts'

const GOAL_MB = 5
/** Compiled code is written, and the first lines are read. */
const SETTLE_MS = 10_000

function instructionsOf(folder: string, index: number): Instructions {
  return {
    format: 1,
    environmentId: index + 1,
    environmentName: `bench${process.pid}-e${index + 1}`,
    service: 'web',
    taskId: 1,
    commit: '',
    command: 'while :; do date; sleep 5; done',
    directory: '/',
    account: null,
    variablesFile: join(folder, 'variables.sh'),
    env: { PATH: '/usr/bin:/bin' },
    additions: {},
    secretKeys: ['TOKEN'],
    port: null,
    socket: null,
    logDir: join(folder, 'logs', String(index)),
    stopTimeoutMs: 1_000,
    memoryBytes: 64 * 1_024 ** 2,
    cpus: 1,
  }
}

export async function benchSupervisor(count: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'berth-bench-supervisor-'))
  const program = packaged(folder)
  const runDir = join(folder, 'run')
  mkdirSync(runDir, { mode: 0o711 })
  const settings = readSettings({ BERTH_STATE_DIR: folder, BERTH_RUN_DIR: runDir, BERTH_DEV: '1' })
  writeFileSync(join(folder, 'variables.sh'), "TOKEN='hunter2-very-secret'\n")
  const services = Array.from({ length: count }, (_, index) => instructionsOf(folder, index))
  const env = { PATH: process.env.PATH, ...settingsEnvironment(settings), ...AGENT_ENV }
  const supervisor: ChildProcess = spawn(process.execPath, [...AGENT_FLAGS, program, 'supervise'], {
    env,
    stdio: 'inherit',
  })
  try {
    await requestSupervisor(settings, { do: 'ping' })
    for (const of of services) await startService(settings, of, { isVerified: true })
    await delay(SETTLE_MS)
    const keepers = services.map((of) => readState(serviceDir(settings, of))?.keeper?.pid ?? 0)
    const own = proportionalMB(supervisor.pid ?? 0)
    const kept = keepers.map(proportionalMB).reduce((sum, size) => sum + size, 0)
    console.log(`supervision of ${count} services (PSS):`)
    console.log(`  supervisor                         ${round(own)} MB`)
    console.log(`  ${String(count).padStart(2)} keepers                         ${round(kept)} MB`)
    const processor = readFileSync(`/proc/${supervisor.pid}/stat`, 'latin1').split(') ')[1]
    const ticks = (processor ?? '').split(' ').slice(11, 13).map(Number)
    console.log(
      `  processor time since its start     ${((ticks[0] ?? 0) + (ticks[1] ?? 0)) / 100} s`,
    )
    goalAtMost('for each service', (own + kept) / count, GOAL_MB, 'MB')
  } finally {
    for (const of of services) await stopService(settings, of)
    supervisor.kill('SIGTERM')
    rmSync(folder, { recursive: true, force: true })
  }
}
