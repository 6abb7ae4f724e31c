// The end of one container: it is stopped, its log is read to the end, it is removed, and only then its row goes.

import { STEPS } from '@berth/shared'
import type { ObjectRow } from '../../journal/objects.ts'
import {
  inspectOwned,
  type Observed,
  removeContainer,
  stopContainer,
} from '../../machine/docker/containers.ts'
import { drainContainerLog } from '../../service-logs/drain.ts'
import type { Attempt } from '../attempt.ts'
import { lastSecrets } from '../last-version.ts'
import { dockerOf } from './docker-context.ts'

/** A log that cannot be kept is told, and keeps nothing from being removed. */
async function keepLog(attempt: Attempt, row: ObjectRow, seen: Observed): Promise<void> {
  const { settings, paths, results, secrets, output } = attempt
  const values: Buffer[] = secrets.variables.map(({ value }) => Buffer.from(value))
  if (results.last) values.push(...lastSecrets(paths, results.last))
  try {
    const isWhole = await drainContainerLog(dockerOf(attempt).engine, settings, row, seen, values)
    if (!isWhole) output.say(`Warning: not all of the log of ${row.name} could be read.`)
  } catch (error) {
    output.say(`Warning: the log of ${row.name} was not kept: ${(error as Error).message}`)
  }
}

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
    await keepLog(attempt, row, seen)
    await removeContainer(engine, seen.id)
  }
  attempt.ledger.objects.remove(row)
  return performance.now() - startedAt
}
