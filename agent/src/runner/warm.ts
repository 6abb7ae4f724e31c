// A runner that the daemon starts before there is an attempt: fully loaded, it waits on stdin for one order (attempt
// folder and secrets) and then becomes an ordinary runner. This saves the process start, which was most of the time
// between a request and the first step. If the daemon exits first, stdin closes without an order and the runner exits.
import { openSync, writeSync } from 'node:fs'
import { format } from 'node:util'
import { attemptPaths } from '../journal/attempt-files.ts'
import { readOrder } from '../journal/secrets-pipe.ts'
import type { AgentSettings } from '../settings.ts'
import { runAttempt } from './runner.ts'
import { warmUp } from './warm-up.ts'

export async function runWarm(settings: AgentSettings): Promise<void> {
  const coming = readOrder(process.stdin)
  // an order does not wait for the warm-up, which an unresponsive engine may block
  await Promise.race([warmUp(settings).catch(() => undefined), coming])
  const order = await coming
  if (!order) return
  // from here on output belongs to the attempt, as if its folder had been known from the start
  const log = openSync(attemptPaths(order.dir).runnerLog, 'a', 0o600)
  console.error = (...words: unknown[]) => {
    try {
      writeSync(log, `${format(...words)}\n`)
    } catch {
      // a full disk: a failure to log must not prevent the verdict
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
