// The end of one container: it is stopped, its log is read to the end, it is removed, and only then its row goes.

import { STEPS } from '@berth/shared'
import { inspectOwned, removeContainer, stopContainer } from '../exec/docker/containers.ts'
import type { ObjectRow } from '../journal/objects.ts'
import type { Attempt } from './attempt.ts'
import { keepLog } from './docker-logs.ts'
import { dockerOf } from './docker-scene.ts'

/** Milliseconds until it was gone. One that is gone already is no failure. */
export async function endContainer(attempt: Attempt, row: ObjectRow): Promise<number> {
  const { engine } = dockerOf(attempt)
  const startedAt = performance.now()
  const seen = await inspectOwned(engine, attempt.settings, row.name)
  if (seen) {
    const timeoutMs = Number(row.facts.stopTimeoutMs ?? STEPS.stopTimeoutMs)
    if (seen.state === 'running' || seen.state === 'restarting') {
      await stopContainer(engine, seen.id, timeoutMs)
    }
    await keepLog(attempt, row, seen.id).catch((error: Error) =>
      attempt.output.say(`Warning: the log of ${row.name} could not be kept: ${error.message}`),
    )
    await removeContainer(engine, seen.id)
  }
  attempt.ledger.objects.remove(row)
  return performance.now() - startedAt
}
