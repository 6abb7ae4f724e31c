// A runner that is there before its attempt: started by the daemon ahead of time, with everything loaded, it waits on its
// stdin for one order (attempt folder and secrets) and then is a runner like any other. Most of the time between a
// request and the first step was the start of a process. If its daemon ends first, stdin ends without an order and so
// does this.
import { existsSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { format } from 'node:util'
import { readServiceFile } from '@berth/shared/service-file'
import { loadPty } from '../exec/commands.ts'
import { rehearseSession } from '../exec/docker/build-rehearsal.ts'
import { engineFacts, openEngine } from '../exec/docker/engine.ts'
import { runProgram } from '../exec/programs.ts'
import { openEdge } from '../exec/proxy/client.ts'
import { attemptPaths } from '../journal/attempt-files.ts'
import { readOrder } from '../journal/secrets-pipe.ts'
import type { AgentSettings } from '../settings.ts'
import { runAttempt } from './runner.ts'

/** The first file that a process reads takes it ten times as long as the next one. */
const FIRST_FILE = 'version: 1\ndocker:\n  services:\n    web: { build: ., port: 80 }\n'

async function rehearseBuild(settings: AgentSettings): Promise<void> {
  if (!existsSync(settings.dockerSocket)) return
  const folder = mkdtempSync(join(settings.runDir, 'rehearsal-'))
  try {
    writeFileSync(join(folder, 'Dockerfile'), 'FROM scratch\n')
    await engineFacts(openEngine(settings))
    await rehearseSession(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The first question to the edge, the first program that is started. */
async function rehearseRest(settings: AgentSettings): Promise<void> {
  await runProgram(['true'])
  await openEdge(settings).describe()
}

export async function runWarm(settings: AgentSettings): Promise<void> {
  await loadPty()
  readServiceFile(FIRST_FILE)
  await rehearseBuild(settings).catch(() => undefined) // then the build itself is the first
  await rehearseRest(settings).catch(() => undefined)
  const order = await readOrder(process.stdin)
  if (!order) return
  // from here on what is said belongs to the attempt, as if its folder had been known from the start
  const log = openSync(attemptPaths(order.dir).runnerLog, 'a', 0o600)
  console.error = (...words: unknown[]) => {
    try {
      writeSync(log, `${format(...words)}\n`)
    } catch {
      // a full disk: whoever notes a failure must still get to the verdict
    }
  }
  process.on('uncaughtExceptionMonitor', (error) => console.error(error))
  try {
    await runAttempt(order.dir, settings, order.secrets)
  } catch (error) {
    console.error(error)
    throw error
  }
}
