// A runner that is there before its attempt: started by the daemon ahead of time, with everything loaded, it waits on its
// stdin for one order (attempt folder and secrets) and then is a runner like any other. Most of the time between a
// request and the first step was the start of a process. If its daemon ends first, stdin ends without an order and so
// does this.
import { openSync, writeSync } from 'node:fs'
import { format } from 'node:util'
import { attemptPaths } from '../journal/attempt-files.ts'
import { readOrder } from '../journal/secrets-pipe.ts'
import type { AgentSettings } from '../settings.ts'
import { runAttempt } from './runner.ts'
import { warmUp } from './warm-up.ts'

export async function runWarm(settings: AgentSettings): Promise<void> {
  const coming = readOrder(process.stdin)
  // an order that comes first does not wait, for an engine that does not answer, say
  await Promise.race([warmUp(settings).catch(() => undefined), coming])
  const order = await coming
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
