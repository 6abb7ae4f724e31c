// A daemon broken on purpose, in one of two ways (BERTH_BREAK), to show that the harness catches it:
//   no-journal  accepted attempts do not survive the process: each start deletes the journal
//   no-claim    a runner does not hold its attempt: each is started a second time with the claim removed
// Everything else is the real agent; the product contains none of this.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { startAgent } from '../../agent/src/agent.ts'
import { createExecutor, type Executor } from '../../agent/src/attempts/executor.ts'
import { attemptPaths, readClaim } from '../../agent/src/journal/attempt-files.ts'
import { createLog } from '../../agent/src/log.ts'
import { readSettings } from '../../agent/src/settings.ts'
import { AGENT_MAIN } from '../fixtures/server/programs.ts'

const settings = readSettings(process.env)
const program = [process.execPath, AGENT_MAIN]

if (process.env.BERTH_BREAK === 'no-journal') {
  for (const end of ['', '-wal', '-shm']) {
    rmSync(join(settings.stateDir, `journal.db${end}`), { force: true })
  }
}

function withoutClaim(real: Executor): Executor {
  return {
    ...real,
    spawnRunner(request) {
      const first = real.spawnRunner(request)
      const look = setInterval(() => {
        if (readClaim(request.dir)?.by !== 'runner') return
        clearInterval(look)
        rmSync(attemptPaths(request.dir).claim)
        real.spawnRunner(request)
      }, 5)
      return first
    },
  }
}

const real = createExecutor(settings, program)
const agent = await startAgent(settings, {
  log: createLog('info'),
  program,
  executor: process.env.BERTH_BREAK === 'no-claim' ? withoutClaim(real) : real,
})
process.once('SIGTERM', () => void agent.close().then(() => process.exit(0)))
